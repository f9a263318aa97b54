"""A capture seen from the client: start the job, wait, and hand its arrays over by slice."""

from __future__ import annotations

import asyncio
import dataclasses
import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import errors
from .connection import Connection, blocking
from .errors import InklingError, RequestFailed
from .protocol import CaptureJob, CaptureManifest, CapturePlan, Rendered

if TYPE_CHECKING:
    from workbench.captures import Capture

POLL_S = 0.1
SLICE_BYTES = 32 << 20
"""Rows travel in pieces of about this size; the engine refuses more than 64 MiB at once."""


async def capture(connection: Connection, rendered: Rendered, name: str, plan: CapturePlan) -> Capture:
    """Run a capture of the stored context `name` and fetch it.

    Raises
    ------
    CaptureRefused, RequestFailed
    """
    body = {"context": name, "plan": dataclasses.asdict(plan)}
    job = CaptureJob.model_validate((await connection.request("POST", "/workbench/captures", json=body)).json())
    try:
        while job.state in ("queued", "running"):
            await asyncio.sleep(POLL_S)
            job = CaptureJob.model_validate((await connection.request("GET", f"/workbench/captures/{job.id}")).json())
        if job.manifest is None:
            raise errors.from_json(job.error) if job.error else RequestFailed(f"the capture was {job.state}", job=job.id)
        return await asyncio.to_thread(_build, connection, job.manifest, rendered)
    finally:
        # Fetched, failed or cancelled: the engine's copy has served.
        await asyncio.shield(asyncio.ensure_future(_discard(connection, job.id)))


def _build(connection: Connection, manifest: CaptureManifest, rendered: Rendered) -> Capture:
    from workbench.captures import Capture

    def read_array(array: str, start: int, stop: int) -> NDArray[Any]:
        return blocking(_rows(connection, manifest, array, start, stop))

    return Capture.from_folder_reader(manifest, read_array, rendered)


async def _rows(connection: Connection, manifest: CaptureManifest, array: str, start: int, stop: int) -> NDArray[Any]:
    entry = manifest.arrays[array]
    row_bytes = max(1, int(np.dtype(entry.dtype).itemsize * np.prod(entry.shape[1:], dtype=np.int64)))
    step = max(1, SLICE_BYTES // row_bytes)
    pieces = []
    for first in range(start, stop, step):
        span = {"start": first, "stop": min(first + step, stop)}
        answer = await connection.request("GET", f"/workbench/captures/{manifest.id}/arrays/{array}", params=span)
        pieces.append(np.load(io.BytesIO(answer.content), allow_pickle=False))
    return np.concatenate(pieces) if pieces else np.empty((0, *entry.shape[1:]), dtype=entry.dtype)


async def _discard(connection: Connection, job: str) -> None:
    try:
        await connection.request("DELETE", f"/workbench/captures/{job}")
    except InklingError:
        return  # gone already, or the engine is
