"""The bearer token, on every route: a pure ASGI wrapper around the whole application.

vLLM's own ``--api-key`` guards some path prefixes only, and a middleware added by FastAPI comes too late for a started application,
so the wrapper sits outside of everything: ``/v1``, documentation, metrics and health, and web sockets too. The comparison takes the
same time wherever two tokens differ.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ..errors import EngineAuthError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class TokenGuard:
    """ASGI application that passes on what carries ``Authorization: Bearer <token>`` and answers 401 to the rest."""

    def __init__(self, app: App, token: str) -> None:
        if len(token) < 16:
            raise ValueError("an engine's token needs at least 16 characters")
        self._app, self._wanted = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._admits(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "token missing or wrong"})
        else:
            await _refuse(send)

    def _admits(self, scope: Scope) -> bool:
        given = [value for name, value in scope.get("headers", ()) if name == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._wanted)


async def _refuse(send: Send) -> None:
    error = EngineAuthError("the engine's token is missing or wrong: send it as 'Authorization: Bearer <token>'")
    # One body for both kinds of client: ours reads code and detail, OpenAI's reads message and type.
    body = json.dumps({"error": error.to_json() | {"type": "authentication_error", "param": None}}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"www-authenticate", b"Bearer"),
    ]
    await send({"type": "http.response.start", "status": error.http_status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
