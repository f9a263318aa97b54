"""Captures as jobs: one runs, the others wait their turn.

A capture is one forced prefill of a stored context under a cache salt of its own, so that every token is computed and seen. The
workers write the arrays into the job's folder; this module orders the steps, counts what was covered and writes the manifest.
The newest captures are kept on disk, older ones make room. Nothing here knows what a seam records
(:mod:`engine.kernel.worker`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest, CaptureRefused, InklingError, RequestFailed
from ..protocol import ArrayEntry, CaptureJob, CaptureManifest, CapturePlan, EngineInfo, Sampling
from ..protocol.presence import write_private
from .contexts import StoredContext
from .generation import prefill_progress, prepare, provenance, sampling_params
from .state import Activity

if TYPE_CHECKING:
    from .state import KernelState

KEEP = 8
"""Finished captures that stay on disk."""

MANIFEST = "manifest.json"


@dataclass(slots=True, eq=False)
class _Job:
    id: str
    context: StoredContext
    plan: CapturePlan
    cost_bytes: int
    folder: Path
    state: Any = "queued"
    activity: Activity | None = None
    error: InklingError | None = None
    manifest: CaptureManifest | None = None
    task: asyncio.Task[None] | None = None

    def to_model(self) -> CaptureJob:
        done = self.activity.done_tokens if self.activity else 0
        return CaptureJob(
            id=self.id, state=self.state, total_tokens=len(self.context), cost_bytes=self.cost_bytes,
            done_tokens=len(self.context) if self.state == "done" else done,
            error=self.error.to_json() if self.error else None, manifest=self.manifest,
        )  # fmt: skip


class CaptureJobs:
    """The jobs of one kernel.

    Parameters
    ----------
    folder : Path
        Holds one folder per job.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self._jobs: OrderedDict[str, _Job] = OrderedDict()
        self._turn = asyncio.Lock()

    def start(self, state: KernelState, context: StoredContext, plan: CapturePlan) -> CaptureJob:
        """Check a plan and queue it.

        Raises
        ------
        CaptureRefused
            A seam that cannot fire here, or no room on disk; nothing was started.
        """
        cost = check_plan(state.info, plan, len(context), free_bytes=shutil.disk_usage(self.folder).free)
        name = uuid.uuid4().hex
        job = _Job(id=name, context=context, plan=plan, cost_bytes=cost, folder=self.folder / name)
        self._jobs[name] = job
        job.task = asyncio.create_task(self._run(state, job))
        return job.to_model()

    def get(self, name: str) -> CaptureJob:
        """State of a job."""
        return self._find(name).to_model()

    async def cancel(self, name: str) -> CaptureJob:
        """End a job, whatever its state, and remove its files."""
        job = self._find(name)
        if job.task is not None and not job.task.done():
            job.task.cancel()
            await asyncio.gather(job.task, return_exceptions=True)
        self._remove(job)
        job.state = "cancelled"
        return job.to_model()

    def array(self, name: str, array: str) -> tuple[Path, ArrayEntry]:
        """File and entry of an array of a finished capture."""
        job = self._find(name)
        if job.manifest is None:
            raise BadRequest(f"capture {name} is {job.state}: its arrays can be read when it is done", job=name)
        if array not in job.manifest.arrays:
            raise BadRequest(f"capture {name} has no array {array[:80]!r}; it has {', '.join(job.manifest.arrays)}", job=name)
        return job.folder / f"{array}.npy", job.manifest.arrays[array]

    async def close(self) -> None:
        """Cancel what runs or waits."""
        tasks = [job.task for job in self._jobs.values() if job.task is not None and not job.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _find(self, name: str) -> _Job:
        if name not in self._jobs:
            raise BadRequest(f"no capture {name[:80]!r} here: it was removed, or another engine made it", job=name[:80])
        return self._jobs[name]

    async def _run(self, state: KernelState, job: _Job) -> None:
        try:
            async with self._turn:
                job.state = "running"
                job.folder.mkdir(mode=0o700)
                job.manifest = await _capture(state, job)
                job.state = "done"
        except asyncio.CancelledError:
            job.state = "cancelled"
            self._remove(job)
            raise
        except Exception as problem:
            job.error = (
                problem if isinstance(problem, InklingError) else RequestFailed(f"the capture failed: {problem}", job=job.id)
            )
            job.state = "failed"
            self._remove(job)
        self._make_room()

    def _remove(self, job: _Job) -> None:
        shutil.rmtree(job.folder, ignore_errors=True)
        job.manifest = None

    def _make_room(self) -> None:
        ended = [job for job in self._jobs.values() if job.state not in ("queued", "running")]
        for job in ended[:-KEEP]:
            self._remove(job)
            del self._jobs[job.id]


def check_plan(info: EngineInfo, plan: CapturePlan, tokens: int, *, free_bytes: int) -> int:
    """Bytes a plan will write.

    Raises
    ------
    CaptureRefused
        A seam does not fire here (with its reason), or the disk is too small.
    """
    for name in plan.seams():
        seam = info.seam(name)
        if not seam.fires:
            raise CaptureRefused(f"{name} cannot be captured by this engine: {seam.reason}", seam=name)
    cost, shape = 0, info.architecture
    if plan.routing and shape is not None:
        # Expert ids in two bytes, their weights and the sinks' in four (engine.protocol.captures).
        cost += tokens * len(shape.moe_layers) * (6 * shape.experts_per_token + 4 * shape.sinks)
    if cost > free_bytes:
        raise CaptureRefused(
            f"this capture writes {cost:,} bytes, the engine's disk has {free_bytes:,} free: capture fewer tokens or clean up",
            cost_bytes=cost, free_bytes=free_bytes,
        )  # fmt: skip
    return cost


async def _capture(state: KernelState, job: _Job) -> CaptureManifest:
    request_id = f"capture-{job.id}"
    engine_input = await prepare(state, job.context, answer_tokens=1, cache_salt=request_id)
    spec = {
        "id": job.id, "request_id": request_id, "folder": str(job.folder), "tokens": len(job.context),
        "seams": list(job.plan.seams()),
    }  # fmt: skip
    job.activity = state.active[request_id] = Activity(request_id=request_id, kind="capture", total_tokens=len(job.context))
    (layout, *_) = await state.llm.collective_rpc("workbench_capture_begin", args=(spec,))
    try:
        await _prefill(state, engine_input, job.activity)
    finally:
        state.active.pop(request_id, None)
        # Whatever happened, the seams must not stay armed; and a cancelled job still has to wait for that.
        ending = asyncio.ensure_future(state.llm.collective_rpc("workbench_capture_end", args=(job.id,)))
        (ended, *_) = await asyncio.shield(ending)
    if ended["problems"]:
        raise RequestFailed(f"the capture is not trustworthy: {'; '.join(ended['problems'])}", job=job.id)
    manifest = CaptureManifest(
        id=job.id, context=job.context.id, plan=dataclasses.asdict(job.plan), tokens=len(job.context),
        arrays={name: ArrayEntry(**entry) for name, entry in layout["arrays"].items()}, layers=layout["layers"],
        covered_tokens=ended["covered_tokens"], complete=ended["complete"], provenance=_provenance(state, job),
    )  # fmt: skip
    write_private(job.folder / MANIFEST, manifest.model_dump_json())
    return manifest


async def _prefill(state: KernelState, engine_input: Any, activity: Activity) -> None:
    """Run the prompt and one token, keeping `activity` up to date."""

    async def watch() -> None:
        while True:
            await asyncio.sleep(0.2)
            await prefill_progress(state, activity)

    watching = asyncio.create_task(watch())
    try:
        params = sampling_params(state, Sampling(max_tokens=1, temperature=0.0))
        async for _ in state.llm.generate(engine_input, params, activity.request_id):
            pass
    finally:
        watching.cancel()


def _provenance(state: KernelState, job: _Job) -> dict[str, Any]:
    shape = state.info.architecture
    return provenance(state) | {
        "architecture": shape.model_dump(mode="json") if shape else None,
        "media": [dataclasses.asdict(item) for item in job.context.media],
    }
