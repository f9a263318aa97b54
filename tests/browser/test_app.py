"""The app as people use it: the command started, the page driven in a real browser, the answers real vLLM's."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.app_process import RunningApp, Wire, running_app
from workbench import Context, samples

if TYPE_CHECKING:
    from engine import Engine

pytestmark = [pytest.mark.engine, pytest.mark.browser]

QUESTION = samples.QUESTION
WAIT_MS = 120_000
LONG_TOKENS = 4_000
"""An answer that would take minutes: nobody waits for its end."""


@pytest.fixture(scope="module")
def app(eng: Engine) -> Iterator[RunningApp]:
    """The app on the tests' engine, which it finds by itself and leaves running."""
    with running_app() as app:
        yield app
    assert eng.status()["alive"]


@pytest.fixture
def page(app: RunningApp, visit: Callable[..., Page]) -> Page:
    """The page, signed in."""
    return ready(visit(app.address))


def ready(page: Page) -> Page:
    expect(page.locator("#engine")).to_contain_text("Engine ready", timeout=WAIT_MS)
    return page


def upload(page: Page, *paths: Path) -> None:
    """Drop files where the page takes them, and wait until they are counted or refused."""
    page.locator("#files input[type=file]").first.set_input_files(list(paths))


def file_row(page: Page, name: str) -> Locator:
    """A file that waits; by its accessible name, because the page cuts the shown one in two."""
    return page.locator("#files").get_by_role("row", name=name)


def budget(page: Page) -> dict[str, int]:
    """The budget table: tokens by the first column."""
    rows = page.locator("#budget tbody tr").all()
    return {row.locator("th").inner_text(): int(row.locator("td").last.inner_text().replace(",", "")) for row in rows}


def ask(page: Page, question: str = QUESTION, *, max_tokens: int | None = None, temperature: float | None = None) -> None:
    for name, value in (("max-tokens", max_tokens), ("temperature", temperature)):
        if value is not None:
            page.locator(f"#{name} input").fill(str(value))
            page.locator(f"#{name} input").press("Tab")
    page.locator("#question textarea").fill(question)
    page.locator("#send").click()


def answered(page: Page) -> dict[str, str]:
    """Wait for the end of the answer; its usage as the page shows it."""
    expect(page.locator("#usage dl")).to_be_visible(timeout=WAIT_MS)
    return dict(zip(page.locator("#usage dt").all_inner_texts(), page.locator("#usage dd").all_inner_texts(), strict=True))


def sample_context(question: str | None = QUESTION) -> Context:
    context = Context(effort="low")
    for path in samples.paths().values():
        context.add_file(path)
    if question:
        context.ask(question)
    return context


def test_three_files_cost_what_the_notebook_says_they_cost(page: Page, eng: Engine, shoot: Callable[..., Path]) -> None:
    upload(page, *samples.paths().values())
    expect(page.locator("#budget")).to_contain_text("call.wav", timeout=WAIT_MS)
    expected = sample_context(question=None).budget(eng, max_tokens=128)
    assert budget(page) == {line[0]: int(line[3].replace(",", "")) for line in expected.lines()}
    # The table follows the question and the options.
    page.locator("#question textarea").fill(QUESTION)
    expect(page.locator("#budget")).to_contain_text("question", timeout=WAIT_MS)
    page.locator("#max-tokens input").fill("99")
    expect(page.locator("#budget tr", has_text="reserved")).to_contain_text("99", timeout=WAIT_MS)
    expected = sample_context().budget(eng, max_tokens=99)
    assert budget(page) == {line[0]: int(line[3].replace(",", "")) for line in expected.lines()}
    shoot(page, "app-composed", full_page=True)


def test_the_samples_come_by_one_click_and_the_answer_streams(page: Page, eng: Engine, shoot: Callable[..., Path]) -> None:
    page.locator("#samples").click()
    expect(page.locator("#budget")).to_contain_text("question", timeout=WAIT_MS)
    expect(page.locator("#question textarea")).to_have_value(QUESTION)
    page.evaluate(
        """() => {
          window.lengths = new Set();
          new MutationObserver(() => window.lengths.add((document.querySelector("#log .bot")?.textContent ?? "").length))
            .observe(document.querySelector("#log"), { childList: true, subtree: true, characterData: true });
        }"""
    )
    ask(page, max_tokens=64, temperature=2)
    expect(page.locator("#question textarea")).to_have_value("", timeout=WAIT_MS)
    usage = answered(page)
    assert usage["prompt"] == f"{len(sample_context().render(eng)):,} tokens"
    assert page.evaluate("[...window.lengths].filter((length) => length > 0).length") > 3, "the answer came in one piece"
    assert page.locator("#log .bot").inner_text().strip()
    expect(page.locator("#log .user")).to_contain_text("harbour.pdf, chart.png, call.wav")
    if eng.info.random_weights:
        expect(page.locator("#usage")).to_contain_text("Random weights")
        expect(page.locator("#engine")).to_contain_text("never trained")
    # The files have gone with the question; the conversation holds them, and the answer.
    expect(file_row(page, "harbour.pdf")).to_have_count(0)
    expect(page.locator("#budget")).to_contain_text("harbour.pdf")
    assert budget(page)["prompt"] > int(usage["prompt"].split()[0].replace(",", ""))
    shoot(page, "app-answered", full_page=True)


def test_the_routing_of_the_exchange_is_shown_by_the_notebooks_module(page: Page, shoot: Callable[..., Path]) -> None:
    page.locator("#samples").click()
    expect(page.locator("#budget")).to_contain_text("question", timeout=WAIT_MS)
    ask(page, max_tokens=8)
    answered(page)
    routing = page.locator("#routing-map .ink-routing")
    expect(routing).to_be_visible(timeout=WAIT_MS)
    expect(page.locator("#map-note")).to_contain_text("not why the answer came out")
    assert page.evaluate(PAINTED), "the map's canvas is blank"
    # What it asks while one looks around is answered by the app, as by a notebook's kernel.
    page.locator("#routing-map [aria-roledescription='token strip']").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#routing-map .ink-readout")).to_contain_text("expert", timeout=WAIT_MS)
    shoot(page, "app-routing", full_page=True)


PAINTED = """() => {
  const canvas = document.querySelector("#routing-map canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  return seen.size > 3;
}"""


def test_a_second_question_keeps_the_first_in_the_cache(page: Page) -> None:
    page.locator("#samples").click()
    expect(page.locator("#budget")).to_contain_text("question", timeout=WAIT_MS)
    ask(page, max_tokens=4)
    first = answered(page)
    expect(page.locator("#send")).to_be_enabled(timeout=WAIT_MS)
    ask(page, "And of Porto?", max_tokens=4)
    expect(page.locator("#log .user")).to_have_count(2, timeout=WAIT_MS)
    expect(page.locator("#usage dd").first).not_to_have_text(first["prompt"], timeout=WAIT_MS)
    second = answered(page)
    cached, prompt = (int(second[name].split()[0].replace(",", "")) for name in ("from cache", "prompt"))
    assert prompt > cached >= 0.8 * int(first["prompt"].split()[0].replace(",", ""))


@pytest.mark.parametrize("when", ["answer", "prefill"])
def test_stop_ends_the_work_and_not_only_the_picture(page: Page, eng: Engine, tmp_path: Path, when: str) -> None:
    if when == "prefill":
        text = tmp_path / "long.txt"
        text.write_text(" ".join(f"line {n} of a long list" for n in range(20_000)), encoding="utf-8")
        upload(page, text)
        expect(page.locator("#budget")).to_contain_text("long.txt", timeout=WAIT_MS)
    ask(page, "Go on for ever.", max_tokens=LONG_TOKENS, temperature=2)
    if when == "prefill":
        expect(page.locator("#progress [role=progressbar]")).to_be_visible(timeout=WAIT_MS)
    else:
        page.wait_for_function("(document.querySelector('#log .bot')?.textContent ?? '').length > 20", timeout=WAIT_MS)
    assert busy(eng)
    page.locator("#stop").click()
    expect(page.locator("#usage")).to_contain_text("Stopped", timeout=10_000)
    expect(page.locator("#send")).to_be_enabled()
    assert idle(eng), "the engine goes on with a stopped request"
    expect(page.locator("#log")).to_contain_text("not part of the conversation")
    if when == "prefill":
        # The files of a stopped question are still there to be asked about.
        expect(file_row(page, "long.txt")).to_be_visible()


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
    expect(file_row(page, "chart.png")).to_be_visible()
    expect(file_row(page, "corrupt.pdf")).to_have_count(0)
    assert "chart.png" in budget(page)
    shoot(page, "app-bad-files", full_page=True)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [("question", "", "empty"), ("effort", "ultra", "ultra"), ("max-tokens", "0", "room"), ("temperature", "3", "temperature")],
)
def test_a_bad_value_is_refused_before_anything_is_sent(page: Page, field: str, value: str, said: str) -> None:
    page.locator("#question textarea").fill("" if field == "question" else "Why?")
    if field != "question":
        box = page.locator(f"#{field} input")
        box.fill(value)
        box.press("Enter" if field == "effort" else "Tab")
    page.locator("#send").click()
    expect(page.locator("#chat-problem [role=alert]")).to_contain_text(said, timeout=WAIT_MS)
    expect(page.locator("#log .user")).to_have_count(0)
    expect(page.locator("#send")).to_be_enabled()


def test_two_readers_do_not_see_each_other(app: RunningApp, visit: Callable[..., Page]) -> None:
    one, other = ready(visit(app.address)), ready(visit(app.address))
    one.locator("#samples").click()
    expect(one.locator("#budget")).to_contain_text("harbour.pdf", timeout=WAIT_MS)
    other.locator("#question textarea").fill("And I?")
    expect(other.locator("#budget")).to_contain_text("question", timeout=WAIT_MS)
    assert "harbour.pdf" not in other.locator("body").inner_text()
    ask(one, max_tokens=4)
    ask(other, "And I?", max_tokens=4)
    assert answered(one)["prompt"] != answered(other)["prompt"]
    expect(other.locator("#log .user")).to_have_count(1)
    expect(other.locator("#log")).not_to_contain_text("Lisbon")
    # One starts over: the other keeps what it has.
    one.locator("#clear").click()
    expect(one.locator("#log .user")).to_have_count(0, timeout=WAIT_MS)
    expect(one.locator("#budget")).not_to_contain_text("harbour.pdf")
    expect(other.locator("#log .user")).to_have_count(1)


def test_without_the_token_no_route_answers(app: RunningApp) -> None:
    from workbench.app import link, server

    paths = {"/", "/ui/", "/ui/config", "/ui/gradio_api/info", "/ui/assets/x.js", "/widgets/hosted.js", "/blobs/x", "/nowhere"}
    made = server.make_app(link.Link(Seen(), Seen), token="x" * 32)
    paths |= set(routes(made.asgi.app))
    assert len(paths) > 60, "the routes of the mounted page were not found"
    with httpx.Client(base_url=app.url, follow_redirects=False) as client:
        for path in sorted(paths):
            for method in ("GET", "POST"):
                if (method, path) == ("POST", "/login"):
                    continue
                for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "inkling_app=wrong"}):
                    answer = client.request(method, path, headers=headers)
                    assert answer.status_code == 401, (method, path, answer.status_code)
        assert client.get("/ui/config", headers={"authorization": f"Bearer {app.token}"}).status_code == 200


class Seen:
    """Stands where an engine does while routes are listed: nothing asks it anything."""

    info = None


def routes(app: Any, above: str = "") -> Iterator[str]:
    """Paths of an application and of what is mounted in it, parameters filled in."""
    for route in app.routes:
        path = above + getattr(route, "path", "")
        inner = getattr(route, "app", None)
        if hasattr(inner, "routes"):
            yield from routes(inner, path)
        yield re.sub(r"\{[^}]*\}", "x", path) or "/"


def test_the_form_signs_in(app: RunningApp, visit: Callable[..., Page], shoot: Callable[..., Path]) -> None:
    page = visit(app.url + "ui/")
    page.locator("#token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not right")
    shoot(page, "app-login")
    page.locator("#token").fill(app.token)
    page.get_by_role("button", name="Sign in").click()
    ready(page)
    assert app.token not in page.url


def test_an_upload_over_the_limit_is_refused(app: RunningApp) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'--x\r\ncontent-disposition: form-data; name="files"; filename="a.txt"\r\n\r\n'
        for _ in range(257):
            yield bytes(1 << 20)
        yield b"\r\n--x--\r\n"

    headers = {"authorization": f"Bearer {app.token}", "content-type": "multipart/form-data; boundary=x"}
    answer = httpx.post(app.url + "ui/gradio_api/upload", content=pieces(), headers=headers, timeout=120)
    assert answer.status_code == 413


def test_it_fits_a_phone(app: RunningApp, visit: Callable[..., Page], shoot: Callable[..., Path]) -> None:
    page = ready(visit(app.address, width=390, height=844, has_touch=True, is_mobile=True))
    page.locator("#samples").click()
    expect(page.locator("#budget")).to_contain_text("question", timeout=WAIT_MS)
    ask(page, max_tokens=8)
    answered(page)
    expect(page.locator("#routing-map .ink-routing")).to_be_visible(timeout=WAIT_MS)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    shoot(page, "app-phone", full_page=True)


def test_it_is_dark_where_the_reader_likes_it_dark(app: RunningApp, visit: Callable[..., Page], shoot: Callable[..., Path]) -> None:
    page = ready(visit(app.address, color_scheme="dark"))
    page.locator("#samples").click()
    expect(page.locator("#budget")).to_contain_text("question", timeout=WAIT_MS)
    ask(page, max_tokens=8)
    answered(page)
    expect(page.locator("#routing-map .ink-routing")).to_be_visible(timeout=WAIT_MS)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).every((part) => part < 60)")
    shoot(page, "app-dark", full_page=True)


def test_an_engine_that_dies_is_named_and_found_again(eng: Engine, visit: Callable[..., Page], shoot: Callable[..., Path]) -> None:
    wire = Wire(urlsplit(eng.url).port or 80)
    with running_app(f"--url=http://127.0.0.1:{wire.port}", f"--token={eng._connection.token}") as app:
        page = ready(visit(app.address))
        ask(page, "Go on for ever.", max_tokens=LONG_TOKENS, temperature=2)
        page.wait_for_function("(document.querySelector('#log .bot')?.textContent ?? '').length > 20", timeout=WAIT_MS)
        wire.cut()
        expect(page.locator("#chat-problem [role=alert]")).to_contain_text("gone", timeout=WAIT_MS)
        expect(page.locator("#engine")).to_contain_text("No engine", timeout=WAIT_MS)
        expect(page.locator("#send")).to_be_enabled()
        shoot(page, "app-engine-gone", full_page=True)
        page.locator("#question textarea").fill("Still there?")
        page.locator("#send").click()
        expect(page.locator("#chat-problem [role=alert]")).to_contain_text("inkling engine start", timeout=WAIT_MS)
        wire.mend()
        expect(page.locator("#engine")).to_contain_text("Engine ready", timeout=WAIT_MS)
        ask(page, "Still there?", max_tokens=4)
        answered(page)
        wire.cut()
    assert idle(eng)
