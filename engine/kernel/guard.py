"""What this engine cannot do is refused by name before vLLM sees the request, and what vLLM would drop is put where it is read.

A request field whose kernel is missing here would not fail in the API but in the worker, and take the whole engine with it. The
list comes from whoever replaced the kernels (``engine.cpu.unsupported_fields``); on a GPU it is empty. Of a chat, the thinking
effort is seen to (:mod:`.chat_bodies`). Other bodies are handed on byte for byte. A body has a limit on every path; blobs and
contexts, which come in pieces, have their own and count themselves. Knows neither what the features do nor who asks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..errors import BadRequest
from .auth import App, Receive, Scope, Send
from .chat_bodies import PATHS, check_objects, with_effort

MAX_BODY_BYTES = 256 << 20
"""A chat with its media as base64, or the spans of a million tokens."""

STREAMED = ("/workbench/blobs/", "/workbench/contexts")
"""Paths whose routes read their bodies in pieces and count them."""

OURS = "/workbench/"


class FeatureGuard:
    """ASGI application that answers 400, in OpenAI's form, to a body that sets an unsupported field.

    Parameters
    ----------
    app : ASGI application
    unsupported : mapping of str to str
        Field of the JSON body, and why it cannot be served.
    max_body_bytes : int
        Larger bodies are answered with 413.
    """

    def __init__(self, app: App, unsupported: Mapping[str, str], *, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._app, self._unsupported, self._max_body_bytes = app, dict(unsupported), max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in ("POST", "PUT", "PATCH") or scope["path"].startswith(STREAMED):
            await self._app(scope, receive, send)
            return
        chunks, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            chunks.append(message.get("body", b""))
            size, more = size + len(chunks[-1]), message.get("more_body", False)
            if size > self._max_body_bytes:
                await _answer(send, 413, f"the request body is over {self._max_body_bytes:,} bytes")
                return
        try:
            body = self._checked(scope["path"], b"".join(chunks))
        except BadRequest as problem:
            await _answer(send, 400, problem.message)
            return
        if len(body) != size:
            scope = {**scope, "headers": [*_without_length(scope), (b"content-length", str(len(body)).encode())]}
        sent = False

        async def replay() -> Any:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)

    def _checked(self, path: str, body: bytes) -> bytes:
        chat = path.startswith(PATHS)
        if not body or path.startswith(OURS):
            return body
        try:
            values = json.loads(body)
        except (ValueError, RecursionError):
            return body  # vLLM's own answer to a malformed body is the right one
        if problem := find_unsupported(values, self._unsupported):
            raise BadRequest(problem)
        if not isinstance(values, dict):
            return body
        check_objects(values)
        if not chat:
            return body
        changed = with_effort(values)
        return body if changed is values else json.dumps(changed).encode()


def find_unsupported(values: Any, unsupported: Mapping[str, str]) -> str | None:
    """A sentence about the first unsupported field that `values` sets to something, at any depth of plain objects; else None."""
    if not isinstance(values, dict):
        return None
    for key, value in values.items():
        if key in unsupported and value is not None and value is not False:
            return f"{key!r} is not supported by this engine: {unsupported[key]}. Leave it out."
    nested = (values[key] for key in ("sampling_params", "vllm_xargs", "extra_body") if key in values)
    return next((found for value in nested if (found := find_unsupported(value, unsupported))), None)


def _without_length(scope: Scope) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in scope.get("headers", ()) if name != b"content-length"]


async def _answer(send: Send, status: int, message: str) -> None:
    error = {"message": message, "type": "BadRequestError", "param": None, "code": status}
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
