"""Interventions in a worker: the model's own functions, run again with something changed, for the rows of one request.

What vLLM computes for a step is computed as ever, for everyone; where a request of the step intervenes, its rows are then replaced:
the router's choice by a choice with another bias or other weights, a short convolution by the same one with scaled taps, keys and
values likewise, attention by one that leaves keys out. Other requests' rows are never touched. Wrappers are put on when a request
begins and taken off when the last one has ended (:mod:`.taps`); between them vLLM's code runs untouched. All ranks do the same.

Rows are found by the runner's own batch, so chunked prompts, preemption and drafts under verification need nothing. A drafter's own
layers are left alone: its proposals come from the unchanged model and are accepted or not by the changed one.

On a GPU this needs eager steps, and for the convolutions vLLM's path of plain collectives (Lamport kernels are left out while a
request intervenes there). That has not been tried on a GPU yet.

Private names of vLLM 0.32: those of :mod:`.layer_places`, and the runner's ``prepare_inputs`` and ``execute_model``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..protocol import Architecture
from ..protocol.interventions import INTERVENTION_SEAMS
from ..protocol.plans import SITES, Site
from .batch_rows import Rows, rows_of
from .edits import Edits
from .layer_places import LayerPlaces, lookup
from .masking import attend_masked
from .request_ids import entry_of
from .taps import Around, graph_managers, without_graphs, wrap

_NEEDS = ("gate", "choose", "prep", "attention", "convolve", "lamport")
"""Places that interventions wrap or call."""


def interventions_table(runner: Any) -> list[dict[str, Any]]:
    """What can be changed here and, where not, why: rows of ``info.interventions``."""
    reason = _reason(runner)
    remark = "not tried on a GPU yet" if torch.cuda.is_available() else None
    return [{"name": name, "fires": reason is None, "reason": reason or remark} for name in INTERVENTION_SEAMS]


def _reason(runner: Any) -> str | None:
    parallel = runner.vllm_config.parallel_config
    if parallel.pipeline_parallel_size > 1 or parallel.data_parallel_size > 1:
        return "layers are spread over pipeline or data parallel workers"
    try:
        places, _ = LayerPlaces.of(runner), graph_managers(runner)
        _ = runner.prepare_inputs, runner.execute_model, [lookup(place) for place in _NEEDS]
    except (ImportError, AttributeError, KeyError) as problem:
        return f"this vLLM moved what interventions need: {problem}"
    return None if places.attention else "the model has no Inkling layers"


@dataclass(frozen=True, slots=True)
class Changed:
    """Rows of the running step, and what is changed for them."""

    rows: Rows
    edits: Edits


class Interventions:
    """The requests of one worker that intervene.

    Parameters
    ----------
    runner : GPUModelRunner
    shape : Architecture
    """

    def __init__(self, runner: Any, shape: Architecture) -> None:
        self._runner, self._shape = runner, shape
        self._edits: dict[str, Edits] = {}
        self._undo: list[Callable[[], None]] = []
        self._changed: tuple[Changed, ...] = ()
        self._requests = 0
        self._gates: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def begin(self, request_id: str, edits: Edits) -> None:
        """Change what `request_id` (without vLLM's suffix) computes, from its first step on."""
        self._edits[request_id] = edits
        self._wrap()

    def end(self, request_id: str) -> None:
        """A request is over; harmless when it never began."""
        self._edits.pop(request_id, None)
        self._wrap()

    def _wrap(self) -> None:
        """Wrap what the present requests need, and only that."""
        for undo in reversed(self._undo):
            undo()
        self._undo, self._changed, self._gates = [], (), {}
        if not self._edits:
            return
        self._places, self._signature = LayerPlaces.of(self._runner), inspect.signature(getattr(*lookup("prep")))
        families = set().union(*(edits.families() for edits in self._edits.values()))
        around: dict[str, Around] = {
            "gate": self._select_experts, "prep": self._prepare, "attention": self._attention, "convolve": self._convolve,
            "lamport": lambda call, *args, **kwargs: None,
        }  # fmt: skip
        for family in (*families, *(("lamport",) if "convolve" in families else ())):
            self._undo.append(wrap(*lookup(family), around[family]))
        self._undo.append(wrap(self._runner, "prepare_inputs", self._step))
        self._undo.append(wrap(self._runner, "execute_model", self._run))
        self._undo.append(without_graphs(self._runner))

    def _step(self, call: Around, *args: Any, **kwargs: Any) -> Any:
        batch = call(*args, **kwargs)
        found = []
        for index, name in enumerate(batch.req_ids):
            edits = entry_of(self._edits, name)
            if edits is not None:
                found.append(Changed(rows_of(batch, index), edits))
        self._changed, self._requests = tuple(found), len(batch.req_ids)
        return batch

    def _run(self, call: Around, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        finally:
            self._changed = ()

    def _select_experts(self, call: Around, gate: Any, logits: torch.Tensor) -> Any:
        weights, ids = call(gate, logits)
        layer = self._places.gates.get(id(gate), -1)
        for changed in self._changed:
            edit, part = changed.edits.gates.get(layer), changed.rows.part
            if edit is None:
                continue
            bias, factors = self._gate_values(gate, layer, changed.edits)
            if edit.banned or edit.forced:
                choose = getattr(*lookup("choose"))
                weights[part], ids[part] = choose(
                    logits[part], gate.n_total_experts, gate.n_routed_experts, gate.topk, gate.n_shared_experts, bias,
                    gate.route_scale, gate.global_scale,
                )  # fmt: skip
            before = weights[part]
            after = before * factors[ids[part].long()]
            if edit.renormalise:
                after = after * (before.sum(-1, keepdim=True) / after.sum(-1, keepdim=True)).nan_to_num(0.0, posinf=0.0)
            weights[part] = after
        return weights, ids

    def _gate_values(self, gate: Any, layer: int, edits: Edits) -> tuple[torch.Tensor, torch.Tensor]:
        """Selection bias and weight factors of a router under `edits`."""
        key = (layer, id(edits))
        if key not in self._gates:
            edit, device = edits.gates[layer], gate.weight.device
            bias = torch.zeros(gate.n_routed_experts, device=device) if gate.bias is None else gate.bias.float().clone()
            # Scores are sigmoids, from 0 to 1: with more than the biases' spread on top a forced expert is before all others, and
            # forced ones keep their order among themselves.
            bias[sorted(edit.forced)] += float(bias.max() - bias.min()) + 2.0
            bias[sorted(edit.banned)] = -torch.inf
            self._gates[key] = bias, torch.tensor(edit.factors, device=device)
        return self._gates[key]

    def _groups(self, layer: int, sites: tuple[Site, ...]) -> dict[tuple[tuple[float, ...], ...], list[int]]:
        """Rows of the step by their tap factors at some sites of a layer; rows without any are left out."""
        taps, groups = self._shape.conv_taps, {}
        for changed in self._changed:
            rows = changed.rows
            by_site = [changed.edits.tap_factors(layer, site, rows.t, rows.stop - rows.start, taps) for site in sites]
            factors_of: dict[int, list[tuple[float, ...]]] = {}
            for number, found in enumerate(by_site):
                for factors, tokens in found.items():
                    for token in tokens:
                        factors_of.setdefault(token, [(1.0,) * taps] * len(sites))[number] = factors
            for token, factors in factors_of.items():
                groups.setdefault(tuple(factors), []).append(rows.start + token)
        return groups

    def _convolve(self, call: Around, x: Any, weight: Any, cache: Any, *args: Any, **kwargs: Any) -> Any:
        out = call(x, weight, cache, *args, **kwargs)
        layer, streams = self._places.states.get(id(cache), (None, ()))
        if layer is None or not self._changed:
            return out
        offset = kwargs["off_s"] if "off_s" in kwargs else args[5]
        # The model's ranges are in the order of our sites.
        site = SITES[[start for start, _ in streams].index(offset)]
        for (factors,), rows in self._groups(layer, (site,)).items():
            again = call(x, _scaled(weight, factors), cache, *args, **kwargs)
            index = torch.tensor(rows, device=out.device)
            out[index] = again[index]
        return out

    def _prepare(self, call: Around, *args: Any, **kwargs: Any) -> Any:
        bound = self._signature.bind(*args, **kwargs)
        values = bound.arguments
        layer, _ = self._places.states.get(id(values["conv_cache"]), (None, ()))
        if layer is None or not self._changed:
            return call(*args, **kwargs)
        scaling = values.get("log_scaling")
        flat = [item.rows for item in self._changed if (bias := item.edits.biases.get(layer)) is not None and bias.flat]
        if flat and scaling is not None:
            scaling = values["log_scaling"] = scaling.clone()
            for rows in flat:
                scaling[rows.part] = 1.0
        groups, slots = self._groups(layer, ("k", "v")), values["attention_slot_mapping"]
        changed = torch.tensor([row for rows in groups.values() for row in rows], dtype=torch.long, device=slots.device)
        if groups:
            # A negative slot is not written: first everyone else's keys and values, then group by group the changed ones.
            values["attention_slot_mapping"] = slots.index_fill(0, changed, -1)
        q, relative = call(*bound.args, **bound.kwargs)
        k_weight, v_weight = values["k_weight"], values["v_weight"]
        for (k_factors, v_factors), rows in groups.items():
            index = torch.tensor(rows, device=slots.device)
            only = torch.full_like(slots, -1)
            only[index] = slots[index]
            values["attention_slot_mapping"] = only
            values["k_weight"], values["v_weight"] = _scaled(k_weight, k_factors), _scaled(v_weight, v_factors)
            call(*bound.args, **bound.kwargs)
        self._edit_bias(layer, relative)
        return q, relative

    def _edit_bias(self, layer: int, relative: torch.Tensor) -> None:
        """Scale and stretch the relative logits (t, h, distance) of the requests that want it, in place."""
        heads = relative.shape[1]
        own = slice(_rank() * heads, (_rank() + 1) * heads)
        for changed in self._changed:
            edit = changed.edits.biases.get(layer)
            if edit is None:
                continue
            part = relative[changed.rows.part]
            for head, factor in enumerate(edit.stretch[own]):
                if factor != 1.0:
                    part[:, head] = stretched(part[:, head], factor)
            if any(factor != 1.0 for factor in edit.factors[own]):
                part *= torch.tensor(edit.factors[own], dtype=part.dtype, device=part.device)[:, None]

    def _attention(self, call: Around, module: Any, q: Any, relative: Any, out: Any) -> Any:
        layer = self._places.attention.get(id(module), -1)
        masked = []
        for changed in self._changed:
            rows, first = changed.rows, _rank() * module.num_heads
            heads = [changed.edits.hidden_spans(layer, first + head) for head in range(module.num_heads)]
            last = rows.t + rows.stop - rows.start - 1
            if any(stop <= last for spans in heads for _, stop in spans):
                masked.append((rows, heads))
        if len(masked) < self._requests or not masked:
            call(module, q, relative, out)
        for rows, heads in masked:
            attend_masked(module, q, relative, out, rows, heads)


def stretched(relative: torch.Tensor, factor: float) -> torch.Tensor:
    """Relative logits over distances ``0 … extent - 1`` (last axis) read at ``d / factor``; 0 at and beyond the extent."""
    extent = relative.shape[-1]
    at = torch.arange(extent, device=relative.device, dtype=torch.float64) / factor
    low = at.floor().long()
    share = (at - low).to(torch.float32)
    padded = torch.nn.functional.pad(relative.float(), (0, 2))
    low = low.clamp(max=extent)
    return torch.lerp(padded[..., low], padded[..., low + 1], share).to(relative.dtype)


def _scaled(weight: torch.Tensor, factors: tuple[float, ...]) -> torch.Tensor:
    """Convolution weights (c, taps), whose last tap is the token itself, with each tap scaled."""
    return weight * torch.tensor(factors[::-1], dtype=weight.dtype, device=weight.device)


def _rank() -> int:
    from vllm.distributed import get_tensor_model_parallel_rank

    return get_tensor_model_parallel_rank()
