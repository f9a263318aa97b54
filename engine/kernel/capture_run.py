"""One capture from its first step to its manifest: prepare, arm, prefill, disarm, count.

The manifest is on disk before the first token is computed, saying that nothing is complete; it is replaced when everything is. What
an engine that died left behind can so be opened all the same (``Capture.load`` takes the folder), beside the ids and spans it ran.
Knows no queue (:mod:`.jobs`) and not what a seam records (:mod:`.seams`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import RequestFailed
from ..protocol import ArrayEntry, CaptureManifest, CapturePlan, Intervention, Sampling, Span, span_to_json
from ..protocol.intervention_sets import salt, to_json
from ..protocol.plans import SITES
from ..protocol.presence import write_private
from .adapters import Loaded
from .contexts import StoredContext
from .endings import finish
from .following import prefill_progress
from .generation import prepare, provenance, sampling_params
from .intervening import intervened
from .prefix_cap import ARGUMENT
from .state import Activity

if TYPE_CHECKING:
    from .state import KernelState

MANIFEST = "manifest.json"


@dataclasses.dataclass(slots=True, eq=False)
class CaptureRun:
    """What one run needs; `activity` and `manifest` say how far it is.

    Attributes
    ----------
    spans : tuple of Span
        Partition of the tokens, as the client renders them; may be empty.
    adapter : Loaded or None
        Runs the context; None is the model alone.
    """

    id: str
    context: StoredContext
    plan: CapturePlan
    spans: tuple[Span, ...]
    folder: Path
    interventions: tuple[Intervention, ...] = ()
    adapter: Loaded | None = None
    activity: Activity | None = None
    manifest: CaptureManifest | None = None

    async def run(self, state: KernelState) -> None:
        """Capture; afterwards the manifest says what was covered.

        Raises
        ------
        RequestFailed
            Something was not covered, or twice: `manifest` is there and says it is partial.
        """
        request_id, tokens = f"capture-{self.id}", len(self.context)
        engine_input = await prepare(state, self.context, answer_tokens=1, cache_salt=salt(self.interventions))
        self.folder.mkdir(mode=0o700)
        edges = [span.start for span in self.spans] or [0]
        spec = {
            "id": self.id, "request_id": request_id, "folder": str(self.folder), "tokens": tokens, "plan": self.plan.to_json(),
            "edges": edges, "interventions": [to_json(item) for item in self.interventions],
        }  # fmt: skip
        self.activity = state.active[request_id] = Activity(request_id=request_id, kind="capture", total_tokens=tokens)
        try:
            (layout, *_) = await state.llm.collective_rpc("workbench_capture_begin", args=(spec,))
            self.manifest = self._begun(state, layout, edges)
            await asyncio.to_thread(self._write_context)
            async with intervened(state, request_id, self.interventions):
                await self._prefill(state, engine_input)
        finally:
            state.active.pop(request_id, None)
            # Whatever happened, also a cancel while the seams are being armed, they must not stay so. To end what never began is
            # harmless.
            await finish(self._end(state))
        if not self.manifest.complete:
            problems = "; ".join(self.manifest.problems) or "rows are missing"
            raise RequestFailed(f"the capture is not trustworthy: {problems}", job=self.id)

    async def _end(self, state: KernelState) -> None:
        """Disarm the seams and count what they covered; nothing to do when the engine is dead."""
        if state.llm.errored:
            return
        ends = await state.llm.collective_rpc("workbench_capture_end", args=(self.id,))
        if self.manifest is not None:
            self._count(ends)

    async def _prefill(self, state: KernelState, engine_input: Any) -> None:
        """Run the prompt and one token, keeping the activity up to date."""
        activity = self.activity
        assert activity is not None

        async def watch() -> None:
            while True:
                await asyncio.sleep(0.2)
                await prefill_progress(state, activity)

        watching = asyncio.create_task(watch())
        params = sampling_params(state, Sampling(max_tokens=1, temperature=0.0))
        # Nothing that is to be seen may come from the cache; everything before may.
        params.extra_args = {**(params.extra_args or {}), ARGUMENT: self.plan.first_token(len(self.context))}
        began, cached = time.monotonic(), 0
        try:
            request = self.adapter.request if self.adapter else None
            async for output in state.llm.generate(engine_input, params, activity.request_id, lora_request=request):
                cached = output.num_cached_tokens or 0
            state.speed.add(len(self.context) - cached, time.monotonic() - began)
        finally:
            watching.cancel()

    def _begun(self, state: KernelState, layout: dict[str, Any], edges: list[int]) -> CaptureManifest:
        plan, tokens = self.plan, len(self.context)
        ranges = {
            name: [(piece.start, piece.stop) for piece in selector]
            for name in plan.seams()
            if not isinstance(selector := getattr(plan, name).tokens, str)
        }
        labels = {"residual.site": ["attention", "mlp"]} if plan.residual else {}
        if plan.sconv:
            labels["sconv.site"] = [site for site in SITES if site in plan.sconv.sites]
        if plan.attention and plan.attention.heads != "all":
            labels["attention.h"] = [str(head) for head in plan.attention.heads]
        pooled = plan.attention is not None and plan.attention.keep == "pooled"
        manifest = CaptureManifest(
            id=self.id, context=self.context.id, plan=plan.to_json(), tokens=tokens,
            arrays={name: ArrayEntry(**entry) for name, entry in layout["arrays"].items()}, layers=layout["layers"],
            ranges={name: found for name, found in ranges.items() if found != [(0, tokens)]}, labels=labels,
            edges=edges if pooled else [], covered_tokens=0, coverage={}, complete=False,
            provenance=self._provenance(state),
        )  # fmt: skip
        write_private(self.folder / MANIFEST, manifest.model_dump_json())
        return manifest

    def _count(self, ends: list[dict[str, Any]]) -> None:
        """Merge what the ranks covered, and write the manifest again."""
        assert self.manifest is not None
        coverage: dict[str, tuple[int, int]] = {}
        problems: list[str] = []
        for ended in ends:
            for name, (once, asked) in ended["coverage"].items():
                held = coverage.get(name, (once, asked))
                coverage[name] = (min(once, held[0]), asked)
            problems += [problem for problem in ended["problems"] if problem not in problems]
        complete = bool(coverage) and not problems and all(once == asked for once, asked in coverage.values())
        shares = [once / asked for once, asked in coverage.values()] or [0.0]
        covered = len(self.context) if complete else int(min(shares) * len(self.context))
        self.manifest = self.manifest.model_copy(
            update={"coverage": coverage, "complete": complete, "covered_tokens": covered, "problems": problems}
        )
        write_private(self.folder / MANIFEST, self.manifest.model_dump_json())

    def _write_context(self) -> None:
        """What ran, so that the folder can be opened alone."""
        np.save(self.folder / "token_ids.npy", self.context.token_ids)
        values = {
            "spans": [span_to_json(span) for span in self.spans],
            "media": [dataclasses.asdict(item) for item in self.context.media],
            "image_rule": dataclasses.asdict(self.context.image_rule),
        }
        write_private(self.folder / "context.json", json.dumps(values))

    def _provenance(self, state: KernelState) -> dict[str, Any]:
        shape = state.info.architecture
        values = provenance(state, interventions=self.interventions) | {
            "architecture": shape.model_dump(mode="json") if shape else None,
            "media": [dataclasses.asdict(item) for item in self.context.media],
        }
        return values | {"adapter": self.adapter.info.model_dump(mode="json")} if self.adapter else values
