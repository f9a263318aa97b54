"""A Jupyter server extension: a notebook page reaches an engine through its own server, and never holds the engine's token.

    GET  BASE/inkling/engines                            what this server can reach: id, model, recipe, host; no address, no token
    any  BASE/inkling/engines/ID/workbench/… or /v1/…    that route of that engine

Whoever is let in is Jupyter's business: its login, its check of the page's origin, its cross-site token for what changes something.
The engine's token is added here, on the server's side; what the page sends of its own credentials goes no further. Bodies and
answers pass in pieces, so that uploads need no memory, event streams stay streams, and the engine's own limits are the ones that
count. A page that leaves cuts its request off. Ending an engine is not for pages.

Engines are found as everywhere (:mod:`engine.discovery`), the one that ``INKLING_ENGINE_URL`` names included, as ``named``.
Switched on by ``etc/jupyter/jupyter_server_config.d/inkling-workbench.json``. Lifetimes: the server's.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx
from jupyter_core.utils import ensure_async
from jupyter_server.auth.utils import HTTP_METHOD_TO_AUTH_ACTION
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web
from tornado.iostream import StreamClosedError

from engine import discovery
from engine.connection import CONNECT_TIMEOUT_S
from engine.errors import BadRequest, EngineNotFound, EngineUnreachable, InklingError

ROOT = "inkling/engines"

NAMED = "named"
"""Id of the engine that the environment names."""

MAX_BODY_BYTES = 1 << 30
"""What passes at all; an engine refuses more than its own limits long before."""

HELD_CHUNKS = 4
"""Pieces of an upload that wait here for a slower engine; a piece is at most 64 KiB."""

FRESH_S = 2.0
"""How long a look at the running engines counts."""

PASSED_ON = ("accept", "content-type", "content-length", "x-request-id")
HANDED_BACK = ("content-type", "content-length", "content-encoding", "cache-control", "x-accel-buffering")

NOT_FOR_PAGES = ("workbench/shutdown",)


class Engines:
    """The engines this server can reach, looked up at most every :data:`FRESH_S`, and one HTTP client for all of them."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, str, dict[str, Any]]] = {}
        self._seen_at = 0.0
        self._client: httpx.AsyncClient | None = None
        self._looking = asyncio.Lock()

    async def listed(self) -> list[dict[str, Any]]:
        """What a page may know of each."""
        return [about for _, _, about in (await self._look()).values()]

    async def place(self, name: str) -> tuple[str, str]:
        """Address and token of the engine called `name`.

        Raises
        ------
        EngineNotFound
            It is not running.
        """
        if name not in (found := await self._look()):
            raise EngineNotFound(f"no engine {name[:40]!r} is running where this Jupyter server can reach it")
        url, token, _ = found[name]
        return url, token

    def client(self) -> httpx.AsyncClient:
        """No limit of time once connected: a long prompt may keep an engine silent for minutes."""
        if self._client is None:
            timeout, limits = httpx.Timeout(None, connect=CONNECT_TIMEOUT_S), httpx.Limits(max_connections=None)
            self._client = httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False)
        return self._client

    async def _look(self) -> dict[str, tuple[str, str, dict[str, Any]]]:
        async with self._looking:
            if time.monotonic() - self._seen_at > FRESH_S:
                self._seen, self._seen_at = await asyncio.to_thread(_running), time.monotonic()
            return self._seen


def _running() -> dict[str, tuple[str, str, dict[str, Any]]]:
    found: dict[str, tuple[str, str, dict[str, Any]]] = {}
    if named := discovery.named_by_environment():
        found[NAMED] = (named[0].rstrip("/"), named[1], {"id": NAMED, "model": None, "recipe": None, "host": None})
    for one in discovery.running():
        here = one.presence
        about = {"id": one.nonce, "model": here.model, "recipe": here.recipe, "host": here.host, "started_at": here.started_at}
        found[one.nonce] = (one.url, one.token, about)
    return found


class _Handler(APIHandler):
    auth_resource = "inkling-engines"

    @property
    def engines(self) -> Engines:
        return self.settings["inkling_engines"]

    @property
    def content_security_policy(self) -> str:
        """Whatever comes from an engine is data, not a page."""
        return "default-src 'none'; sandbox"

    async def prepare(self) -> None:
        """Let in whom Jupyter lets in, before any of the body is read."""
        await super().prepare()
        user, action = self.current_user, HTTP_METHOD_TO_AUTH_ACTION[(self.request.method or "GET").upper()]
        if not user or not await ensure_async(self.authorizer.is_authorized(self, user, action, self.auth_resource)):
            raise web.HTTPError(403)
        self.set_header("X-Content-Type-Options", "nosniff")

    def refuse(self, problem: InklingError) -> None:
        """Answer with one of our errors, in our form."""
        self.set_status({"engine-not-found": 404, "engine-unreachable": 502}.get(problem.code, problem.http_status))
        self.finish(json.dumps({"error": problem.to_json()}))


class ListHandler(_Handler):
    """``GET /inkling/engines``."""

    async def get(self) -> None:
        """The engines, without their addresses and tokens."""
        self.finish(json.dumps({"engines": await self.engines.listed()}))


@web.stream_request_body
class EngineHandler(_Handler):
    """One route of one engine; the request goes out while its body still comes in."""

    _answer: asyncio.Future[httpx.Response] | None = None
    _sending: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        await super().prepare()
        self.request.connection.set_max_body_size(MAX_BODY_BYTES)  # type: ignore[union-attr]
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue(HELD_CHUNKS)
        self._answer = asyncio.ensure_future(self._ask(*self.path_args))

    async def data_received(self, chunk: bytes) -> None:
        await self._feed(chunk)

    async def _serve(self, *_: str) -> None:
        """Hand the engine's answer back as it comes."""
        assert self._answer is not None
        await self._feed(None)
        try:
            response = await self._answer
        except asyncio.CancelledError:
            if not self._answer.cancelled():
                raise
            return  # the page has left
        except httpx.TransportError as problem:
            self.refuse(EngineUnreachable(f"the engine does not answer ({type(problem).__name__}): it may have ended"))
            return
        except InklingError as problem:
            self.refuse(problem)
            return
        # A task of its own, so that a page that leaves can end it.
        self._sending = asyncio.create_task(self._send(response))
        await asyncio.wait({self._sending})
        if not self._sending.cancelled():
            self._sending.result()

    get = head = post = put = delete = _serve

    def on_connection_close(self) -> None:
        """The page left: the engine hears of it by its own connection closing."""
        super().on_connection_close()
        for work in (self._answer, self._sending):
            if work is not None and not work.done():
                work.cancel()

    async def _ask(self, name: str, path: str) -> httpx.Response:
        url, token = await self.engines.place(name)
        headers = {key: value for key in PASSED_ON if (value := self.request.headers.get(key))}
        has_body = "content-length" in headers or "transfer-encoding" in self.request.headers
        query = f"?{self.request.query}" if self.request.query else ""
        client = self.engines.client()
        request = client.build_request(
            self.request.method or "GET", f"{url}/{checked_path(path)}{query}", content=self._body() if has_body else None,
            headers=headers | {"accept-encoding": "identity"} | ({"authorization": f"Bearer {token}"} if token else {}),
        )  # fmt: skip
        return await client.send(request, stream=True)

    async def _body(self) -> AsyncIterator[bytes]:
        while (chunk := await self._chunks.get()) is not None:
            yield chunk

    async def _feed(self, chunk: bytes | None) -> None:
        """Give the request a piece of its body; nothing once the engine has answered, which it may do before it read everything."""
        assert self._answer is not None
        put = asyncio.ensure_future(self._chunks.put(chunk))
        await asyncio.wait({put, self._answer}, return_when=asyncio.FIRST_COMPLETED)
        put.cancel()

    async def _send(self, response: httpx.Response) -> None:
        try:
            self.set_status(response.status_code)
            for name in HANDED_BACK:
                if value := response.headers.get(name):
                    self.set_header(name, value)
            await self.flush()
            async for piece in response.aiter_raw():
                self.write(piece)
                await self.flush()
        except (StreamClosedError, httpx.TransportError):
            return  # one of the two is gone; the other sees a cut answer
        finally:
            await response.aclose()


def checked_path(path: str) -> str:
    """An engine's path, spelled for a URL.

    Raises
    ------
    BadRequest
        It leaves the routes that pages may use.

    Examples
    --------
    >>> checked_path("workbench/blobs/sha256:00")
    'workbench/blobs/sha256:00'
    """
    pieces = path.split("/")
    if pieces[0] not in ("workbench", "v1") or not {".", ".."}.isdisjoint(pieces) or path.rstrip("/") in NOT_FOR_PAGES:
        raise BadRequest(f"{path[:80]!r} is not a route for pages: there is workbench/… without its shutdown, and v1/…")
    return "/".join(quote(piece, safe=":") for piece in pieces)


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(serverapp: Any) -> None:
    application = serverapp.web_app
    application.settings["inkling_engines"] = Engines()
    base = url_path_join(application.settings["base_url"], ROOT)
    application.add_handlers(".*", [(f"{base}/?", ListHandler), (rf"{base}/([\w-]{{1,80}})/(.+)", EngineHandler)])
