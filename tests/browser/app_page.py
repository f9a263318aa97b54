"""What the app's tests do on its page: the steps of a reader, and what the page then says."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import Locator, Page, expect

from workbench import Context, samples

if TYPE_CHECKING:
    from engine import Engine

QUESTION = samples.QUESTION
WAIT_MS = 120_000
LONG_TOKENS = 4_000
"""An answer that would take minutes: nobody waits for its end."""


def ready(page: Page) -> Page:
    expect(page.locator("#engine")).to_contain_text("Engine ready", timeout=WAIT_MS)
    expect(page.locator("#budget table")).to_be_visible(timeout=WAIT_MS)
    return page


def tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def upload(page: Page, *paths: Path) -> None:
    """Drop files where the page takes them."""
    page.locator("#files input[type=file]").first.set_input_files(list(paths))


def waits(page: Page, name: str) -> Locator:
    """A file that waits for its question."""
    return page.locator("#waiting label", has_text=name)


def budget(page: Page) -> dict[str, int]:
    """The budget table: tokens by the first column."""
    rows = page.locator("#budget tbody tr").all()
    return {row.locator("th").inner_text(): int(row.locator("td").last.inner_text().replace(",", "")) for row in rows}


def ask(page: Page, question: str = QUESTION, *, max_tokens: int | None = None, temperature: float | None = None) -> None:
    """Ask in the chat, and see the question there."""
    tab(page, "Chat")
    chat = page.locator(".ink-chat")
    for label, value in (("Answer up to", max_tokens), ("Temperature", temperature)):
        if value is not None:
            chat.get_by_label(label).fill(str(value))
            chat.get_by_label(label).press("Tab")
    before = chat.locator(".ink-turn.is-user").count()
    box = chat.get_by_label("Your message")
    box.fill(question)
    box.press("Enter")
    expect(chat.locator(".ink-turn.is-user")).to_have_count(before + 1, timeout=WAIT_MS)


COME = """[...document.querySelectorAll(".ink-chat %s :is(.ink-reasoning, .ink-said)")].map((el) => el.textContent).join("")"""
"""What has come of an answer: at temperature 2 it may all be reasoning."""

LIVE = COME % ".ink-live:not([hidden])"
"""Of the one under way. Its element stays in the page when there is none, hidden."""

UNDER_WAY = f"({LIVE}.length > %d)"
"""An answer is being written and has more characters than that."""

SETTLED = """(() => {
  const turns = [...document.querySelectorAll(".ink-chat .ink-turn")];
  return turns.length > 0 && !turns.at(-1).matches(".is-user") && document.querySelector(".ink-chat .ink-live[hidden]") !== null;
})()"""
"""Nothing is under way, and the last question has its answer, whole or in part. A state, and no event that one could miss."""


PROBLEM = (
    """[...document.querySelectorAll(".ink-chat :is(.ink-problem, .ink-lost):not([hidden])")].map((el) => el.innerText).join()"""
)
"""Why there is no answer."""

STOP = """() => {
  const live = document.querySelector(".ink-chat .ink-live:not([hidden])");
  if (live) document.querySelector(".ink-chat [title='Stop the answer']").click();
}"""
"""Look and press in one go: between a look and a click of its own an answer can end, and the button is gone."""


def ask_at_length(page: Page) -> None:
    """Have an answer under way that goes on for long: at temperature 2 many end early, and few that are past 400 characters."""
    for _ in range(30):
        ask(page, "Go on for ever.", max_tokens=LONG_TOKENS, temperature=2)
        if still_under_way(page, 400):
            return
    raise AssertionError("thirty answers at temperature 2 ended early")


def still_under_way(page: Page, characters: int) -> bool:
    """Wait until the answer under way is so long, or has ended; whether it goes on."""
    page.wait_for_function(f"{UNDER_WAY % characters} || {SETTLED} || {PROBLEM}", timeout=WAIT_MS)
    assert not page.evaluate(PROBLEM)
    return page.evaluate(UNDER_WAY % characters)


def stopped_at_length(page: Page, *, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Stop a long answer while it comes, after `meanwhile`. One that ended before that is no such answer: another is asked."""
    for _ in range(8):
        ask_at_length(page)
        meanwhile()
        if still_under_way(page, 450):
            page.evaluate(STOP)
            page.wait_for_function(SETTLED, timeout=WAIT_MS)
            if page.locator(".ink-turn.is-stopped").count():
                return
    raise AssertionError("eight long answers ended before they were stopped")


def answered(page: Page, turns: int = 1) -> dict[str, int]:
    """Wait for the end of the answer; what it cost, as the page says."""
    replies = page.locator(".ink-chat .ink-turn.is-reply")
    expect(replies).to_have_count(turns, timeout=WAIT_MS)
    said = replies.last.locator(".ink-usage").inner_text()
    read, cached, written = (int(item.replace(",", "")) for item in re.findall(r"([\d,]+) (?:tokens read|of them|written)", said))
    return {"prompt": read, "cached": cached, "answer": written}


def sample_context(question: str | None = QUESTION) -> Context:
    context = Context(effort="low")
    for path in samples.paths().values():
        context.add_file(path)
    if question:
        context.ask(question)
    return context


def with_samples(page: Page) -> None:
    page.locator("#samples").click()
    expect(page.locator("#budget")).to_contain_text("call.wav", timeout=WAIT_MS)


def idle(eng: Engine, *, looks: int = 50) -> bool:
    """Whether nothing runs any more, looking some times; a step of the engine may have begun when Stop was pressed."""
    for _ in range(looks):
        if not busy(eng):
            return True
        time.sleep(0.1)
    return False


def busy(eng: Engine) -> bool:
    """Whether the engine has a request; its own counters lag behind a long first step, so its list of requests counts too."""
    status = eng.status()
    return bool(status["running"] + status["waiting"] or status["requests"])
