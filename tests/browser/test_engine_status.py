"""The engine's status in JupyterLab: a running engine's numbers, its log, and stopping only after a second word."""

from __future__ import annotations

import pytest

from tests.browser.widget_pages import check_qualities, eventually, looks, open_cells

pytestmark = [pytest.mark.browser, pytest.mark.engine]


def test_status_shows_the_engine_and_asks_before_it_stops_it(eng, lab, visit, shoot, tmp_path):
    page = open_cells(
        lab, visit, tmp_path / "status.ipynb",
        "import engine\nfrom widgets import EngineStatus\neng = engine.attach()\nstatus = EngineStatus(eng)\nstatus",
    )  # fmt: skip
    panel = page.locator(".ink-engine")
    panel.get_by_text(eng.info.model, exact=True).first.wait_for()
    assert f"{eng.info.limits.context_tokens:,} tokens of context" in panel.inner_text()

    before = eng.status()["generated_tokens"]
    asked = "from workbench import Context\nc = Context()\nc.ask('Say something.')\n"
    lab.python(page, asked + "r = eng.generate(c, max_tokens=8, temperature=0)")
    assert eng.status()["generated_tokens"] >= before + 1
    # The engine's own counter moved, and so does the widget's; others may use this engine too.
    eventually(lab, page, f"status.status['generated_tokens'] >= {before + 1}", "True")

    panel.locator("summary", has_text="Log").click()
    page.wait_for_function("() => document.querySelector('.ink-engine .ink-log').textContent.length > 0")
    check_qualities(page, ".ink-engine")
    looks(page, ".ink-engine", "engine-status", shoot)

    panel.get_by_role("button", name="Stop the engine, for everyone").click()
    panel.get_by_role("button", name="Leave the engine running").click()
    assert panel.get_by_role("button", name="Stop the engine, for everyone").is_visible()
    assert eng.status()["alive"]

    # An engine that does not answer is a state: the last numbers stay, marked as such.
    lab.python(page, "eng._connection.url = 'http://127.0.0.1:9'\nstatus.refresh()")
    panel.get_by_text("The numbers below are the last ones it gave.").wait_for()
    assert "not answering" in panel.inner_text()
    shoot(panel, "engine-status-lab-gone")
    panel.get_by_role("button", name="Look for the engine that runs now").click()
    panel.locator(".ink-lost").wait_for(state="hidden")
    eventually(lab, page, "bool(status.problem), status.watch.engine.url == engine.attach().url", "False True")
