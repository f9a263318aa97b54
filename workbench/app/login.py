"""One token in front of every route: of the parent application, of Gradio and of whatever is mounted later.

Gradio's own login covers Gradio's routes only, and not all of these. This is plain ASGI middleware around the whole application, so
that a route cannot be forgotten. A browser signs in once, by the printed address (``?token=…``) or on the form, and holds a
cookie; a program sends ``Authorization: Bearer …``. It knows no users: whoever has the token may use the app, and each browser
has its own desk.

Sessions live as long as the process. The cookie is not the token: reading one does not give the other. A second cookie names the
browser, so that its desk is found again after the app was restarted; without a session it opens nothing.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BROWSER_COOKIE = "inkling_browser"
BROWSER_DAYS = 30
FORM_BYTES = 4_096
"""A login form is one short field; more is refused."""

POLICY = "; ".join(
    [
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",  # Gradio's page has inline scripts and builds functions from text
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "media-src 'self' data: blob:",
        "font-src 'self' data:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'self'",
    ]
)
"""Nothing from outside: an answer that names a picture elsewhere cannot make the browser fetch it."""


class LoginWall:
    """Let requests through that carry the token or a session; answer the rest with 401.

    Parameters
    ----------
    app : ASGI application
    token : str
        The login token.
    prefix : str
        Path under which a proxy shows the application, without a trailing slash; empty for none.
    """

    def __init__(self, app: App, *, token: str, prefix: str = "") -> None:
        self.app = app
        self.prefix = prefix
        self._token = token
        self._sessions: set[str] = set()
        # Cookies are shared by all ports of a host: the name keeps two apps on one machine apart.
        self.cookie = f"inkling_app_{secrets.token_hex(4)}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
        elif scope["type"] == "http" and self._is_login(scope):
            await self._login(scope, receive, send)
        elif self.session_of(scope) is None:
            await self._refuse(scope, send)
        elif _reaches_outside(scope["path"]):
            await _respond(send, 403, "the app fetches nothing from other hosts")
        else:
            await self.app(scope, receive, _with_headers(send, self._naming(scope)))

    def _naming(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """A name for a browser that a proxy signed in: it opens a page, and has none yet."""
        pages = b"text/html" in dict(scope["headers"]).get(b"accept", b"")
        if scope["type"] != "http" or not pages or _cookies(scope).get(BROWSER_COOKIE):
            return []
        return [(b"set-cookie", self._browser_cookie(secrets.token_urlsafe(24)).encode())]

    def _browser_cookie(self, name: str) -> str:
        return f"{BROWSER_COOKIE}={name}; Max-Age={BROWSER_DAYS * 86_400}; Path={self.prefix or '/'}; HttpOnly; SameSite=Lax"

    def session_of(self, scope: Scope) -> str | None:
        """Id of the session a request belongs to, or None: not signed in."""
        headers = dict(scope["headers"])
        kind, _, given = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if kind.lower() == "bearer" and self._right(given):
            return "bearer"
        held = _cookies(scope).get(self.cookie, "")
        return held if held in self._sessions else None

    def _right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token.encode())

    def _is_login(self, scope: Scope) -> bool:
        if scope["method"] == "POST" and scope["path"].removeprefix(self.prefix) == "/login":
            return True
        root = scope["path"].removeprefix(self.prefix) in ("", "/")
        return scope["method"] == "GET" and root and "token" in parse_qs(scope["query_string"].decode("latin-1"))

    async def _login(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sign in by the address or the form, then go on without the token in the address."""
        by_address = scope["method"] == "GET"
        fields = parse_qs(scope["query_string"].decode("latin-1")) if by_address else await _form(receive)
        given = fields.get("token", [""])[0].strip()
        if not self._right(given):
            await self._refuse(scope, send, "That token is not right: it is printed where the app was started.")
            return
        session = secrets.token_urlsafe(24)
        self._sessions.add(session)
        browser = _cookies(scope).get(BROWSER_COOKIE) or secrets.token_urlsafe(24)
        cookies = (f"{self.cookie}={session}; Path={self.prefix or '/'}; HttpOnly; SameSite=Lax", self._browser_cookie(browser))
        # Relative: a proxy that writes its path into addresses from the root would write it twice.
        last = scope["path"].rpartition("/")[2]
        headers = [
            (b"location", f"{last}/".encode() if last not in ("", "login") else b"./"),
            *((b"set-cookie", item.encode()) for item in cookies),
        ]
        await _respond(send, 303, "", headers)

    async def _refuse(self, scope: Scope, send: Send, problem: str = "") -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 4401})
            return
        accept = dict(scope["headers"]).get(b"accept", b"")
        if b"text/html" not in accept:
            await _respond(send, 401, problem or "sign in first: open the printed address, or send the token as a bearer token")
            return
        form = Template(Path(__file__).with_name("login.html").read_text(encoding="utf-8"))
        page = form.substitute(action=f"{self.prefix}/login", problem=problem, state="wrong" if problem else "new")
        await _respond(send, 401, page, [(b"content-type", b"text/html; charset=utf-8")])


def browser_of(cookies: Mapping[str, str]) -> str:
    """Name of the browser that a request comes from; empty for a program."""
    return cookies.get(BROWSER_COOKIE, "")


def _cookies(scope: Scope) -> dict[str, str]:
    jar = SimpleCookie()
    try:
        jar.load(dict(scope["headers"]).get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in jar.items()}


def _reaches_outside(path: str) -> bool:
    """Gradio's file route fetches web addresses on behalf of whoever asks, an answer's picture included; its proxy route too."""
    return "/file=http:" in path or "/file=https:" in path or "/proxy=" in path


async def _form(receive: Receive) -> dict[str, list[str]]:
    body, more = b"", True
    while more and len(body) <= FORM_BYTES:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return {} if len(body) > FORM_BYTES else parse_qs(body.decode("utf-8", "replace"))


def _with_headers(send: Send, more: Sequence[tuple[bytes, bytes]] = ()) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                *message.get("headers", []),
                (b"content-security-policy", POLICY.encode()),
                (b"referrer-policy", b"no-referrer"),
                (b"x-content-type-options", b"nosniff"),
                *more,
            ]
        await send(message)

    return sending


async def _respond(send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    body = text.encode()
    found = headers or []
    if not any(name == b"content-type" for name, _ in found):
        found = [*found, (b"content-type", b"text/plain; charset=utf-8")]
    start = {"type": "http.response.start", "status": status, "headers": [*found, (b"cache-control", b"no-store")]}
    await _with_headers(send)(start)
    await send({"type": "http.response.body", "body": body})
