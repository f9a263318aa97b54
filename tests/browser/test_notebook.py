"""The first tutorial as a reader meets it: opened in JupyterLab, run from top to bottom, its routing map driven."""

from pathlib import Path

import pytest

import engine

pytestmark = [pytest.mark.browser, pytest.mark.engine, pytest.mark.timeout(600)]

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "01_first_context.ipynb"
STRIP = "[aria-roledescription='token strip']"


def asked(lab, page, expression: str) -> str:
    """What Python prints for it, once the cells before are done and the widget's messages have arrived."""
    for _ in range(100):
        if found := lab.python(page, f"print({expression})").strip():
            return found
        page.wait_for_timeout(200)
    pytest.fail(f"{expression} stayed empty")


def test_the_first_tutorial_runs_and_its_map_answers_the_keyboard(eng: engine.Engine, lab, visit, shoot) -> None:
    page = visit(width=1400, height=1000)
    lab.open(page, NOTEBOOK)
    lab.run_all(page)
    strip = page.locator(STRIP)
    strip.wait_for(timeout=300_000)
    tokens = int(asked(lab, page, "len(rendered)"))
    assert asked(lab, page, "reply.usage.prompt_tokens") == str(tokens)
    strip.focus()
    for key in ("Home", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    chosen = asked(lab, page, "list(view.selection) or ''")
    start, stop = (int(number) for number in chosen.strip("[]").split(","))
    assert 0 <= start < stop <= tokens
    assert "token" in page.locator(".ink-readout").inner_text().lower()
    shoot(page, "notebook-01")
