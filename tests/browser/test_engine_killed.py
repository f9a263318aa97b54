"""An engine killed under a notebook's widgets, and another one started on another port: what was on the page goes on with it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import engine
from engine import discovery
from tests.browser.widget_pages import eventually, open_cells

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]

CELLS = (
    """import os
os.environ |= {own!r}
os.environ.pop("INKLING_ENGINE_URL", None)
import engine
from workbench import CapturePlan, Context
from widgets import Chat, EngineStatus, SconvView
eng = engine.attach()
context = Context(system="Answer briefly.", effort="none")
context.add_document(b"The harbour master is Ana Duarte.", name="note.txt")
chat = Chat(eng, context, max_tokens=8, temperature=0)
chat""",
    "status = EngineStatus(eng)\nstatus",
    """asked = context.copy()
asked.ask("Who is it?")
reply = eng.generate(asked, max_tokens=4, temperature=0)
sconv = SconvView(eng.capture(reply, CapturePlan(sconv=True)), engine=eng, reply=reply)
sconv""",
)


def test_every_widget_goes_on_with_the_engine_that_came_after(lab, visit, shoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own = {"JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"), "INKLING_CACHE": str(tmp_path / "cache")}
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("INKLING_ENGINE_URL", raising=False)
    first = engine.start("demo")
    page = open_cells(lab, visit, tmp_path / "killed.ipynb", *(cell.replace("{own!r}", repr(own)) for cell in CELLS), height=2600)
    chat, status, sconv = (page.locator(f".ink-{name}") for name in ("chat", "engine", "sconv"))
    box = chat.get_by_label("Your message")
    box.fill("Who is the harbour master?")
    box.press("Enter")
    chat.locator(".ink-turn.is-reply").wait_for()
    said = chat.locator(".ink-turn.is-reply .ink-said").inner_text()
    sconv.get_by_role("checkbox", name="after the MLP").wait_for()

    (found,) = discovery.running()
    os.killpg(found.presence.pid, signal.SIGKILL)

    # Each says so when it is asked for something, or looks by itself; what was drawn stays.
    status.get_by_text("The numbers below are the last ones it gave.").wait_for()
    box.fill("Is it open?")
    box.press("Enter")
    chat.locator(".ink-lost").get_by_text("Lost with it: what it had cached").wait_for()
    sconv.get_by_role("checkbox", name="after the MLP").check()
    sconv.get_by_role("button", name="Ask the question again without").click()
    sconv.locator(".ink-lost").get_by_text("Lost with it").wait_for()
    assert chat.locator(".ink-turn.is-reply .ink-said").first.inner_text() == said
    # None runs yet: that is said, and the button stays.
    chat.locator(".ink-lost").get_by_role("button", name="Look for the engine that runs now").click()
    chat.locator(".ink-lost").get_by_text("no engine is running").wait_for()
    shoot(page, "engine-killed")

    second = engine.start("demo")
    try:
        assert second.url != first.url
        for widget in (chat, status, sconv):
            lost = widget.locator(".ink-lost")
            if lost.is_visible():  # the status looks by itself, and one client serves them all
                lost.get_by_role("button", name="Look for the engine that runs now").click()
                lost.wait_for(state="hidden")
        eventually(lab, page, f"eng.url == {second.url!r}", "True")
        before = chat.locator(".ink-turn.is-reply").count()
        box.fill("Who is the harbour master, again?")
        box.press("Enter")
        page.wait_for_function(f"() => document.querySelectorAll('.ink-chat .ink-turn.is-reply').length > {before}")
        sconv.get_by_role("button", name="Ask the question again without").click()
        sconv.locator(".ink-result").wait_for()
        status.get_by_text(second.info.model, exact=True).first.wait_for()
        assert "not answering" not in status.inner_text()
        shoot(page, "engine-killed-and-back")
    finally:
        second.stop()
