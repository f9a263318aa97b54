"""What the engine kernel adds to every vLLM worker; methods are called through ``collective_rpc`` and answer between steps.

Importing this module in a worker installs the torch kernels where there is no GPU: vLLM imports it after the worker's platform is
set up and before the model is built. Knows vLLM's V2 model runner (0.32); knows no HTTP.
"""

from __future__ import annotations

from typing import Any

import engine.cpu

from ..protocol.intervention_sets import from_json
from . import adapter_fixes
from .acceptance import Acceptance
from .edits import compile_edits
from .interventions import Interventions, interventions_table
from .scoring import Scoring
from .seams import ArmedCapture, architecture, mode_of, seams_table

engine.cpu.install()
adapter_fixes.install()


class WorkbenchWorker:
    """Mixed into vLLM's worker class by ``--worker-extension-cls``; every public name starts with ``workbench_``."""

    model_runner: Any
    rank: int
    _armed: ArmedCapture | None = None
    _acceptance: Acceptance | None = None
    _changes: Interventions | None = None
    _scoring: Scoring | None = None

    def workbench_progress(self) -> dict[str, list[int]]:
        """Computed and total prompt tokens of each request a worker has seen: ``{request id: [computed, prompt]}``.

        A request that still waits for its first step is not among them. The granularity is one scheduler step.
        """
        states = self.model_runner.req_states
        return {
            request: [int(states.num_computed_prefill_tokens[index]), int(states.prefill_len.np[index])]
            for request, index in states.req_id_to_index.items()
        }

    def workbench_memory(self) -> dict[str, int]:
        """Bytes of this rank's weights (each once, however often it is used) and of its cache."""
        runner = self.model_runner
        models = [runner.model, *filter(None, [getattr(getattr(runner, "speculator", None), "model", None)])]
        weights = {value.data_ptr(): value.nbytes for model in models for value in model.parameters() if value.numel()}
        packed = sum(_packed_bytes(module, runner.model_config.dtype.itemsize) for model in models for module in model.modules())
        return {
            "weights_bytes": sum(weights.values()) + packed,
            "cache_bytes": sum(one.nbytes() for one in _storages(runner.kv_caches)),
        }

    def workbench_drafts(self) -> int:
        """Tokens that are drafted per step, 0 for none; from here on they are counted by request."""
        drafts = int(self.model_runner.num_speculative_steps)
        if drafts and self._acceptance is None:
            self._acceptance = Acceptance(self.model_runner)
        return drafts

    def workbench_acceptance(self, request: str) -> tuple[list[int], list[int]]:
        """Drafted and accepted tokens by depth of the request called `request`; empty without drafts."""
        return self._acceptance.of(request) if self._acceptance is not None else ([], [])

    def workbench_model(self) -> dict[str, Any]:
        """Sizes of the model as :class:`engine.protocol.Architecture` has them, and which seams can fire.

        Returns
        -------
        dict
            ``architecture``, ``mode``, ``seams`` (name, fires, reason, modes), ``interventions`` (name, fires, reason), ``kernels``
            (see :func:`engine.cpu.kernels`) and ``dtype``.
        """
        return {
            "architecture": architecture(self.model_runner).model_dump(),
            "mode": mode_of(self.model_runner),
            "seams": seams_table(self.model_runner),
            "interventions": interventions_table(self.model_runner),
            "kernels": engine.cpu.kernels(),
            "dtype": str(self.model_runner.model_config.dtype).removeprefix("torch."),
        }

    def workbench_intervene_begin(self, request_id: str, interventions: list[dict[str, Any]]) -> None:
        """Change what the request called `request_id` computes; called before it is handed to vLLM.

        Raises
        ------
        InterventionRefused
            Not interventions, or not of this model.
        """
        if self._changes is None:
            self._changes = Interventions(self.model_runner, architecture(self.model_runner))
        shape = architecture(self.model_runner)
        self._changes.begin(request_id, compile_edits([from_json(item) for item in interventions], shape))

    def workbench_intervene_end(self, request_id: str) -> None:
        """The request is over: vLLM has forgotten it. Harmless when it never began."""
        if self._changes is not None:
            self._changes.end(request_id)

    def workbench_score_begin(self, request_id: str, first: int, ids: list[int]) -> None:
        """Score tokens `ids` of the request called `request_id`, the first of them at position `first`."""
        self._scoring = self._scoring or Scoring(self.model_runner)
        self._scoring.begin(request_id, first, ids)

    def workbench_score_end(self, request_id: str) -> list[float]:
        """The log-probabilities, NaN where one was not seen; empty when nothing was begun."""
        return [] if self._scoring is None else self._scoring.end(request_id)

    def workbench_capture_begin(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Arm a capture for the request that comes next; create its arrays.

        Parameters
        ----------
        spec : dict
            ``id``, ``request_id`` (see :mod:`.request_ids`), ``folder`` (exists), ``tokens``, ``plan`` (resolved, as
            JSON), ``edges`` (first token of each span), ``interventions`` (as JSON; default: none).

        Returns
        -------
        dict
            ``arrays`` (dims, shape, dtype by name) and ``layers`` (model indices by seam).

        Raises
        ------
        RuntimeError
            Another capture is armed.
        ValueError
            A seam that cannot fire here.
        """
        if self._armed is not None:
            raise RuntimeError(f"capture {self._armed.id} is still armed; end it before {spec['id']} begins")
        parallel = self.model_runner.vllm_config.parallel_config
        ranks = parallel.tensor_parallel_size
        rank = self.rank % ranks
        self._armed = ArmedCapture(self.model_runner, spec, rank=rank, ranks=ranks)
        return self._armed.layout()

    def workbench_capture_end(self, id: str) -> dict[str, Any]:
        """Disarm, flush and report: ``coverage`` by seam and ``problems``, of this rank. Harmless when nothing is armed."""
        armed, self._armed = self._armed, None
        if armed is None or armed.id != id:
            self._armed = armed
            return {"coverage": {}, "problems": [f"capture {id} is not armed"]}
        return armed.end()


def _packed_bytes(module: Any, value_bytes: int) -> int:
    """Bytes of a linear layer's weight that vLLM handed to oneDNN on a CPU, and that is no parameter any more; else 0."""
    if getattr(module, "cpu_linear", None) is None or module.weight.numel():
        return 0
    # A replicated layer (the draft blocks have one) is whole on every rank and knows no partition.
    rows, cols = (
        getattr(module, f"{side}_size_per_partition", None) or getattr(module, f"{side}_size") for side in ("output", "input")
    )
    return rows * cols * value_bytes


def _storages(caches: Any) -> list[Any]:
    """The distinct pieces of memory behind per-layer views of the cache."""
    flat, found = [caches], {}
    while flat:
        one = flat.pop()
        match one:
            case dict():
                flat += one.values()
            case list() | tuple():
                flat += one
            case _ if hasattr(one, "untyped_storage"):
                storage = one.untyped_storage()
                found[storage.data_ptr()] = storage
    return list(found.values())
