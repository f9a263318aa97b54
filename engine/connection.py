"""HTTP to one engine: requests and event streams, with our errors instead of HTTP's.

Asynchronous at heart; :func:`blocking` runs a coroutine for callers that are not, on one background event loop per process, which
works inside a notebook where a loop is running already. What an engine said travels back as the same exception it raised there.
"""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from typing import Any, TypeVar

import httpx

from . import errors
from .errors import EngineAuthError, EngineDied, EngineUnreachable, InklingError, RequestFailed, RequestRefused

T = TypeVar("T")

CONNECT_TIMEOUT_S = 10.0

CLIENT = {"x-inkling-client": uuid.uuid4().hex}
"""One client a process: several of them take turns at an engine."""


Clients = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient]


class Connection:
    """A way to one engine. Safe to use from several event loops and threads; idle sockets go with it, or with their loop."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url, self.token, self.answered = url.rstrip("/"), token, False
        self._clients: Clients = weakref.WeakKeyDictionary()
        # An idle socket is held by its event loop, not by the client: without this it would stay until the engine closes it.
        weakref.finalize(self, _close_idle, self._clients).atexit = False

    async def request(self, method: str, path: str, *, timeout_s: float | None = None, **options: Any) -> httpx.Response:
        """One request.

        Raises
        ------
        EngineUnreachable, EngineDied, EngineAuthError
            Nobody answers, or not to this token.
        InklingError
            What the engine raised.
        """
        try:
            response = await self._client().request(method, self.url + path, timeout=_timeout(timeout_s), **options)
        except httpx.TransportError as problem:
            raise self._gone(problem) from problem
        self.answered = True
        return self._checked(response)

    async def probe(self, method: str, path: str) -> int:
        """Status of a request whose refusal is an answer too; a wrong token is still an error."""
        try:
            response = await self._client().request(method, self.url + path, timeout=_timeout(None))
        except httpx.TransportError as problem:
            raise self._gone(problem) from problem
        self.answered = True
        return self._checked(response).status_code if response.status_code == 401 else response.status_code

    async def events(self, path: str, body: dict[str, Any]) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
        """Server-sent events of a POST, as name and JSON object; closing the iterator closes the connection."""
        headers = {"accept": "text/event-stream"}
        try:
            async with self._client().stream(
                "POST", self.url + path, json=body, headers=headers, timeout=_timeout(None)
            ) as response:
                self.answered = True
                if response.status_code >= 400:
                    await response.aread()
                    self._checked(response)
                async for name, values in parse_events(response.aiter_lines()):
                    if name == "error":
                        raise errors.from_json(values)
                    yield name, values
        except httpx.TransportError as problem:
            raise self._gone(problem) from problem

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            headers = CLIENT | ({"authorization": f"Bearer {self.token}"} if self.token else {})
            # Loopback addresses must not go through a proxy that the environment names.
            self._clients[loop] = httpx.AsyncClient(headers=headers, trust_env=not _is_loopback(self.url))
        return self._clients[loop]

    def _checked(self, response: httpx.Response) -> httpx.Response:
        if response.status_code < 400:
            return response
        if response.status_code == 401:
            raise EngineAuthError(f"the engine at {self.url} does not accept this token: attach() finds the right one, or name it")
        raise error_of(response)

    def _gone(self, problem: httpx.TransportError) -> InklingError:
        if self.answered:
            return EngineDied(
                f"the engine at {self.url} is gone ({problem or type(problem).__name__}): start it again; its log says why"
            )
        return EngineUnreachable(f"nothing answers at {self.url} ({problem or type(problem).__name__}): is the address right?")


def _close_idle(clients: Clients) -> None:
    """Close the sockets of a connection that nobody uses any more, each on its own loop."""
    for loop, client in list(clients.items()):
        if not loop.is_closed():  # else its sockets ended with it
            asyncio.run_coroutine_threadsafe(client.aclose(), loop)


def error_of(response: httpx.Response) -> InklingError:
    """The error in a response: ours, or OpenAI's form of one."""
    try:
        error = response.json()["error"]
        if "detail" in error:
            return errors.from_json(error)
        message = str(error["message"])
    except (ValueError, KeyError, TypeError):
        message = f"HTTP {response.status_code}: {response.text[:300]}"
    return RequestRefused(message) if response.status_code < 500 else RequestFailed(message)


async def parse_events(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Events of a server-sent event stream; OpenAI's nameless ones are called ``message``."""
    name, data = "message", []
    async for line in lines:
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].strip())
        elif not line and data:
            text = "\n".join(data)
            if text == "[DONE]":
                return
            yield name, json.loads(text)
            name, data = "message", []


def blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop and wait; an interrupt cancels it there."""
    return _wait(asyncio.run_coroutine_threadsafe(work, _background()))


def blocking_iterator(make: Callable[[], AsyncGenerator[T]]) -> Iterator[T]:
    """Iterate over an asynchronous iterator from ordinary code; leaving early closes it."""
    queue: asyncio.Queue[tuple[str, Any]] | None = None

    async def begin() -> asyncio.Task[None]:
        nonlocal queue
        queue = asyncio.Queue(maxsize=256)
        return asyncio.create_task(pump(queue))

    async def pump(queue: asyncio.Queue[tuple[str, Any]]) -> None:
        try:
            async with aclosing(make()) as items:
                async for item in items:
                    await queue.put(("item", item))
            await queue.put(("end", None))
        except Exception as problem:
            await queue.put(("error", problem))

    async def end(task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    task = blocking(begin())
    assert queue is not None
    try:
        while True:
            kind, value = blocking(queue.get())
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        blocking(end(task))


def _wait(future: Future[T]) -> T:
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


_LOOP: asyncio.AbstractEventLoop | None = None
_LOCK = threading.Lock()


def _background() -> asyncio.AbstractEventLoop:
    """The event loop of this process's background thread, started on first use."""
    global _LOOP
    with _LOCK:
        if _LOOP is None:
            _LOOP = asyncio.new_event_loop()
            threading.Thread(target=_LOOP.run_forever, name="inkling-engine-client", daemon=True).start()
        return _LOOP


def _timeout(read_s: float | None) -> httpx.Timeout:
    # A long prompt may keep the engine silent for minutes; a closed connection is noticed without a read time-out.
    return httpx.Timeout(read_s, connect=CONNECT_TIMEOUT_S)


def _is_loopback(url: str) -> bool:
    host = httpx.URL(url).host
    return host in ("localhost", "::1") or host.startswith("127.")
