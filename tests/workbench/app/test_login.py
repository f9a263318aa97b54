"""The login wall: nothing passes without the token, whatever the path, the method or the protocol."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import urljoin

import httpx
import pytest

from workbench.app.login import BROWSER_COOKIE, POLICY, LoginWall
from workbench.app.server import _below

TOKEN = "the-token-of-this-test"


async def inner(scope, receive, send):
    """An application that says which path it was asked for."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


def ask(wall: LoginWall, *requests: tuple, cookies: bool = True) -> list[httpx.Response]:
    """Send requests one after the other, as one browser."""

    async def talk() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=wall)
        async with httpx.AsyncClient(transport=transport, base_url="http://app.test") as client:
            found = []
            for method, path, options in requests:
                found.append(await client.request(method, path, **options))
                if not cookies:
                    client.cookies.clear()
            return found

    return asyncio.run(talk())


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/ui/", "/ui/config", "/blobs/x", "/login/", "//login", "/LOGIN", "/ui/../", "/ui?token="])
def test_without_the_token_nothing_passes(method: str, path: str) -> None:
    (answer,) = ask(LoginWall(inner, token=TOKEN), (method, path, {}))
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("given", ["wrong", "", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "é", "\udc80"])
def test_a_wrong_token_is_refused_in_every_form(given: str) -> None:
    as_text = given.encode("utf-8", "surrogateescape").decode("latin-1")
    answers = ask(
        LoginWall(inner, token=TOKEN),
        ("GET", "/", {"params": {"token": as_text}}),
        ("POST", "/login", {"data": {"token": as_text}}),
        ("GET", "/ui/", {"headers": [(b"authorization", b"Bearer " + as_text.encode("latin-1"))]}),
        ("GET", "/ui/", {"headers": [(b"cookie", b"inkling_app_00000000=" + as_text.encode("latin-1"))]}),
        ("GET", "/ui/", {}),
    )
    assert [answer.status_code for answer in answers] == [401] * 5


def test_the_address_signs_in_once_and_hides_the_token() -> None:
    first, then = ask(LoginWall(inner, token=TOKEN), ("GET", f"/?token={TOKEN}", {}), ("GET", "/ui/", {}))
    assert first.status_code == 303
    assert first.headers["location"] == "./"
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert TOKEN not in cookie
    assert then.status_code == 200
    assert then.headers["content-security-policy"] == POLICY


def test_the_form_signs_in_and_says_when_the_token_is_wrong() -> None:
    html = {"headers": {"accept": "text/html"}}
    form, wrong, right, then = ask(
        LoginWall(inner, token=TOKEN, prefix="/proxy/1"),
        ("GET", "/ui/", html),
        ("POST", "/login", {"data": {"token": "no"}, **html}),
        ("POST", "/login", {"data": {"token": f" {TOKEN} "}, **html}),
        ("GET", "/proxy/1/ui/", html),
    )
    assert form.status_code == 401
    assert 'action="/proxy/1/login"' in form.text
    assert "is not right" in wrong.text
    # Seen from the proxy's address of the form, and from the application's own.
    assert urljoin("http://lab.test/proxy/1/login", right.headers["location"]) == "http://lab.test/proxy/1/"
    (bare,) = ask(LoginWall(inner, token=TOKEN, prefix="/proxy/1"), ("GET", f"/proxy/1?token={TOKEN}", {}))
    assert urljoin("http://lab.test/proxy/1", bare.headers["location"]) == "http://lab.test/proxy/1/"
    assert "Path=/proxy/1;" in right.headers["set-cookie"]
    assert then.status_code == 200


def test_a_browser_keeps_its_name_over_sign_ins_and_it_opens_nothing_alone() -> None:
    wall = LoginWall(inner, token=TOKEN)
    first, again = ask(wall, ("GET", f"/?token={TOKEN}", {}), ("GET", f"/?token={TOKEN}", {}))
    names = [re.search(rf"{BROWSER_COOKIE}=([^;]+);", answer.headers["set-cookie"]) for answer in (first, again)]
    assert names[0] is not None
    assert names[1] is not None
    assert names[0][1] == names[1][1]
    (alone,) = ask(wall, ("GET", "/ui/", {"headers": {"cookie": f"{BROWSER_COOKIE}={names[0][1]}"}}))
    assert alone.status_code == 401


def test_programs_use_a_bearer_token_and_get_no_cookie() -> None:
    (answer,) = ask(LoginWall(inner, token=TOKEN), ("GET", "/x", {"headers": {"authorization": f"Bearer {TOKEN}"}}))
    assert (answer.status_code, answer.text) == (200, "/x")
    assert "set-cookie" not in answer.headers


def test_a_session_of_one_app_does_not_open_another() -> None:
    one, other = LoginWall(inner, token=TOKEN), LoginWall(inner, token=TOKEN)
    signed, _ = ask(one, ("GET", f"/?token={TOKEN}", {}), ("GET", "/ui/", {}))
    stolen = signed.headers["set-cookie"].split(";")[0]
    (answer,) = ask(other, ("GET", "/ui/", {"headers": {"cookie": stolen}}))
    assert answer.status_code == 401


@pytest.mark.parametrize(
    "path", ["/ui/gradio_api/file=http://evil.test/x", "/ui/gradio_api/file=https://evil.test/x", "/ui/gradio_api/proxy=x"]
)
def test_the_server_fetches_nothing_from_outside_for_anyone(path: str) -> None:
    (answer,) = ask(LoginWall(inner, token=TOKEN), ("GET", path, {"headers": {"authorization": f"Bearer {TOKEN}"}}))
    assert answer.status_code == 403


def test_a_large_form_is_not_read() -> None:
    (answer,) = ask(LoginWall(inner, token=TOKEN), ("POST", "/login", {"content": b"token=" + b"x" * 100_000}))
    assert answer.status_code == 401


def test_a_websocket_without_the_token_is_closed() -> None:
    sent = []

    async def connect() -> None:
        async def receive():
            return {"type": "websocket.connect"}

        async def send(message):
            sent.append(message)

        scope = {"type": "websocket", "path": "/ui/queue", "query_string": b"", "headers": []}
        await LoginWall(inner, token=TOKEN)(scope, receive, send)

    asyncio.run(connect())
    assert sent == [{"type": "websocket.close", "code": 4401}]


@pytest.mark.parametrize("path", ["/ui/config", "/proxy/1/ui/config"])
def test_a_page_below_a_prefix_is_found_whether_or_not_the_proxy_takes_it_off(path: str) -> None:
    """Gradio's mount looks for its own path below the prefix that its addresses have."""
    seen = []

    async def app(scope, receive, send):
        seen.append((scope["path"], scope["raw_path"], scope["root_path"]))

    asyncio.run(_below("/proxy/1", app)({"type": "http", "path": path, "raw_path": b"", "root_path": ""}, None, None))
    assert seen == [("/proxy/1/ui/config", b"/proxy/1/ui/config", "/proxy/1")]
    assert _below("", app) is app
