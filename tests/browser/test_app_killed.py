"""A real engine killed under the app while an answer streams: the page says so, has another one started, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import engine
from tests.browser.app_page import COME, LIVE, WAIT_MS, answered, ask, ask_at_length, ready, tab, waits, with_samples
from tests.browser.app_process import running_app
from tests.kernel.test_life import assert_all_gone, family, named, pid_of
from workbench import samples

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]

START_MS = 300_000


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place of its own for engines that are killed, and for those that take their place."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("INKLING_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("INKLING_ENGINE_URL", raising=False)
    monkeypatch.delenv("INKLING_ENGINE_TOKEN", raising=False)
    yield tmp_path
    for found in engine.list():
        engine.attach(found.url).stop()


def test_killed_while_an_answer_streams_and_started_again_from_the_page(
    own: Path, visit: Callable[..., Page], shoot: Callable[..., Path]
) -> None:
    engine.start("demo", say=lambda _: None)
    with running_app() as app:
        page = ready(visit(app.address))
        with_samples(page)
        ask(page, max_tokens=8, temperature=0)
        answered(page)
        first = page.locator(".ink-turn.is-reply").first.inner_text()
        for victim in ("EngineCore", "engine.kernel"):
            ask_at_length(page)
            seen = page.evaluate(LIVE)
            processes = family(pid_of(engine.attach()))
            began = time.monotonic()
            named(processes, victim).kill()
            problem = page.locator(".ink-chat .ink-lost")
            expect(problem).to_be_visible(timeout=WAIT_MS)
            said_s = time.monotonic() - began
            # What had come is still there, and why it ended.
            expect(page.locator(".ink-turn.is-stopped")).to_contain_text("The engine ended here")
            assert page.evaluate(COME % ".is-stopped").startswith(seen[:300])
            strip = page.locator("#engine")
            expect(strip).to_contain_text("inkling engine start", timeout=WAIT_MS)
            begin = page.get_by_role("button", name="Start the engine again")
            expect(begin).to_be_visible()
            shoot(page, f"app-killed-{victim.lower().replace('.', '-')}", full_page=True)
            print(f"{victim}: said after {said_s:.1f} s")  # noqa: T201 - shown with -s; a timing is no test
            assert_all_gone(processes)
            # Meanwhile the reader writes on, and composes.
            box = page.locator(".ink-chat").get_by_label("Your message")
            box.fill("Still there?")
            tab(page, "Compose")
            page.locator("#files input[type=file]").first.set_input_files(samples.paths()["image"])
            expect(waits(page, "chart.png")).to_be_visible(timeout=WAIT_MS)
            waits(page, "chart.png").click()
            tab(page, "Chat")
            begin.click()
            expect(strip).to_contain_text("Starting an engine", timeout=WAIT_MS)
            shoot(page, "app-starting", full_page=True)
            expect(strip).to_contain_text("Engine ready", timeout=START_MS)
            expect(begin).to_be_hidden()
            expect(box).to_have_value("Still there?")
            box.fill("")
            replies = page.locator(".ink-turn.is-reply").count()
            page.locator(".ink-chat").get_by_label("Answer up to").fill("8")
            page.locator(".ink-chat").get_by_label("Answer up to").press("Tab")
            page.locator(".ink-chat").get_by_role("button", name="Ask for the answer to this message again").last.click()
            answered(page, replies + 1)
            assert page.locator(".ink-turn.is-reply").first.inner_text() == first
        shoot(page, "app-after-two-deaths", full_page=True)
