"""Seams: what a capture can observe in vLLM's Inkling, whether it can fire in the running mode, and a capture while it is armed.

One capture is armed at a time, in every worker. Arming wraps the places its seams need (:mod:`.watching`), disarming takes that off
again: between captures vLLM's own code runs untouched. A seam's own file knows what it records.

On a GPU the seams need Python to run: while armed, recorded graphs are not replayed (the engine runs eagerly, all ranks alike).
This has not been tried on a GPU yet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..protocol import Architecture
from ..protocol.costs import entries, heads_of, layers_of
from ..protocol.intervention_sets import from_json
from ..protocol.plans import ADDITIONS, SEAMS, CapturePlan
from .array_files import ArrayFile
from .edits import compile_edits
from .layer_places import layers_with, lookup
from .recording import Selection, TokenRecorder
from .seam_attention import AttentionSeam
from .seam_drafts import DraftsSeam
from .seam_residual import ResidualSeam
from .seam_routing import RoutingSeam
from .seam_sconv import SconvSeam
from .taps import graph_managers, without_graphs
from .watching import Watch, draft_heads

NEEDS = {
    "routing": ("gate",), "sconv": ("prep", "sconv"), "attention": ("scaling", "attention"), "residual": ("residual",),
    "drafts": (),
}  # fmt: skip
"""Places each seam wraps."""

_UNTRIED = "(not tried on a GPU yet)"
_EAGER = f"fires; the engine computes eagerly while a capture runs {_UNTRIED}"
_SEEN = {"cpu": "fires", "gpu-eager": f"fires {_UNTRIED}", "gpu-graphs": _EAGER}
_LAMPORT = "; needs LAMPORT_RS_SCONV=0 when the engine starts"
_NO_DRAFTS = "this engine drafts nothing: start one that does (engine.start(…, drafts=2), inkling engine start --drafts 2)"
_OTHER_DRAFTS = "this engine's drafts do not come from the model's own draft heads"
_DRAFTING = "; needs an engine that drafts"
MODES: dict[str, dict[str, str]] = {
    "routing": _SEEN,
    "sconv": {mode: text if mode == "cpu" else text + _LAMPORT for mode, text in _SEEN.items()},
    "attention": _SEEN,
    "residual": _SEEN,
    "drafts": {mode: text + _DRAFTING for mode, text in _SEEN.items()},
}
"""Which seams fire in which mode."""


def mode_of(runner: Any) -> str:
    """How this engine computes: ``cpu``, ``gpu-eager`` or ``gpu-graphs``."""
    if runner.device.type == "cpu":
        return "cpu"
    return "gpu-eager" if runner.vllm_config.model_config.enforce_eager else "gpu-graphs"


def seams_table(runner: Any) -> list[dict[str, Any]]:
    """Each seam with whether it fires here and, if not, why; and what holds in each mode."""
    rows = []
    for name in SEAMS:
        reason = _reason(runner, name)
        rows.append({"name": name, "fires": reason is None, "reason": reason, "modes": MODES[name]})
    return rows


def _reason(runner: Any, name: str) -> str | None:
    parallel = runner.vllm_config.parallel_config
    if parallel.pipeline_parallel_size > 1 or parallel.data_parallel_size > 1:
        return "layers are spread over pipeline or data parallel workers"
    try:
        for place in NEEDS[name]:
            lookup(place)
        if name == "drafts":
            if not runner.speculator:
                return _NO_DRAFTS
            _ = runner.speculator.propose, runner.speculator._run_model, runner.speculator.compute_draft_logits
            if not draft_heads(runner):
                return _OTHER_DRAFTS
        if not layers_with(runner, "gate" if name == "routing" else "attention"):
            return "the model has no Inkling router" if name == "routing" else "the model is not an Inkling"
        _ = runner.prepare_inputs, runner.execute_model, graph_managers(runner)
    except (ImportError, AttributeError) as problem:
        return f"this vLLM moved what the seam needs: {problem}"
    return _fused(runner) if name == "sconv" else None


def _fused(runner: Any) -> str | None:
    """On GPUs vLLM may run the convolution inside a collective, where nothing can look."""
    from vllm.models.inkling.nvidia.ops import lamport

    config = runner.model_config.hf_config.get_text_config()
    if lamport.get_lamport_rs_conv(config.hidden_size, config.sconv_kernel_size) is None:
        return None
    return "the convolutions run inside a fused collective: start the engine with LAMPORT_RS_SCONV=0"


def architecture(runner: Any) -> Architecture:
    """Sizes of the model."""
    config = runner.model_config.hf_config.get_text_config()
    local = set(config.local_layer_ids)
    return Architecture(
        layers=config.num_hidden_layers,
        global_layers=tuple(layer for layer in range(config.num_hidden_layers) if layer not in local),
        moe_layers=tuple(range(config.dense_mlp_idx, config.num_hidden_layers)),
        experts=config.n_routed_experts, experts_per_token=config.num_experts_per_tok, sinks=config.n_shared_experts,
        hidden=config.hidden_size, vocabulary=config.vocab_size, heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads, local_kv_heads=config.swa_num_key_value_heads, head_dim=config.head_dim,
        window=config.sliding_window_size, extent=config.rel_extent, profiles=config.d_rel, conv_taps=config.sconv_kernel_size,
        log_floor=getattr(config, "log_scaling_n_floor", None) or 0, draft_layers=draft_heads(runner),
    )  # fmt: skip


class ArmedCapture:
    """A capture in one worker, from arming to disarming.

    Parameters
    ----------
    runner : GPUModelRunner
    spec : dict
        ``id``, ``request_id`` (a prefix of vLLM's own id), ``folder``, ``tokens``, ``plan`` (resolved, as JSON), ``edges``, and
        ``interventions`` (as JSON) that act on the request: what they change is recorded as it ran.
    rank, ranks : int
        Of tensor parallelism. Rank 0 makes the files.

    Raises
    ------
    ValueError
        A seam that cannot fire here; nothing was armed.
    """

    def __init__(self, runner: Any, spec: dict[str, Any], *, rank: int, ranks: int) -> None:
        plan, tokens = CapturePlan.from_json(spec["plan"]), int(spec["tokens"])
        for name in plan.seams():
            if (reason := _reason(runner, name)) is not None:
                raise ValueError(f"seam {name} cannot fire here: {reason}")
        self.id, self._rank = str(spec["id"]), rank
        self._folder, self._shape = Path(spec["folder"]), architecture(runner)
        self._entries = entries(plan, self._shape, tokens, spans=len(spec.get("edges") or []))
        self._edits = compile_edits([from_json(item) for item in spec.get("interventions", ())], self._shape)
        self._watch = Watch(runner, spec["request_id"], tokens)
        self._seams: dict[str, Any] = {}
        self._layers: dict[str, list[int]] = {}
        try:
            for name in plan.seams():
                self._arm(name, getattr(plan, name), spec, ranks)
        except BaseException:
            self._watch.close()
            raise
        self._graphs = without_graphs(runner)

    def _arm(self, name: str, plan: Any, spec: dict[str, Any], ranks: int) -> None:
        layers = self._layers[name] = layers_of(self._shape, name, getattr(plan, "layers", "all"))
        found, tokens = self._entries[name], int(spec["tokens"])
        if name == "attention":
            self._seams[name] = AttentionSeam(
                self._watch, self._folder, found, plan, tokens=tokens, layers=layers, heads=heads_of(self._shape, plan.heads),
                edges=spec.get("edges") or [], rank=self._rank, edits=self._edits,
            )  # fmt: skip
            return
        parts = {"sconv": len(getattr(plan, "sites", ())), "residual": len(ADDITIONS)}.get(name, 1)
        recorder = TokenRecorder(
            self._folder, name, found, Selection(plan.tokens), layers, parts=parts, writes=self._rank == 0
        )  # fmt: skip
        match name:
            case "routing":
                self._seams[name] = RoutingSeam(self._watch, recorder, plan, self._shape)
            case "sconv":
                if self._rank == 0:
                    _, shape, dtype = found["sconv.kernel"]
                    kernels = ArrayFile(self._folder / "sconv.kernel.npy", shape, dtype, create=True)
                    # Channels that a convolution does not have stay so.
                    kernels.write((0,), np.full(shape, np.nan, np.float32))
                    kernels.close()
                self._seams[name] = SconvSeam(
                    self._watch, recorder, plan, self._shape, rank=self._rank, ranks=ranks, edits=self._edits
                )  # fmt: skip
            case "residual":
                self._seams[name] = ResidualSeam(self._watch, recorder, plan)
            case _:
                self._seams[name] = DraftsSeam(self._watch, recorder)

    def layout(self) -> dict[str, Any]:
        """Arrays (dims, shape, dtype) and layer coordinates of what will be written."""
        arrays = {
            name: {"dims": list(dims), "shape": list(shape), "dtype": dtype}
            for found in self._entries.values()
            for name, (dims, shape, dtype) in found.items()
        }
        return {"arrays": arrays, "layers": self._layers}

    def end(self) -> dict[str, Any]:
        """Disarm and flush; per seam rows written once and asked for (of this rank), and what is wrong."""
        self._graphs()
        self._watch.close()
        coverage: dict[str, tuple[int, int]] = {}
        problems = list(self._watch.problems)
        for name, seam in self._seams.items():
            found, wrong = seam.finish(self._kernels()) if name == "sconv" else seam.finish()
            coverage |= found
            problems += wrong
        return {"coverage": coverage, "problems": problems}

    def _kernels(self) -> ArrayFile:
        _, shape, dtype = self._entries["sconv"]["sconv.kernel"]
        return ArrayFile(self._folder / "sconv.kernel.npy", shape, dtype, create=False)
