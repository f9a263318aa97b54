"""Who comes to the app and what stays: the token, two readers, a reload and a restart, small and dark screens, a dying engine."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.app_page import (
    QUESTION,
    WAIT_MS,
    answered,
    ask,
    ask_at_length,
    idle,
    ready,
    stopped_at_length,
    tab,
    upload,
    waits,
    with_samples,
)
from tests.browser.app_process import RunningApp, Wire, running_app
from workbench import Conversation, samples

if TYPE_CHECKING:
    from engine import Engine

pytestmark = [pytest.mark.engine, pytest.mark.browser]


def test_a_reloaded_page_and_a_restarted_app_go_on_where_they_were(
    eng: Engine, visit: Callable[..., Page], shoot: Callable[..., Path], tmp_path: Path
) -> None:
    with running_app() as app:
        page = ready(visit(app.address))
        with_samples(page)
        ask(page, max_tokens=8, temperature=0)
        usage = answered(page)
        tab(page, "Compose")
        # The samples' picture went with the question; what waits below is the one that is uploaded now.
        expect(waits(page, "chart.png")).to_have_count(0, timeout=WAIT_MS)
        upload(page, samples.paths()["image"])
        expect(waits(page, "chart.png")).to_be_visible(timeout=WAIT_MS)
        page.reload()
        restored(page, usage)

        def reload() -> None:
            page.reload()
            tab(page, "Chat")

        # A long answer runs on while its page is away, and the page follows it again.
        stopped_at_length(page, meanwhile=reload)
        # One that ends while no page looks is kept all the same.
        replies = page.locator(".ink-turn.is-reply").count() + 1
        ask(page, max_tokens=64, temperature=0)
        page.goto("about:blank")
        ended_without_a_page(page, app, replies, tmp_path)
    with running_app("--port", urlsplit(app.url).netloc.rpartition(":")[2]) as again:
        page.goto(again.address)
        ready(page)
        tab(page, "Chat")
        expect(page.locator(".ink-turn.is-reply")).to_have_count(replies, timeout=WAIT_MS)
        shoot(page, "app-restored", full_page=True)
        # The run as one file: a notebook opens it, and so does another browser.
        tab(page, "Compose")
        with page.expect_download() as saved:
            page.locator("#save").click()
        path = tmp_path / saved.value.suggested_filename
        saved.value.save_as(path)
        run = Conversation.load(path)
        assert [turn.kind for turn in run.turns][:2] == ["user", "reply"]
        other = ready(visit(again.address))
        other.locator("input[type=file][accept='.inkling']").set_input_files(path)
        expect(other.locator("#budget")).to_contain_text("harbour.pdf", timeout=WAIT_MS)
        tab(other, "Chat")
        expect(other.locator(".ink-turn.is-reply").first).to_contain_text(run.turns[1].text, timeout=WAIT_MS)


def ended_without_a_page(page: Page, app: RunningApp, replies: int, folder: Path) -> None:
    """Wait until the desk has so many answers, by the run that the app gives this browser as a file."""
    path = folder / "away.inkling"
    for _ in range(600):
        path.write_bytes(page.context.request.get(f"{app.url}desk/run.inkling").body())
        if sum(turn.kind == "reply" for turn in Conversation.load(path).path()) == replies:
            return
        time.sleep(0.1)
    raise AssertionError("the answer did not end while its page was away")


def restored(page: Page, usage: dict[str, int]) -> None:
    expect(waits(page, "chart.png")).to_be_visible(timeout=WAIT_MS)
    tab(page, "Chat")
    assert answered(page) == usage
    expect(page.locator(".ink-turn.is-user")).to_contain_text(QUESTION)


def test_two_readers_do_not_see_each_other(app: RunningApp, visit: Callable[..., Page]) -> None:
    one, other = ready(visit(app.address)), ready(visit(app.address))
    with_samples(one)
    assert "harbour.pdf" not in other.locator("body").inner_text()
    ask(one, max_tokens=4)
    ask(other, "And I?", max_tokens=4)
    assert answered(one)["prompt"] != answered(other)["prompt"]
    expect(other.locator(".ink-turn.is-user")).to_have_count(1)
    expect(other.locator(".ink-chat")).not_to_contain_text("Lisbon")
    # One starts over: the other keeps what it has.
    tab(one, "Compose")
    one.locator("#clear").click()
    expect(one.locator("#budget")).not_to_contain_text("harbour.pdf", timeout=WAIT_MS)
    tab(one, "Chat")
    expect(one.locator(".ink-turn")).to_have_count(0, timeout=WAIT_MS)
    other.reload()
    tab(other, "Chat")
    expect(other.locator(".ink-turn.is-user")).to_have_count(1, timeout=WAIT_MS)


def test_without_the_token_no_route_answers(app: RunningApp, eng: Engine, tmp_path: Path) -> None:
    from workbench.app import link, server

    paths = {"/", "/ui/", "/ui/config", "/ui/gradio_api/info", "/ui/assets/x.js", "/widgets/hosted.js", "/blobs/x", "/nowhere"}
    made = server.make_app(link.Link(eng, lambda: eng), token="x" * 32, folder=tmp_path)
    paths |= set(routes(made.asgi.app))
    assert len(paths) > 60, "the routes of the mounted page were not found"
    assert "/desk/run.inkling" in paths
    with httpx.Client(base_url=app.url, follow_redirects=False) as client:
        for path in sorted(paths):
            for method in ("GET", "POST"):
                if (method, path) == ("POST", "/login"):
                    continue
                for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "inkling_app=wrong; inkling_browser=x"}):
                    answer = client.request(method, path, headers=headers)
                    assert answer.status_code == 401, (method, path, answer.status_code)
        assert client.get("/ui/config", headers={"authorization": f"Bearer {app.token}"}).status_code == 200


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
    with_samples(page)
    shoot(page, "app-phone-compose", full_page=True)
    ask(page, max_tokens=8)
    answered(page)
    shoot(page, "app-phone-chat", full_page=True)
    tab(page, "Inspect")
    expect(page.locator("#routing-map .ink-routing")).to_be_visible(timeout=WAIT_MS)
    shoot(page, "app-phone-inspect", full_page=True)
    for name in ("Compose", "Chat", "Inspect", "Engine"):
        tab(page, name)
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
    assert page.locator("#recipes tbody th").evaluate_all(ON_ONE_LINE)
    shoot(page, "app-phone-engine", full_page=True)
    tab(page, "Compose")
    assert page.locator("#budget tbody td:nth-child(2)").evaluate_all(ON_ONE_LINE)


ON_ONE_LINE = """(cells) => cells.length > 0 && cells.every((cell) => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size <= 1;
})"""
"""No word is broken in two because its column is too narrow."""


def test_it_is_dark_where_the_reader_likes_it_dark(app: RunningApp, visit: Callable[..., Page], shoot: Callable[..., Path]) -> None:
    page = ready(visit(app.address, color_scheme="dark"))
    with_samples(page)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).every((part) => part < 60)")
    shoot(page, "app-dark", full_page=True)
    ask(page, max_tokens=8)
    answered(page)
    shoot(page, "app-dark-chat", full_page=True)


def test_an_engine_that_dies_is_named_and_found_again(eng: Engine, visit: Callable[..., Page], shoot: Callable[..., Path]) -> None:
    wire = Wire(urlsplit(eng.url).port or 80)
    with running_app(f"--url=http://127.0.0.1:{wire.port}", f"--token={eng._connection.token}") as app:
        page = ready(visit(app.address))
        ask_at_length(page)
        wire.cut()
        problem = page.locator(".ink-chat .ink-lost")
        expect(problem).to_contain_text("gone", timeout=WAIT_MS)
        expect(page.locator("#engine")).to_contain_text("No engine", timeout=WAIT_MS)
        shoot(page, "app-engine-gone", full_page=True)
        box = page.locator(".ink-chat").get_by_label("Your message")
        box.fill("Still there?")
        box.press("Enter")
        expect(problem).to_contain_text("inkling engine start", timeout=WAIT_MS)
        expect(box).to_have_value("Still there?")
        wire.mend()
        expect(page.locator("#engine")).to_contain_text("Engine ready", timeout=WAIT_MS)
        replies = page.locator(".ink-chat .ink-turn.is-reply").count()
        ask(page, "Still there?", max_tokens=4)
        answered(page, turns=replies + 1)
        wire.cut()
    assert idle(eng)
