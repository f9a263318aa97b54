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
from ...protocol import ArrayEntry, CaptureCost, CaptureJob, CapturePlan, Span, check_partition
from ...protocol.intervention_sets import check, from_json
from ...protocol.wire import CaptureBody
from ..contexts import StoredContext
from ..dependencies import State
from .route import router

routes = router()

MAX_SLICE_BYTES = 64 << 20


@routes.post("/captures", status_code=202)
async def start(body: CaptureBody, state: State) -> CaptureJob:
    """Queue a capture of a stored context; one runs at a time. A plan that cannot be fulfilled is refused here."""
    context, plan = await _resolved(body, state)
    adapter = state.adapters.chosen(body.adapter.name, body.adapter.id) if body.adapter else None
    interventions = tuple(from_json(item) for item in body.interventions)
    check(interventions, state.info, len(context))
    return state.jobs.start(
        state, context, plan, _spans(body, context), recompute=body.recompute, interventions=interventions, adapter=adapter
    )


@routes.post("/captures/cost")
async def cost(body: CaptureBody, state: State) -> CaptureCost:
    """What such a capture would cost; nothing runs."""
    context, plan = await _resolved(body, state)
    return state.jobs.cost(state, context, plan, spans=len(body.spans))


@routes.get("/captures/{name}")
async def get(name: str, state: State) -> CaptureJob:
    """State, progress and, when it has ended, the manifest of what was written."""
    return state.jobs.get(name)


@routes.post("/captures/{name}/cancel")
async def cancel(name: str, state: State) -> CaptureJob:
    """End a capture; what it wrote can be read, and says that it is partial."""
    return await state.jobs.cancel(name)


@routes.delete("/captures/{name}")
async def remove(name: str, state: State) -> CaptureJob:
    """Cancel a capture and remove what it wrote."""
    return await state.jobs.remove(name)


@routes.get("/captures/{name}/arrays/{array}")
async def rows(
    name: str,
    array: str,
    state: State,
    start: Annotated[int, Query(ge=0)] = 0,
    stop: Annotated[int | None, Query(ge=0)] = None,
    index: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """A slice as a ``.npy`` file, at most 64 MiB at a time.

    `start` and `stop` are along the first dimension; `index` has a slice ``start:stop`` for each of the following, by commas.
    """
    path, entry = state.jobs.array(name, array)
    last = entry.shape[0] if stop is None else min(stop, entry.shape[0])
    if start > last:
        raise BadRequest(f"rows {start} to {stop} of {array}, which has {entry.shape[0]}")
    where = (slice(start, last), *_slices(index, entry, array))
    size = int(np.dtype(entry.dtype).itemsize * np.prod([part.stop - part.start for part in where], dtype=np.int64))
    if size > MAX_SLICE_BYTES:
        most = max(1, (last - start) * MAX_SLICE_BYTES // size)
        raise BadRequest(f"{last - start:,} rows of {array} are over 64 MiB: ask for at most {most:,}", rows=most)
    return Response(await asyncio.to_thread(_slice, path, where), media_type="application/octet-stream")


async def _resolved(body: CaptureBody, state: State) -> tuple[StoredContext, CapturePlan]:
    plan = body.capture_plan()
    context = await asyncio.to_thread(state.contexts.get, body.context)
    return context, plan.resolve(len(context), reply_tokens=min(body.reply_tokens, len(context)))


def _spans(body: CaptureBody, context: StoredContext) -> tuple[Span, ...]:
    spans = body.span_items()
    try:
        if spans:
            check_partition(spans, len(context))
    except ValueError as problem:
        raise BadRequest(str(problem)) from problem
    return spans


def _slices(text: str, entry: ArrayEntry, array: str) -> list[slice]:
    found, sizes = [], entry.shape[1:]
    pieces = text.split(",") if text else []
    if len(pieces) > len(sizes):
        raise BadRequest(f"{array} has {len(entry.shape)} dimensions, {entry.dims}: too many slices in {text!r}")
    for piece, size in zip(pieces, sizes, strict=False):
        low, _, high = piece.partition(":")
        try:
            part = slice(int(low or 0), min(int(high or size), size))
        except ValueError:
            raise BadRequest(f"{piece!r} is not a slice start:stop") from None
        if not 0 <= part.start <= part.stop:
            raise BadRequest(f"{piece} of a dimension of {size} in {array}")
        found.append(part)
    return found + [slice(0, size) for size in sizes[len(found) :]]


def _slice(path: Path, where: tuple[slice, ...]) -> bytes:
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(np.load(path, mmap_mode="r")[where]))
    return file.getvalue()
