"""``POST /workbench/contexts``: a rendered context, sent once as a frame; later ones send only what is new."""

from __future__ import annotations

import asyncio

from fastapi import Request

from ...errors import ContextTooLong
from ..contexts import StoredContext, require_blobs
from ..dependencies import State
from ..state import KernelState
from .route import router

routes = router()


@routes.post("/contexts", status_code=201)
async def add(request: Request, state: State) -> dict[str, str | int]:
    """Check and keep a context; its id and length come back."""
    frame, limit = bytearray(), state.contexts.max_frame_bytes
    async for chunk in request.stream():
        frame += chunk
        if len(frame) > limit:
            tokens = state.info.limits.context_tokens
            raise ContextTooLong(f"the frame is longer than any context of {tokens:,} tokens: remove parts", limit_tokens=tokens)
    context = await asyncio.to_thread(_add, state, bytes(frame))
    return {"context": context.id, "tokens": len(context)}


@routes.get("/contexts/{name}")
async def get(name: str, state: State) -> dict[str, str | int]:
    """Whether the engine holds a context (404 when not), and its length."""
    context = await asyncio.to_thread(state.contexts.get, name)
    return {"context": context.id, "tokens": len(context)}


def _add(state: KernelState, frame: bytes) -> StoredContext:
    require_blobs(frame, state.blobs.has)
    return state.contexts.add(frame)
