"""Budgets: every token in one row, limits and what is said before sending."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.errors import ContextTooLong
from engine.protocol import EngineInfo, Limits
from tests.workbench.mixed_contexts import builders
from workbench import Context
from workbench.parts import TextPart

BUILDERS = builders()


def engine_with(limit_tokens: int) -> EngineInfo:
    return EngineInfo(kind="workbench", model="small", limits=Limits(context_tokens=limit_tokens))


@pytest.mark.parametrize("name", BUILDERS)
def test_rows_add_up_to_the_prompt(name: str, tmp_path: Path) -> None:
    context = BUILDERS[name](tmp_path)
    budget, rendered = context.budget(max_tokens=100), context.render()
    rows = sum(row.tokens for row in budget.rows)
    assert rows + budget.effort_tokens + budget.tools_tokens + budget.framing_tokens == budget.prompt_tokens == len(rendered)
    assert sum(budget.by_modality().values()) == len(rendered)
    assert budget.by_modality()["image"] == sum(item.tokens for item in rendered.media if item.kind == "image")
    assert budget.left_tokens == 1_048_575 - len(rendered) - 100
    assert (budget.tools_tokens > 0) == bool(context.tools)
    assert json.loads(json.dumps(budget.to_json()))["prompt_tokens"] == len(rendered)
    assert f"{len(rendered):,}" in str(budget)


def test_the_same_part_twice_is_two_rows(tmp_path: Path) -> None:
    assert [row.label for row in BUILDERS["same image twice"](tmp_path).budget().rows] == ["image", "image", "question"]


def test_a_document_with_page_images_has_a_row_for_each_kind(tmp_path: Path) -> None:
    rows = BUILDERS["scanned pdf"](tmp_path).budget().rows
    assert [(row.label, row.modality, row.detail) for row in rows[:2]] == [
        ("scan.pdf", "text", "4 pages"),
        ("scan.pdf", "image", "2 page images"),
    ]


def test_the_limit_is_exact_and_names_the_heaviest(tmp_path: Path) -> None:
    context = BUILDERS["samples"](tmp_path)
    needed = len(context.render()) + 50
    context.budget(engine_with(needed), max_tokens=50).check()
    with pytest.raises(ContextTooLong, match=r"by 1: .*heaviest: harbour.pdf") as caught:
        context.budget(engine_with(needed - 1), max_tokens=50).check()
    assert caught.value.detail["limit_tokens"] == needed - 1
    with pytest.raises(ContextTooLong, match="the token budget"):
        context.budget(max_tokens=50).check_below(needed - 1)


def test_recall_beyond_512k_is_told() -> None:
    context = Context()
    context.add_text("word " * 530_000)
    assert any("published retrieval drops" in note for note in context.budget().notes)


def test_html_escapes_and_brings_no_colours() -> None:
    context = Context()
    context.add(TextPart(text="x", name="<script>alert(1)</script>"))
    shown = context.budget()._repr_html_()
    assert "<script>" not in shown
    assert "#" not in shown.replace("&#", "")
    assert "background:none" in shown
    assert "color:inherit" in shown
