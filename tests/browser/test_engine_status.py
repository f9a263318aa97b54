"""The engine's status in JupyterLab: a running engine's numbers, its log, and stopping only after a second word."""

from __future__ import annotations

import nbformat
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.engine]


def test_status_shows_the_engine_and_asks_before_it_stops_it(eng, lab, visit, shoot, tmp_path):
    cells = ["import engine\nfrom widgets import EngineStatus\neng = engine.attach()\nstatus = EngineStatus(eng)\nstatus"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, tmp_path / "status.ipynb")
    page = visit(width=1200, height=1000)
    lab.open(page, tmp_path / "status.ipynb")
    lab.run_all(page)
    panel = page.locator(".ink-engine")
    panel.get_by_text(eng.info.model, exact=True).first.wait_for()
    assert f"{eng.info.limits.context_tokens:,} tokens of context" in panel.inner_text()

    before = eng.status()["generated_tokens"]
    asked = "from workbench import Context\nc = Context()\nc.ask('Say something.')\n"
    lab.python(page, asked + "r = eng.generate(c, max_tokens=8, temperature=0)")
    assert eng.status()["generated_tokens"] >= before + 1  # the engine's own counter moved, and so does the widget's
    wanted = eng.status()["generated_tokens"]
    for _ in range(100):
        if float(lab.python(page, "print(status.status['generated_tokens'])")) == wanted:
            break
        page.wait_for_timeout(100)
    assert float(lab.python(page, "print(status.status['generated_tokens'])")) == wanted

    panel.locator("summary", has_text="Log").click()
    page.wait_for_function("() => document.querySelector('.ink-engine .ink-log').textContent.length > 0")
    shoot(panel, "engine-status-lab")

    panel.get_by_role("button", name="Stop the engine, for everyone").click()
    panel.get_by_role("button", name="Leave the engine running").click()
    assert panel.get_by_role("button", name="Stop the engine, for everyone").is_visible()
    assert eng.status()["alive"]

    # An engine that does not answer is a state: the last numbers stay, marked as such.
    lab.python(page, "eng._connection.url = 'http://127.0.0.1:9'\nstatus.refresh()")
    panel.get_by_text("The numbers below are the last ones it gave.").wait_for()
    assert "not answering" in panel.inner_text()
    shoot(panel, "engine-status-lab-gone")
