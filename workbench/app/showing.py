"""Small pieces of the page as HTML: everything that is not a component of its own. Escapes whatever came from outside."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from engine.protocol import EngineInfo

if TYPE_CHECKING:
    from engine.planner import Plan
    from engine.recipes import Recipe
    from workbench import Budget
    from workbench.budget_trees import Branch

    from .link import Sight

MOST_CHILDREN = 200
"""Branches drawn below one; the budget has all."""

NOISE = (
    "Random weights: this checkpoint was never trained, so its answers are noise. "
    "Token counts, budgets, timings and routing are real."
)


def problem_html(*problems: str) -> str:
    """Errors, one a line, announced to screen readers; empty for none."""
    if not problems:
        return ""
    lines = "".join(f"<p>{escape(_sentence(text))}</p>" for text in problems)
    return f'<div class="problem" role="alert">{lines}</div>'


def _sentence(text: str) -> str:
    """An error message as a sentence of its own; a file's name at its beginning stays as it is."""
    first = text.split(" ", 1)[0]
    return text[:1].upper() + text[1:] if first.isalpha() else text


def note_html(text: str) -> str:
    """A quiet remark."""
    return f'<p class="note">{escape(text)}</p>'


def engine_html(sight: Sight) -> str:
    """The engine in one line; below it what a reader must know."""
    if sight.starting:
        words = f"Starting an engine: {sight.starting}"
        return f'<div class="engine gone" role="status"><span class="dot"></span><strong>{escape(words)}</strong></div>'
    if sight.info is None:
        return f'<div class="engine gone"><span class="dot"></span><strong>No engine</strong></div>{problem_html(sight.problem)}'
    info: EngineInfo = sight.info
    facts = [escape(info.model), f"context {info.limits.context_tokens:,} tokens"]
    if info.recipe:
        facts.insert(0, f"recipe {escape(info.recipe)}")
    if info.kind == "vllm":
        facts.append("plain vLLM server: no captures")
    line = " · ".join(facts)
    notice = f'<p class="notice" role="note">{NOISE}</p>' if info.random_weights else ""
    return (
        f'<div class="engine"><span class="dot"></span><strong>Engine ready</strong><span class="facts">{line}</span></div>{notice}'
    )


def budget_html(budget: Budget) -> str:
    """The budget's own table, and a warning when it does not fit."""
    over = -budget.left_tokens
    warning = problem_html(f"Too long by {over:,} tokens: take something out, or reserve less for the answer.") if over > 0 else ""
    return warning + budget._repr_html_()


def tree_html(tree: Branch) -> str:
    """Where the tokens are, as a tree that folds: folders, parts, pages; the heaviest first."""
    if not tree.children:
        return ""
    return (
        f'<div class="tree"><h3>Where the tokens are</h3>{"".join(_branch(child, tree.tokens) for child in _heaviest(tree))}</div>'
    )


def _branch(branch: Branch, total: int) -> str:
    share = branch.tokens / max(total, 1)
    row = (
        f'<span class="label">{escape(branch.label)}</span><span class="bar"><span style="width:{share:.1%}"></span></span>'
        f'<span class="tokens">{branch.tokens:,}</span>'
    )
    if not branch.children:
        return f'<div class="leaf">{row}</div>'
    below = "".join(_branch(child, total) for child in _heaviest(branch)[:MOST_CHILDREN])
    more = len(branch.children) - MOST_CHILDREN
    left = f'<div class="leaf">and {more:,} more</div>' if more > 0 else ""
    return f"<details><summary>{row}</summary>{below}{left}</details>"


def _heaviest(branch: Branch) -> list[Branch]:
    return sorted(branch.children, key=lambda child: child.tokens, reverse=True)


def recipes_html(found: Sequence[Recipe]) -> str:
    """The recipes that come along, and what of them is verified."""
    rows = "".join(
        f'<tr><th scope="row">{escape(recipe.name)}</th><td>{escape(recipe.title)}</td>'
        f"<td>{escape(f'{recipe.hardware.count} × {recipe.hardware.gpu}' if recipe.hardware else 'CPU')}</td>"
        f"<td>{escape('; '.join(recipe.verified))}</td></tr>"
        for recipe in found
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("Recipe", "What it is", "Hardware", "Verified"))
    start = "<p class='note'>Start one on the engine's machine: <code>inkling engine start NAME</code></p>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{start}"


def plan_html(plan: Plan) -> str:
    """A plan in the planner's own words."""
    state = "fits" if plan.fits else "no-fit"
    return f'<pre class="plan {state}" tabindex="0">{escape(str(plan))}</pre>'
