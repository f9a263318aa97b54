"""A capture seen from the client: what it would cost, starting it, how far it is, and what it recorded, by slice.

A :class:`CaptureRun` is a job on the engine. Small results are fetched at once and the engine's copy is removed; a large one stays
on the engine, is read by the slice while the client's Capture lives, and is removed with it. What was cancelled can be read too,
and says that it is partial.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import errors
from .connection import Connection, blocking
from .errors import InklingError, RequestFailed
from .protocol import CaptureCost, CaptureJob, CaptureManifest, CapturePlan, Intervention, Rendered, span_to_json
from .protocol.intervention_sets import to_json
from .protocol.wire import AdapterChoice, CaptureBody

if TYPE_CHECKING:
    from workbench.captures import Capture

POLL_S = 0.1
SLICE_BYTES = 32 << 20
"""Arrays travel in pieces of about this size; the engine refuses more than 64 MiB at once."""

FETCH_BYTES = 64 << 20
"""A capture up to this size is fetched whole; a larger one stays on the engine and is read by the slice."""

Progress = Callable[[CaptureJob], None]


class CaptureRun:
    """One capture while it waits, runs, or has ended.

    Attributes
    ----------
    cost : CaptureCost
    job : CaptureJob
        As last heard of.
    """

    def __init__(self, connection: Connection, rendered: Rendered, job: CaptureJob) -> None:
        self._connection, self._rendered, self.job = connection, rendered, job

    @property
    def cost(self) -> CaptureCost:
        return self.job.cost

    def __repr__(self) -> str:
        job = self.job
        return f"CaptureRun({job.state}, {job.done_tokens:,} of {job.total_tokens:,} tokens; {job.cost})"

    def refresh(self) -> CaptureJob:
        """Ask the engine how far it is."""
        return blocking(self.arefresh())

    def result(self, progress: Progress | None = None) -> Capture:
        """Wait for the end; the capture.

        Raises
        ------
        CaptureRefused, RequestFailed, EngineDied
            It failed; what the engine said.
        """
        return blocking(self.aresult(progress))

    def cancel(self) -> Capture | None:
        """End it; what was written until now, which says that it is partial, or None when nothing had begun."""
        return blocking(self.acancel())

    def discard(self) -> None:
        """End it, and remove what it wrote."""
        blocking(_discard(self._connection, self.job.id))

    async def arefresh(self) -> CaptureJob:
        """:meth:`refresh` for asynchronous callers."""
        answer = await self._connection.request("GET", f"/workbench/captures/{self.job.id}")
        self.job = CaptureJob.model_validate(answer.json())
        return self.job

    async def aresult(self, progress: Progress | None = None) -> Capture:
        """:meth:`result` for asynchronous callers; cancelling it cancels the capture and removes it."""
        folder = self.job.folder
        kept = False
        try:
            while self.job.state in ("queued", "running"):
                await asyncio.sleep(POLL_S)
                await self.arefresh()
                if progress is not None:
                    progress(self.job)
            if self.job.state != "done" or self.job.manifest is None:
                raise (
                    errors.from_json(self.job.error)
                    if self.job.error
                    else RequestFailed(f"the capture was {self.job.state}", job=self.job.id)
                )
            capture, kept = await asyncio.to_thread(self._open, self.job.manifest)
            return capture
        except errors.EngineDied as problem:
            kept = True  # the kernel may still answer for a moment: what was written is all there is
            problem.detail.setdefault("folder", folder)
            if folder and folder not in problem.message:
                raise errors.EngineDied(
                    f"{problem.message}. What was captured until then is in {folder}, on the engine's machine: "
                    "Capture.load(…) opens it, as partial", **problem.detail,
                ) from problem  # fmt: skip
            raise
        finally:
            # Fetched, failed or cancelled: the engine's copy has served, unless it is all that a death left.
            if not kept:
                await asyncio.shield(asyncio.ensure_future(_discard(self._connection, self.job.id)))

    async def acancel(self) -> Capture | None:
        """:meth:`cancel` for asynchronous callers."""
        answer = await self._connection.request("POST", f"/workbench/captures/{self.job.id}/cancel")
        self.job = CaptureJob.model_validate(answer.json())
        if self.job.manifest is None:
            await _discard(self._connection, self.job.id)
            return None
        capture, kept = await asyncio.to_thread(self._open, self.job.manifest)
        if not kept:
            await _discard(self._connection, self.job.id)
        return capture

    def _open(self, manifest: CaptureManifest) -> tuple[Capture, bool]:
        """The capture, and whether the engine must keep its copy."""
        from workbench.captures import Capture

        connection, name = self._connection, manifest.id

        def read(array: str, where: tuple[slice, ...]) -> NDArray[Any]:
            return blocking(read_slice(connection, manifest, array, where))

        size = sum(np.dtype(entry.dtype).itemsize * int(np.prod(entry.shape, dtype=np.int64)) for entry in manifest.arrays.values())
        keep = size > FETCH_BYTES
        capture = Capture.from_reader(manifest, read, self._rendered, load=not keep)
        if keep:
            # Everything that may still want to read holds the reader.
            weakref.finalize(read, _discard_quietly, connection, name)
        return capture, keep


async def start_capture(
    connection: Connection, rendered: Rendered, name: str, plan: CapturePlan, *, reply_tokens: int = 0, recompute: bool = False,
    interventions: Sequence[Intervention] = (), adapter: AdapterChoice | None = None,
) -> CaptureRun:  # fmt: skip
    """Queue a capture of the stored context `name`, under `interventions` that have been placed, by an adapter if there is one.

    Raises
    ------
    CaptureRefused
        Before anything ran.
    """
    body = capture_body(rendered, name, plan, reply_tokens=reply_tokens, recompute=recompute)
    body["interventions"] = [to_json(item) for item in interventions]
    body["adapter"] = adapter.model_dump() if adapter else None
    answer = await connection.request("POST", "/workbench/captures", json=body)
    return CaptureRun(connection, rendered, CaptureJob.model_validate(answer.json()))


async def capture_cost(
    connection: Connection, rendered: Rendered, name: str, plan: CapturePlan, *, reply_tokens: int = 0
) -> CaptureCost:
    """What a capture would cost; nothing runs."""
    body = capture_body(rendered, name, plan, reply_tokens=reply_tokens)
    return CaptureCost.model_validate((await connection.request("POST", "/workbench/captures/cost", json=body)).json())


def capture_body(
    rendered: Rendered, name: str, plan: CapturePlan, *, reply_tokens: int = 0, recompute: bool = False
) -> dict[str, Any]:  # fmt: skip
    """The request of a capture as JSON values; token selectors are resolved here, where spans are known."""
    resolved = plan.resolve(len(rendered), reply_tokens=reply_tokens)
    return CaptureBody(
        context=name, plan=resolved.to_json(), spans=[span_to_json(span) for span in rendered.spans], reply_tokens=reply_tokens,
        recompute=recompute,
    ).model_dump(mode="json")  # fmt: skip


async def read_slice(connection: Connection, manifest: CaptureManifest, array: str, where: tuple[slice, ...]) -> NDArray[Any]:
    """Part of an array; `where` has a slice with steps of 1 for every dimension. Fetched in pieces along the first."""
    entry = manifest.arrays[array]
    shape: tuple[int, ...] = tuple(part.stop - part.start for part in where)
    rows, others = where[0], where[1:]
    row_bytes = max(1, int(np.dtype(entry.dtype).itemsize * np.prod(shape[1:], dtype=np.int64)))
    if row_bytes > SLICE_BYTES and others:
        parts = [
            await read_slice(connection, manifest, array, (slice(row, row + 1), *others))
            if shape[0] > 1
            else await _halves(connection, manifest, array, where)
            for row in range(rows.start, rows.stop)
        ]
        return np.concatenate(parts) if parts else np.empty(shape, dtype=entry.dtype)
    step = max(1, SLICE_BYTES // row_bytes)
    index = ",".join(f"{part.start}:{part.stop}" for part in others)
    out = np.empty(shape, dtype=entry.dtype)
    for first in range(rows.start, rows.stop, step):
        last = min(first + step, rows.stop)
        span = {"start": first, "stop": last, "index": index}
        answer = await connection.request("GET", f"/workbench/captures/{manifest.id}/arrays/{array}", params=span)
        out[first - rows.start : last - rows.start] = np.load(io.BytesIO(answer.content), allow_pickle=False)
    return out


async def _halves(connection: Connection, manifest: CaptureManifest, array: str, where: tuple[slice, ...]) -> NDArray[Any]:
    """One row that is too large for one answer: cut along its longest dimension."""
    axis = max(range(1, len(where)), key=lambda i: where[i].stop - where[i].start)
    part = where[axis]
    middle = (part.start + part.stop) // 2
    pieces = [
        await read_slice(connection, manifest, array, (*where[:axis], piece, *where[axis + 1 :]))
        for piece in (slice(part.start, middle), slice(middle, part.stop))
    ]
    return np.concatenate(pieces, axis=axis)


async def _discard(connection: Connection, job: str) -> None:
    with contextlib.suppress(InklingError):  # gone already, or the engine is
        await connection.request("DELETE", f"/workbench/captures/{job}")


def _discard_quietly(connection: Connection, job: str) -> None:
    with contextlib.suppress(Exception):  # at the end of a program nothing may be left that could carry the request
        blocking(_discard(connection, job))
