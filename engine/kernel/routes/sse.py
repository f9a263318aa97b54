"""Server-sent events: one named event with one JSON object each."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi.responses import StreamingResponse
from starlette.background import BackgroundTask

from ...errors import InklingError, RequestFailed


def event(name: str, values: dict[str, Any]) -> str:
    """One event as it crosses the wire."""
    return f"event: {name}\ndata: {json.dumps(values, ensure_ascii=False)}\n\n"


def stream(events: AsyncIterator[tuple[str, dict[str, Any]]], *, at_end: Callable[[], None] | None = None) -> StreamingResponse:
    """A response of events; an error after the first byte becomes an event called ``error``.

    `at_end` is called when the response is over, also when the client left before the first event.
    """

    async def lines() -> AsyncIterator[str]:
        try:
            async for name, values in events:
                yield event(name, values)
        except InklingError as problem:
            yield event("error", problem.to_json())
        except Exception as problem:
            yield event("error", RequestFailed(f"the kernel failed: {problem!r}").to_json())

    # Proxies that buffer would turn a stream into one lump at its end.
    return StreamingResponse(
        lines(), media_type="text/event-stream", headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        background=BackgroundTask(at_end) if at_end else None,
    )  # fmt: skip
