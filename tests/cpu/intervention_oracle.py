"""The same interventions made on transformers' modules, from their definitions: nothing of the engine is used here."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from engine.protocol import (
    BanExperts,
    DropLogScaling,
    ForceExperts,
    Intervention,
    MaskModality,
    MaskSpan,
    ReweightExperts,
    ScaleBias,
    ScaleSconv,
    ScaleSinks,
    StretchBias,
)


@contextmanager
def intervened(model: Any, items: Sequence[Intervention]) -> Iterator[None]:
    """`model` (transformers' Inkling, eager attention) with `items` in force."""
    layers = model.model.language_model.layers
    with ExitStack() as stack:
        for number, layer in enumerate(layers):
            mine = [item for item in items if _concerns(item, number, layer)]
            if mine:
                _edit_layer(stack, layer, mine)
        yield


def _concerns(item: Any, number: int, layer: Any) -> bool:
    if hasattr(item, "layer"):
        return item.layer == number
    kind = "local" if layer.self_attn.is_sliding else "global"
    return item.layers == "all" or (item.layers == kind if isinstance(item.layers, str) else number in item.layers)


def _edit_layer(stack: ExitStack, layer: Any, items: list[Any]) -> None:
    attention = layer.self_attn
    if hasattr(layer.mlp, "gate"):
        _replace(stack, layer.mlp.gate, _router(layer.mlp.gate, items))
    for site, module in (
        ("k", attention.k_sconv), ("v", attention.v_sconv), ("attention", layer.attn_sconv), ("mlp", layer.mlp_sconv),
    ):  # fmt: skip
        _replace(stack, module, _convolution(module, site, items))
    _replace(stack, attention.rel_logits_proj, _bias(attention.rel_logits_proj, items))
    if any(isinstance(item, DropLogScaling) for item in items):
        before, attention.config = attention.config, copy.copy(attention.config)
        attention.config.log_scaling_n_floor = None
        stack.callback(setattr, attention, "config", before)
    masks = [item for item in items if isinstance(item, MaskSpan | MaskModality)]
    if masks:
        plain = attention.forward

        def forward(*args: Any, attention_mask: Any, **kwargs: Any) -> Any:
            heads, tokens = attention.num_heads, attention_mask.shape[-1]
            mask = attention_mask.expand(-1, heads, -1, -1).clone()
            at = torch.arange(tokens)
            for item in masks:
                for start, stop in spans(item):
                    unseen = (at[:, None] >= stop) & (at >= start) & (at < stop)
                    for head in range(heads) if item.heads == "all" else item.heads:
                        mask[:, head].masked_fill_(unseen, torch.finfo(mask.dtype).min)
            return plain(*args, attention_mask=mask, **kwargs)

        _replace(stack, attention, forward)


def spans(item: MaskSpan | MaskModality) -> list[tuple[int, int]]:
    """What a mask hides."""
    return [(item.start, item.stop)] if isinstance(item, MaskSpan) else list(item.spans)


def _replace(stack: ExitStack, module: Any, forward: Any) -> None:
    module.forward = forward
    stack.callback(module.__dict__.pop, "forward", None)


def _router(gate: Any, items: list[Any]) -> Any:
    """Sigmoid plus bias chooses among the allowed, sigmoids of the chosen and the sinks are shared out and then scaled."""
    experts, sinks = gate.num_experts, gate.n_shared_experts
    factors, renormalise = torch.ones(experts + sinks), False
    banned, forced = set(), set()
    for item in items:
        match item:
            case BanExperts():
                banned |= set(item.experts)
            case ForceExperts():
                forced |= set(item.experts)
            case ReweightExperts():
                factors[list(item.experts)] *= item.factor
                renormalise |= item.renormalise
            case ScaleSinks():
                chosen = range(sinks) if item.sinks == "all" else item.sinks
                factors[[experts + sink for sink in chosen]] *= item.factor
                renormalise |= item.renormalise

    def forward(hidden: torch.Tensor) -> tuple[torch.Tensor, ...]:
        logits = hidden.reshape(-1, hidden.shape[-1]) @ gate.weight.T
        sigmoid = logits.sigmoid()
        rank = sigmoid[:, :experts] + gate.e_score_correction_bias
        rank[:, sorted(banned)] = -1e9
        rank[:, sorted(forced)] += 1e6
        chosen = rank.topk(gate.top_k).indices
        numbers = torch.cat([chosen, torch.arange(experts, experts + sinks).expand(len(logits), -1)], dim=1)
        weights = sigmoid.gather(1, numbers)
        weights = weights / weights.sum(1, keepdim=True) * gate.route_scale * gate.global_scale
        scaled = weights * factors[numbers]
        if renormalise:
            scaled = scaled * weights.sum(1, keepdim=True) / scaled.sum(1, keepdim=True)
        return logits[:, :experts], scaled[:, : gate.top_k], chosen, scaled[:, gate.top_k :]

    return forward


def _convolution(module: Any, site: str, items: list[Any]) -> Any:
    """Each token plus the sum over its taps of factor times weight times the token so far back."""
    weight = module.conv1d.weight[:, 0]  # (c, taps), the last tap is the token itself
    taps = weight.shape[1]

    def forward(x: torch.Tensor, **_: Any) -> torch.Tensor:
        tokens = x.shape[1]
        factors = torch.ones(tokens, taps)
        for item in items:
            if isinstance(item, ScaleSconv) and (item.sites == "all" or site in item.sites):
                for back in range(taps) if item.taps == "all" else item.taps:
                    factors[:, back] *= item.factor
            if isinstance(item, MaskSpan | MaskModality) and item.sconv:
                for start, stop in spans(item):
                    for t in range(stop, tokens):
                        for back in range(1, taps):
                            if start <= t - back < stop:
                                factors[t, back] = 0
        out = x.clone()
        for back in range(taps):
            moved = torch.nn.functional.pad(x, (0, 0, back, 0))[:, :tokens]
            out = out + factors[:, back, None] * weight[:, taps - 1 - back] * moved
        return out

    return forward


def _bias(module: Any, items: list[Any]) -> Any:
    """For every query and key: the profile that the query mixes, read at the stretched distance, times the head's factor."""

    def forward(relative: torch.Tensor, query_positions: torch.Tensor, key_positions: torch.Tensor) -> torch.Tensor:
        profiles = (relative @ module.proj).transpose(1, 2)  # (1, h, q, extent)
        heads, extent = profiles.shape[1], module.rel_extent
        distance = query_positions[:, None] - key_positions[None, :]
        result = torch.zeros(1, heads, *distance.shape)
        for head in range(heads):
            factor, stretch = 1.0, 1.0
            for item in items:
                if isinstance(item, ScaleBias | StretchBias) and (item.heads == "all" or head in item.heads):
                    factor *= item.factor if isinstance(item, ScaleBias) else 1.0
                    stretch *= item.factor if isinstance(item, StretchBias) else 1.0
            at = distance.double() / stretch
            low = at.floor().long()
            share = (at - low).float()
            for edge, part in ((low, 1 - share), (low + 1, share)):
                inside = (edge >= 0) & (edge < extent)
                value = profiles[0, head].gather(1, edge.clamp(0, extent - 1))
                result[0, head] += factor * part * torch.where(inside, value, 0.0)
        return result.masked_fill((distance < 0) | (distance >= extent), 0.0)

    return forward
