"""What this engine cannot do is refused by name before vLLM sees the request.

A request field whose kernel is missing here would not fail in the API but in the worker, and take the whole engine with it. The
list comes from whoever replaced the kernels (``engine.cpu.unsupported_fields``); on a GPU it is empty. Bodies that pass are
handed on byte for byte. This module knows neither what the features do nor who asks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .auth import App, Receive, Scope, Send

GUARDED = ("/v1/", "/inference/", "/invocations")


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

    def __init__(self, app: App, unsupported: Mapping[str, str], *, max_body_bytes: int = 1 << 30) -> None:
        self._app, self._unsupported, self._max_body_bytes = app, dict(unsupported), max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].startswith(GUARDED):
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
        body = b"".join(chunks)
        if problem := self._problem(body):
            await _answer(send, 400, problem)
            return
        sent = False

        async def replay() -> Any:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)

    def _problem(self, body: bytes) -> str | None:
        if not self._unsupported or not body:
            return None
        try:
            values = json.loads(body)
        except ValueError:
            return None  # vLLM's own answer to a malformed body is the right one
        return find_unsupported(values, self._unsupported)


def find_unsupported(values: Any, unsupported: Mapping[str, str]) -> str | None:
    """A sentence about the first unsupported field that `values` sets to something, at any depth of plain objects; else None."""
    if not isinstance(values, dict):
        return None
    for key, value in values.items():
        if key in unsupported and value is not None and value is not False:
            return f"{key!r} is not supported by this engine: {unsupported[key]}. Leave it out."
    nested = (values[key] for key in ("sampling_params", "vllm_xargs", "extra_body") if key in values)
    return next((found for value in nested if (found := find_unsupported(value, unsupported))), None)


async def _answer(send: Send, status: int, message: str) -> None:
    error = {"message": message, "type": "BadRequestError", "param": None, "code": status}
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
