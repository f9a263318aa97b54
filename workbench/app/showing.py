"""Small pieces of the page as HTML: everything that is not a component of its own. Escapes whatever came from outside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from engine.protocol import EngineInfo

if TYPE_CHECKING:
    from workbench import Budget

    from .desk import Turn
    from .link import Sight

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


def progress_html(turn: Turn) -> str:
    """Prefill as a bar; nothing once the answer runs."""
    if not turn.running or turn.text or turn.reasoning:
        return ""
    if turn.total_tokens == 0:
        return '<p class="progress-line">Sending…</p>'
    share = turn.done_tokens / turn.total_tokens
    words = "Waiting for other requests" if turn.waiting else "Reading the context"
    return (
        f'<div class="progress-line" role="progressbar" aria-label="{words}" aria-valuemin="0" '
        f'aria-valuemax="{turn.total_tokens}" aria-valuenow="{turn.done_tokens}">'
        f"<span>{words}: {turn.done_tokens:,} of {turn.total_tokens:,} tokens</span>"
        f'<span class="bar"><span style="width:{share:.1%}"></span></span></div>'
    )


def usage_html(turn: Turn) -> str:
    """What the finished answer cost, and what its reader must know."""
    if turn.stopped:
        return note_html("Stopped. The question and its partial answer are not part of the conversation.")
    reply = turn.reply
    if reply is None:
        return ""
    use, times = reply.usage, reply.timings
    facts = {
        "prompt": f"{use.prompt_tokens:,} tokens",
        "from cache": f"{use.cached_tokens:,} tokens",
        "answer": f"{use.completion_tokens:,} tokens",
        "first token": f"{times.first_token_s:.2f} s",
        "total": f"{times.total_s:.2f} s",
        "ended": {"stop": "by itself", "length": "at the limit", "abort": "aborted"}[reply.finish_reason],
    }
    pairs = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    notices = "".join(f'<p class="notice">{escape(text)}</p>' for text in reply.notices)
    return f'<dl class="usage">{pairs}</dl>{notices}'


def messages(turns: Sequence[Turn], running: Turn | None = None) -> list[dict[str, Any]]:
    """The conversation as the chat component's messages: questions, folded reasoning, answers."""
    shown: list[dict[str, Any]] = []
    last = () if running is None or running in turns or not running.accepted else (running,)
    for turn in (*turns, *last):
        names = f"\n\n*{_plain(', '.join(turn.files))}*" if turn.files else ""
        shown.append({"role": "user", "content": _plain(turn.question) + names})
        if turn.reasoning:
            thinking = turn.running and not turn.text
            shown.append(
                {
                    "role": "assistant",
                    "content": _plain(turn.reasoning),
                    "metadata": {"title": "Thinking…" if thinking else "Thinking", "status": "pending" if thinking else "done"},
                }
            )
        for call in turn.calls:
            shown.append({"role": "assistant", "content": f"```json\n{call}\n```", "metadata": {"title": "Tool call"}})
        if turn.text:
            shown.append({"role": "assistant", "content": markdown(turn.text)})
        elif turn.reply is not None and not turn.calls:
            shown.append({"role": "assistant", "content": "*(no text)*"})
        if turn.accepted and not turn.running and turn.reply is None:
            why = "Stopped" if turn.stopped else "Broke off"
            shown.append({"role": "assistant", "content": f"*{why}: not part of the conversation.*"})
    return shown


def markdown(text: str) -> str:
    """An answer as Markdown that loses none of it: what looks like a tag or a picture stays text.

    Code stays as it is: there, signs stand for themselves already.

    Examples
    --------
    >>> markdown("<think> is `<think>`, ![a](b)")
    '&lt;think> is `<think>`, \\\\!\\\\[a](b)'
    """
    pieces = re.split(r"(```.*?(?:```|$)|~~~.*?(?:~~~|$)|(?<!`)(`+)(?!`)(?:.*?[^`])\2(?!`))", text, flags=re.DOTALL)
    # re.split gives text, code, the code's fence, text, …; unmatched groups are None.
    return "".join((piece or "") if i % 3 == 1 else "" if i % 3 == 2 else _kept(piece) for i, piece in enumerate(pieces))


def _kept(text: str) -> str:
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text).replace("![", "\\!\\[")


def _plain(text: str) -> str:
    """Text in which Markdown's signs stand for themselves."""
    return "".join(f"\\{sign}" if sign in "\\`*_{}[]()#+-.!|<>~$&" else sign for sign in text)
