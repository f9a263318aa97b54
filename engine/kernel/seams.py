"""Seams: where in vLLM's Inkling a capture observes, and whether it can fire in the running mode.

One capture is armed at a time, in every worker; rank 0 writes. Arming puts a tap on the gate's expert selection and on the runner's
steps, disarming takes it off again: between captures vLLM's own code runs untouched. Which rows of a step belong to the request,
and at which positions, comes from the runner's own batch: other requests, chunked prompts and padding do not matter.

On a GPU the tap needs Python to run: while armed, recorded graphs are not replayed (the engine runs eagerly, all ranks alike).
This has not been tried on a GPU yet.

Private names of vLLM 0.32 used here: ``InklingGate.select_experts``, ``GPUModelRunner.prepare_inputs`` and ``execute_model``. Each
is looked up before it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..protocol.plans import SEAMS
from .seam_routing import RoutingRecorder
from .taps import OBSERVE, graph_managers, without_graphs, wrap

GATE = ("vllm.models.inkling.nvidia.moe", "InklingGate", "select_experts")


def seams_table(runner: Any) -> list[dict[str, Any]]:
    """Each seam with whether it fires here and, if not, why."""
    reasons: dict[str, str | None] = dict.fromkeys(SEAMS, "not built yet in this version")
    reasons["routing"] = _routing_reason(runner)
    return [{"name": name, "fires": reason is None, "reason": reason} for name, reason in reasons.items()]


def gates(runner: Any) -> dict[int, Any]:
    """The router of each MoE layer, by the layer's index in the model."""
    gate = _gate_class()
    found = {}
    for name, module in runner.model.named_modules():
        if isinstance(module, gate):
            parts = name.split(".")
            found[int(parts[parts.index("layers") + 1])] = module
    return dict(sorted(found.items()))


def _gate_class() -> type:
    import importlib

    module, name, method = GATE
    gate = getattr(importlib.import_module(module), name)
    getattr(gate, method)
    return gate


def _routing_reason(runner: Any) -> str | None:
    parallel = runner.vllm_config.parallel_config
    if parallel.pipeline_parallel_size > 1 or parallel.data_parallel_size > 1:
        return "layers are spread over pipeline or data parallel workers"
    try:
        if not gates(runner):
            return "the model has no Inkling router"
        _ = runner.prepare_inputs, runner.execute_model, graph_managers(runner)
    except (ImportError, AttributeError) as problem:
        return f"this vLLM moved what the seam needs: {problem}"
    return None


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows `start` to `stop` of the running step belong to the request; `t` are their absolute positions."""

    start: int
    stop: int
    t: NDArray[np.int64]


class ArmedCapture:
    """A capture in one worker, from arming to disarming.

    Parameters
    ----------
    runner : GPUModelRunner
    spec : dict
        ``id``, ``request_id`` (a prefix of vLLM's own id), ``folder``, ``tokens``, ``seams``.
    writes : bool
        This worker writes (rank 0); the others only stop replaying graphs.

    Raises
    ------
    ValueError
        A seam that cannot fire here; nothing was armed.
    """

    def __init__(self, runner: Any, spec: dict[str, Any], *, writes: bool) -> None:
        able = {seam["name"]: seam for seam in seams_table(runner)}
        for name in spec["seams"]:
            if name not in able or not able[name]["fires"]:
                raise ValueError(f"seam {name} cannot fire here: {able.get(name, {}).get('reason', 'unknown seam')}")
        self.id, self._runner, self._spec, self._writes = str(spec["id"]), runner, spec, writes
        self._rows: Rows | None = None
        self._problems: list[str] = []
        self._undo: list[Callable[[], None]] = []
        self._recorder: RoutingRecorder | None = None
        if writes and "routing" in spec["seams"]:
            self._record_routing()
        self._undo.append(without_graphs(runner))

    def layout(self) -> dict[str, Any]:
        """Arrays (dims, shape, dtype) and layer coordinates of what will be written; empty in workers that do not write."""
        if self._recorder is None:
            return {"arrays": {}, "layers": {}}
        return {"arrays": self._recorder.entries(), "layers": {"routing": self._recorder.layers}}

    def end(self) -> dict[str, Any]:
        """Disarm and flush; tokens covered, whether all are, and what is wrong."""
        for undo in reversed(self._undo):
            undo()
        covered, problems = (0, []) if self._recorder is None else self._recorder.finish()
        problems = [*self._problems, *problems]
        complete = self._writes and not problems and covered == self._spec["tokens"]
        return {"covered_tokens": covered, "complete": complete, "problems": problems}

    def _record_routing(self) -> None:
        found = gates(self._runner)
        first = next(iter(found.values()))
        layer_of = {id(gate): layer for layer, gate in found.items()}
        recorder = self._recorder = RoutingRecorder(
            Path(self._spec["folder"]), tokens=int(self._spec["tokens"]), layers=list(found),
            experts_per_token=first.topk, sinks=first.n_shared_experts,
        )  # fmt: skip

        def select_experts(call: Any, module: Any, gating_output: Any) -> Any:
            weights, ids = call(module, gating_output)
            rows = self._rows
            if rows is not None and id(module) in layer_of:
                part = slice(rows.start, rows.stop)
                recorder.record(layer_of[id(module)], rows.t, weights[part].cpu().numpy(), ids[part].cpu().numpy())
            return weights, ids

        self._undo.append(wrap(_gate_class(), "select_experts", select_experts, rank=OBSERVE))
        self._follow_steps()

    def _follow_steps(self) -> None:
        """Know, during a step and only then, which rows are the request's."""

        def prepare_inputs(call: Any, *args: Any, **kwargs: Any) -> Any:
            batch = call(*args, **kwargs)
            self._rows = self._find(batch)
            return batch

        def execute_model(call: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return call(*args, **kwargs)
            finally:
                self._rows = None

        self._undo.append(wrap(self._runner, "prepare_inputs", prepare_inputs, rank=OBSERVE))
        self._undo.append(wrap(self._runner, "execute_model", execute_model, rank=OBSERVE))

    def _find(self, batch: Any) -> Rows | None:
        wanted = [row for row, name in enumerate(batch.req_ids) if name.startswith(self._spec["request_id"])]
        if not wanted:
            return None
        row, *others = wanted
        if others:
            self._note(f"{len(wanted)} requests are called {self._spec['request_id']}…: their rows cannot be told apart")
            return None
        states = self._runner.req_states
        length = int(states.prompt_len.np[states.req_id_to_index[batch.req_ids[row]]])
        if length != self._spec["tokens"]:
            self._note(f"the engine runs {length} tokens, {self._spec['tokens']} were expected")
            return None
        start, stop = int(batch.query_start_loc_np[row]), int(batch.query_start_loc_np[row + 1])
        return Rows(start, stop, batch.positions[start:stop].cpu().numpy().astype(np.int64))

    def _note(self, problem: str) -> None:
        if problem not in self._problems:
            self._problems.append(problem)
