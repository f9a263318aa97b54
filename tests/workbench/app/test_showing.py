"""What the page shows as HTML of its own: all of it, and nothing that acts."""

from __future__ import annotations

import pytest

from engine import recipes
from engine.planner import plan
from workbench import Context
from workbench.app.showing import plan_html, problem_html, recipes_html, tree_html


def test_problems_are_escaped_and_announced() -> None:
    assert problem_html("<script>") == '<div class="problem" role="alert"><p>&lt;script&gt;</p></div>'


def test_the_tree_has_every_part_and_page_with_its_tokens_and_escapes_names() -> None:
    context = Context()
    context.add_document(b"one\ntwo", name="src/<b>.txt")
    context.add_text("Words.", name="note")
    budget = context.budget()
    shown = tree_html(budget.tree)
    for _, branch in budget.tree.walk():
        if branch.kind != "context":
            assert f'<span class="tokens">{branch.tokens:,}</span>' in shown
    assert "&lt;b&gt;.txt" in shown
    assert "<b>" not in shown
    assert tree_html(Context().budget().tree) == ""


def test_recipes_say_what_is_verified_and_plans_speak_the_planner_s_words() -> None:
    found = [recipes.load(name) for name in recipes.names()]
    shown = recipes_html(found)
    assert all(recipe.name in shown for recipe in found)
    assert "unverified on hardware" in shown
    planned = plan(recipes.load("inkling-4xgb300"), gpu_name="H200")
    assert not planned.fits
    assert 'class="plan no-fit"' in plan_html(planned)
    assert planned.reasons[0][:20] in plan_html(planned)


@pytest.mark.parametrize("text", ["report.pdf: no", "a file", "Already. Fine"])
def test_a_message_becomes_a_sentence(text: str) -> None:
    first = text.split(" ", 1)[0]
    assert (text if not first.isalpha() else text[:1].upper() + text[1:]) in problem_html(text)
