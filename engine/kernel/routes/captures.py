"""``/workbench/captures``: capture jobs and slices of what they recorded."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Annotated

import numpy as np
from fastapi import Query
from fastapi.responses import Response

from ...errors import BadRequest
from ...protocol import CaptureJob
from ...protocol.wire import CaptureBody
from ..dependencies import State
from .route import router

routes = router()

MAX_SLICE_BYTES = 64 << 20


@routes.post("/captures", status_code=202)
async def start(body: CaptureBody, state: State) -> CaptureJob:
    """Queue a capture of a stored context; one runs at a time. A plan that cannot be fulfilled is refused here."""
    plan = body.capture_plan()
    context = await asyncio.to_thread(state.contexts.get, body.context)
    return state.jobs.start(state, context, plan)


@routes.get("/captures/{name}")
async def get(name: str, state: State) -> CaptureJob:
    """State, progress and, when done, the manifest."""
    return state.jobs.get(name)


@routes.delete("/captures/{name}")
async def cancel(name: str, state: State) -> CaptureJob:
    """Cancel a capture or remove a finished one."""
    return await state.jobs.cancel(name)


@routes.get("/captures/{name}/arrays/{array}")
async def rows(
    name: str,
    array: str,
    state: State,
    start: Annotated[int, Query(ge=0)] = 0,
    stop: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """Rows `start` to `stop` along `t` as a ``.npy`` file, at most 64 MiB at a time."""
    path, entry = state.jobs.array(name, array)
    last = entry.shape[0] if stop is None else min(stop, entry.shape[0])
    if start > last:
        raise BadRequest(f"rows {start} to {stop} of {array}, which has {entry.shape[0]}")
    row_bytes = int(np.dtype(entry.dtype).itemsize * np.prod(entry.shape[1:], dtype=np.int64))
    if (last - start) * row_bytes > MAX_SLICE_BYTES:
        most = MAX_SLICE_BYTES // row_bytes
        raise BadRequest(f"{last - start:,} rows of {array} are over 64 MiB: ask for at most {most:,}", rows=most)
    return Response(await asyncio.to_thread(_slice, path, start, last), media_type="application/octet-stream")


def _slice(path: Path, start: int, stop: int) -> bytes:
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(np.load(path, mmap_mode="r")[start:stop]))
    return file.getvalue()
