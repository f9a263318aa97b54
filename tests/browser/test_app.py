"""The app as people use it: the command started, the page driven in a real browser, the answers real vLLM's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.app_page import (
    LONG_TOKENS,
    STOP,
    UNDER_WAY,
    WAIT_MS,
    answered,
    ask,
    budget,
    busy,
    idle,
    ready,
    sample_context,
    stopped_at_length,
    tab,
    upload,
    waits,
    with_samples,
)  # fmt: skip
from tests.browser.app_process import RunningApp
from workbench import Context, samples

if TYPE_CHECKING:
    from engine import Engine

pytestmark = [pytest.mark.engine, pytest.mark.browser]


def test_files_cost_what_the_notebook_says_they_cost_as_a_table_and_as_a_tree(
    page: Page, eng: Engine, shoot: Callable[..., Path]
) -> None:
    upload(page, *samples.paths().values())
    expect(page.locator("#budget")).to_contain_text("call.wav", timeout=WAIT_MS)
    expected = sample_context(question=None).budget(eng, max_tokens=128)
    assert budget(page) == {line[0]: int(line[3].replace(",", "")) for line in expected.lines()}
    tree = page.locator("#tree")
    tree.locator("summary", has_text="harbour.pdf").click()
    for _, branch in expected.tree.walk():
        if branch.kind == "page":
            expect(tree.locator(".leaf", has_text=branch.label).first).to_contain_text(f"{branch.tokens:,}")
    # Taken away again, by its name.
    waits(page, "harbour.pdf").click()
    expect(page.locator("#budget")).not_to_contain_text("harbour.pdf", timeout=WAIT_MS)
    expect(waits(page, "chart.png")).to_be_visible()
    shoot(page, "app-compose", full_page=True)


def test_a_recording_becomes_a_part_of_the_context(app: RunningApp, chromium: Any, shoot: Callable[..., Path]) -> None:
    """By the browser's fake microphone, which gives a tone."""
    from tests.browser.conftest import ARGUMENTS, CHROMIUM

    fake = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
    browser = chromium.browser_type.launch(executable_path=CHROMIUM, headless=True, args=[*ARGUMENTS, *fake])
    try:
        page = ready(_opened(browser, app.address))
        page.locator("#microphone").get_by_role("button", name="Record").click()
        page.wait_for_timeout(1_500)
        shoot(page, "app-recording")
        page.locator("#microphone").get_by_role("button", name="Stop").click()
        expect(waits(page, "recording.wav")).to_be_visible(timeout=WAIT_MS)
        row = page.locator("#budget tr", has_text="recording.wav")
        expect(row).to_contain_text("audio", timeout=WAIT_MS)
        # 20 tokens a second: the fake device began a moment after the click.
        assert 10 <= budget(page)["recording.wav"] <= 200
    finally:
        browser.close()


def _opened(browser: Any, address: str) -> Page:
    context = browser.new_context(permissions=["microphone"])
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.goto(address)
    return page


def test_the_answer_streams_and_costs_what_the_engine_counted(page: Page, eng: Engine, shoot: Callable[..., Path]) -> None:
    with_samples(page)
    tab(page, "Chat")
    expect(page.locator(".ink-chat .ink-parts")).to_contain_text("harbour.pdf (goes with the next question)", timeout=WAIT_MS)
    page.evaluate(
        """() => {
          window.lengths = new Set();
          new MutationObserver(() => window.lengths.add((document.querySelector(".ink-live .ink-said")?.textContent ?? "").length))
            .observe(document.querySelector(".ink-chat"), { childList: true, subtree: true, characterData: true });
        }"""
    )
    ask(page, max_tokens=64, temperature=2)
    expect(page.locator(".ink-chat").get_by_label("Your message")).to_have_value("")
    usage = answered(page)
    assert usage["prompt"] == len(sample_context().render(eng))
    assert page.evaluate("[...window.lengths].filter((length) => length > 0).length") > 3, "the answer came in one piece"
    expect(page.locator(".ink-turn.is-user .ink-files")).to_have_text("harbour.pdf, chart.png, call.wav")
    shoot(page, "app-chat", full_page=True)
    # The files have gone with the question; the conversation holds them, and the answer.
    tab(page, "Compose")
    expect(waits(page, "harbour.pdf")).to_have_count(0)
    expect(page.locator("#budget")).to_contain_text("harbour.pdf", timeout=WAIT_MS)
    assert budget(page)["prompt"] > usage["prompt"]


def test_what_was_sent_waits_no_longer_while_its_answer_comes(page: Page) -> None:
    for _ in range(8):
        tab(page, "Compose")
        upload(page, samples.paths()["image"])
        expect(waits(page, "chart.png")).to_be_visible(timeout=WAIT_MS)
        ask(page, "Go on for ever.", max_tokens=LONG_TOKENS, temperature=2)
        tab(page, "Compose")
        expect(waits(page, "chart.png")).to_have_count(0, timeout=WAIT_MS)
        expect(page.locator("#budget")).to_contain_text("chart.png", timeout=WAIT_MS)
        if page.evaluate(UNDER_WAY % 0):
            page.evaluate(STOP)
            return
    raise AssertionError("eight answers ended before one could look")


def test_the_routing_of_the_answer_is_shown_by_the_notebooks_module(page: Page, shoot: Callable[..., Path]) -> None:
    with_samples(page)
    ask(page, max_tokens=8, temperature=0)
    answered(page)
    tab(page, "Inspect")
    routing = page.locator("#routing-map .ink-routing")
    expect(routing).to_be_visible(timeout=WAIT_MS)
    expect(page.locator("#map-note")).to_contain_text("not why the answer came out")
    assert page.evaluate(PAINTED), "the map's canvas is blank"
    # What it asks while one looks around is answered by the app, as by a notebook's kernel.
    page.locator("#routing-map [aria-roledescription='token strip']").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#routing-map .ink-readout")).to_contain_text("expert", timeout=WAIT_MS)
    shoot(page, "app-inspect", full_page=True)
    # The other seams, when asked for.
    for label in ("Short convolutions", "Attention of the answer"):
        page.locator("#seams").get_by_label(label).check()
    page.locator("#capture").click()
    for widget in ("sconv-view", "attention-view"):
        expect(page.locator(f"#{widget} .ink-widget")).to_be_visible(timeout=WAIT_MS)
        expect(page.locator(f"#{widget} canvas").first).to_be_visible(timeout=WAIT_MS)
    shoot(page, "app-inspect-all", full_page=True)


PAINTED = """() => {
  const canvas = document.querySelector("#routing-map canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  return seen.size > 3;
}"""


def test_branches_retry_and_a_second_question_that_reads_from_the_cache(page: Page, shoot: Callable[..., Path]) -> None:
    with_samples(page)
    ask(page, max_tokens=8, temperature=0)
    first = answered(page)
    ask(page, "And of Porto?")
    second = answered(page, turns=2)
    assert second["prompt"] > second["cached"] >= 0.8 * first["prompt"]
    chat = page.locator(".ink-chat")
    chat.get_by_role("button", name="Edit this message").last.click()
    chat.get_by_label("Edit the message").last.fill("Where is the fuel dock?")
    chat.get_by_role("button", name="Ask with the edited message").last.click()
    chat.get_by_text("2 of 2").first.wait_for()
    answered(page, turns=2)
    chat.get_by_role("button", name="The branch before").last.click()
    expect(chat.locator(".ink-turn.is-user").last).to_contain_text("And of Porto?", timeout=WAIT_MS)
    shoot(page, "app-branches", full_page=True)


@pytest.mark.parametrize("when", ["answer", "prefill"])
def test_stop_ends_the_work_and_not_only_the_picture(page: Page, eng: Engine, tmp_path: Path, when: str) -> None:
    if when == "prefill":
        text = tmp_path / "long.txt"
        text.write_text(" ".join(f"line {n} of a long list" for n in range(20_000)), encoding="utf-8")
        upload(page, text)
        expect(page.locator("#budget")).to_contain_text("long.txt", timeout=WAIT_MS)
    live = page.locator(".ink-chat .ink-live")
    if when == "prefill":
        ask(page, "Go on for ever.")
        expect(live.locator("[role=progressbar]")).to_be_visible(timeout=WAIT_MS)
        expect(live).to_contain_text("tokens", timeout=WAIT_MS)
        assert busy(eng)
        page.locator(".ink-chat").get_by_role("button", name="Stop the answer").click()
    else:
        stopped_at_length(page)
    expect(page.locator(".ink-turn.is-stopped")).to_contain_text("not part of the conversation", timeout=30_000)
    expect(page.locator(".ink-chat").get_by_role("button", name="Send the message")).to_be_visible()
    assert idle(eng), "the engine goes on with a stopped request"


def test_a_bad_file_is_refused_in_the_page_and_the_good_ones_stay(page: Page, tmp_path: Path, shoot: Callable[..., Path]) -> None:
    corrupt, empty, unknown = tmp_path / "corrupt.pdf", tmp_path / "empty.png", tmp_path / "thing.xyz"
    corrupt.write_bytes(b"%PDF-1.7\nnothing of the kind")
    empty.write_bytes(b"")
    unknown.write_bytes(bytes(range(256)))
    upload(page, corrupt, samples.paths()["image"], empty, unknown)
    problem = page.locator("#compose-problem [role=alert]")
    for name in ("corrupt.pdf", "empty.png", "thing.xyz"):
        expect(problem).to_contain_text(name, timeout=WAIT_MS)
    assert str(tmp_path) not in problem.inner_text()
    assert "/gradio/" not in problem.inner_text()
    expect(waits(page, "chart.png")).to_be_visible()
    expect(waits(page, "corrupt.pdf")).to_have_count(0)
    assert "chart.png" in budget(page)
    shoot(page, "app-bad-files", full_page=True)


def test_tools_are_declared_called_and_answered(page: Page, eng: Engine, shoot: Callable[..., Path]) -> None:
    page.get_by_role("button", name="System text and tools").click()
    page.locator("#tools textarea").fill("{")
    page.locator("#use-tools").click()
    expect(page.locator("#compose-problem [role=alert]")).to_contain_text("not JSON", timeout=WAIT_MS)
    tool = '[{"name": "clock", "description": "The time", "parameters": {"type": "object", "properties": {}}}]'
    page.locator("#tools textarea").fill(tool)
    page.locator("#system textarea").fill("Answer briefly.")
    page.locator("#use-tools").click()
    expect(page.locator("#budget")).to_contain_text("tools", timeout=WAIT_MS)
    expected = Context(system="Answer briefly.", effort="low", tools=[{"name": "clock", "description": "The time",
                       "parameters": {"type": "object", "properties": {}}}])  # fmt: skip
    assert budget(page)["prompt"] == expected.budget(eng, max_tokens=128).prompt_tokens
    tab(page, "Chat")
    # Whether this small model calls is its own affair: a result without a call is refused, and says what it needs.
    page.get_by_role("button", name="Answer a tool call").click()
    page.locator("#tool-name textarea, #tool-name input").first.fill("clock")
    page.locator("#give").click()
    expect(page.locator("#chat-problem [role=alert]")).to_contain_text("called no tool", timeout=WAIT_MS)
    shoot(page, "app-tools", full_page=True)


def test_the_engine_s_state_log_recipes_and_plans(page: Page, eng: Engine, shoot: Callable[..., Path]) -> None:
    tab(page, "Engine")
    status = page.locator("#status .ink-engine")
    expect(status).to_contain_text(eng.info.model, timeout=WAIT_MS)
    status.locator("summary", has_text="Log").click()
    # An engine that was found by its address alone has its log elsewhere.
    expect(status.locator(".ink-log")).to_contain_text("INFO" if eng.log else "inkling engine logs", timeout=WAIT_MS)
    # The status goes on, and what was unfolded stays so.
    page.wait_for_timeout(6_000)
    expect(status.locator(".ink-log")).to_be_visible()
    status.get_by_role("button", name="Stop the engine").click()
    status.get_by_role("button", name="Confirm").click()
    expect(status.locator(".ink-problem[role=alert]")).to_contain_text("inkling engine stop", timeout=WAIT_MS)
    assert eng.status()["alive"]
    expect(page.locator("#recipes")).to_contain_text("inkling-4xgb300")
    page.locator("#plan").click()
    expect(page.locator("#planned")).to_contain_text("Unverified on hardware", timeout=WAIT_MS)
    page.locator("#plan-requests input").fill("0")
    page.locator("#plan-requests input").press("Tab")
    page.locator("#plan").click()
    expect(page.locator("#planned [role=alert]")).to_contain_text("at least one", timeout=WAIT_MS)
    shoot(page, "app-engine", full_page=True)
