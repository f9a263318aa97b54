"""Captures as jobs: one runs, the others wait their turn.

This module orders them, tells how far they are, keeps what they wrote, and makes room. A job that was cancelled or failed while it
ran keeps what was written, which can be read like a finished one and says that it is partial. Nothing here knows how a capture runs
(:mod:`.capture_run`).
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest, EngineBusy, EngineDied, InklingError, QuotaFull, RequestFailed
from ..protocol import ArrayEntry, CaptureCost, CaptureJob, CapturePlan, Intervention, Span
from .adapters import Loaded
from .capture_costs import check_cost, cost_of
from .capture_run import CaptureRun
from .contexts import StoredContext
from .quotas import KEPT_S

if TYPE_CHECKING:
    from .state import KernelState

KEEP = 8
"""Ended captures that stay on disk, however long nobody has read them."""

LEFT_BEHIND_S = 3 * 24 * 3600
"""Captures of an engine that died are kept so long."""


@dataclass(slots=True, eq=False)
class _Job:
    run: CaptureRun
    cost: CaptureCost
    state: Any = "queued"
    error: InklingError | None = None
    task: asyncio.Task[None] | None = None
    used: float = 0.0

    @property
    def idle(self) -> bool:
        """Ended, and not read for so long that nobody will miss it."""
        return self.state not in ("queued", "running") and time.monotonic() - self.used > KEPT_S

    @property
    def id(self) -> str:
        return self.run.id

    def to_model(self) -> CaptureJob:
        total, activity = len(self.run.context), self.run.activity
        return CaptureJob(
            id=self.id, state=self.state, total_tokens=total, cost=self.cost,
            done_tokens=total if self.state == "done" else activity.done_tokens if activity else 0,
            error=self.error.to_json() if self.error else None, folder=str(self.run.folder),
            manifest=self.run.manifest if self.state not in ("queued", "running") else None,
        )  # fmt: skip


class CaptureJobs:
    """The jobs of one kernel.

    Parameters
    ----------
    folder : Path
        Holds one folder per job; its neighbours are those of other kernels.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self._jobs: OrderedDict[str, _Job] = OrderedDict()
        self._turn = asyncio.Lock()
        for other in folder.parent.iterdir():
            if other != folder and time.time() - other.stat().st_mtime > LEFT_BEHIND_S:
                shutil.rmtree(other, ignore_errors=True)

    def cost(self, state: KernelState, context: StoredContext, plan: CapturePlan, *, spans: int) -> CaptureCost:
        """What a resolved plan would cost.

        Raises
        ------
        CaptureRefused
            It cannot run here at any cost.
        """
        return cost_of(state.info, plan, len(context), spans=spans, speed=state.speed)

    def start(
        self, state: KernelState, context: StoredContext, plan: CapturePlan, spans: tuple[Span, ...] = (), *,
        recompute: bool = False, interventions: tuple[Intervention, ...] = (), adapter: Loaded | None = None,
    ) -> CaptureJob:  # fmt: skip
        """Check a resolved plan and queue it; `interventions` have passed their check. `adapter` stays at hand when it is unloaded.

        Raises
        ------
        CaptureRefused
            A seam that cannot fire here, something that is not there, or too large; nothing was started.
        EngineBusy, QuotaFull
            As many captures as the engine takes are running or waiting, or on disk.
        """
        if (busy := sum(job.state in ("queued", "running") for job in self._jobs.values())) >= state.info.limits.captures:
            raise EngineBusy(
                f"{busy} captures are running or waiting, this engine takes {state.info.limits.captures} (limits.captures): "
                "try again when one has ended", limit=state.info.limits.captures,
            )  # fmt: skip
        cost = self.cost(state, context, plan, spans=len(spans))
        free = shutil.disk_usage(self.folder).free
        check_cost(cost, plan, state.info, len(context), spans=len(spans), free_bytes=free, recompute=recompute)
        self._make_place(cost.disk_bytes, state.info.limits.captures_bytes)
        name = uuid.uuid4().hex
        run = CaptureRun(
            id=name, context=context, plan=plan, spans=spans, folder=self.folder / name, interventions=interventions,
            adapter=adapter,
        )  # fmt: skip
        job = _Job(run, cost)
        self._jobs[name] = job
        job.task = asyncio.create_task(self._run(state, job))
        return job.to_model()

    def get(self, name: str) -> CaptureJob:
        """State of a job."""
        return self._find(name).to_model()

    async def cancel(self, name: str) -> CaptureJob:
        """End a job; what it wrote stays, and says that it is partial."""
        job = self._find(name)
        if job.task is not None and not job.task.done():
            job.task.cancel()
            await asyncio.gather(job.task, return_exceptions=True)
        return job.to_model()

    async def remove(self, name: str) -> CaptureJob:
        """End a job, whatever its state, and remove its files."""
        job = self._find(name)
        await self.cancel(name)
        self._clear(job)
        job.state = "cancelled"
        return job.to_model()

    def array(self, name: str, array: str) -> tuple[Path, ArrayEntry]:
        """File and entry of an array of an ended capture."""
        job = self._find(name)
        manifest = job.to_model().manifest
        if manifest is None:
            raise BadRequest(f"capture {name} is {job.state}: it has no arrays to read", job=name)
        if array not in manifest.arrays:
            raise BadRequest(f"capture {name} has no array {array[:80]!r}; it has {', '.join(manifest.arrays)}", job=name)
        job.used = time.monotonic()
        return job.run.folder / f"{array}.npy", manifest.arrays[array]

    async def close(self) -> None:
        """Cancel what runs or waits, and remove every file: the engine ends in order."""
        tasks = [job.task for job in self._jobs.values() if job.task is not None and not job.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _find(self, name: str) -> _Job:
        if name not in self._jobs:
            raise BadRequest(f"no capture {name[:80]!r} here: it was removed, or another engine made it", job=name[:80])
        return self._jobs[name]

    async def _run(self, state: KernelState, job: _Job) -> None:
        try:
            async with self._turn:
                job.state = "running"
                await job.run.run(state)
                job.state = "done"
        except asyncio.CancelledError:
            job.state = "cancelled"
            raise
        except Exception as problem:
            job.error, job.state = _named(state, job, problem), "failed"
        finally:
            job.used = time.monotonic()
            self._make_room()

    def _clear(self, job: _Job) -> None:
        shutil.rmtree(job.run.folder, ignore_errors=True)
        job.run.manifest = None

    def _make_place(self, size_bytes: int, most_bytes: int) -> None:
        """Let the oldest captures that nobody reads any more go until one of that size fits; none when that would not do."""
        waiting = sum(job.cost.disk_bytes for job in self._jobs.values() if job.state == "queued")
        used, sizes = _bytes_below(self.folder.parent) + waiting, dict[str, int]()
        for job in self._jobs.values():
            if used - sum(sizes.values()) + size_bytes <= most_bytes:
                break
            if job.idle:
                sizes[job.id] = _bytes_below(job.run.folder)
        if used - sum(sizes.values()) + size_bytes > most_bytes:
            raise QuotaFull(
                f"a capture of {size_bytes:,} bytes does not fit: {used:,} of {most_bytes:,} (limits.captures_bytes) are taken: "
                "let captures go that you hold (del), remove those that ended engines left ('inkling engine clean "
                "--older-than 0'), capture less, or raise the limit in the recipe ([limits])",
                limit="limits.captures_bytes", limit_bytes=most_bytes, used_bytes=used, size_bytes=size_bytes,
            )  # fmt: skip
        for name in sizes:
            self._clear(self._jobs.pop(name))

    def _make_room(self) -> None:
        idle = [job for job in self._jobs.values() if job.idle]
        for job in idle[:-KEEP]:
            self._clear(job)
            with contextlib.suppress(KeyError):
                del self._jobs[job.id]


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def _named(state: KernelState, job: _Job, problem: Exception) -> InklingError:
    """The error our clients know."""
    if isinstance(problem, InklingError):
        return problem
    if state.llm.errored:
        folder = str(job.run.folder)
        return EngineDied(
            f"the engine died during the capture; what was written can be opened: Capture.load({folder!r})", folder=folder
        )
    return RequestFailed(f"the capture failed: {problem}", job=job.id)
