"""What a capture writes and holds, from a plan and a model's sizes alone: shown before anything runs.

Exact for the disk (a test holds it equal to the files), an upper bound for memory. Knows no engine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import CaptureRefused
from .info import Architecture
from .plans import ADDITIONS, CapturePlan, token_ranges

Entries = dict[str, tuple[tuple[str, ...], tuple[int, ...], str]]
"""Dims, shape and dtype by array name."""

F4 = "<f4"


def layers_of(shape: Architecture, seam: str, selector: Any) -> list[int]:
    """Layers that a plan selects, as indices in the model; of drafts, the depths of all heads.

    Raises
    ------
    CaptureRefused
        A layer that the model does not have, or that has no such seam.
    """
    if seam == "drafts":
        return list(range(1, shape.draft_layers + 1))
    there = list(shape.moe_layers) if seam == "routing" else list(range(shape.layers))
    if isinstance(selector, str):
        found = [layer for layer in there if layer in shape.layers_called(selector)]
        if not found:
            raise CaptureRefused(f"no {selector} layer has {seam}: it is in layers {_listed(there)}", seam=seam)
        return found
    if unknown := [layer for layer in selector if layer not in there]:
        raise CaptureRefused(f"layer {unknown[0]} has no {seam}: layers {_listed(there)} have", seam=seam, layer=unknown[0])
    return list(selector)


def _listed(numbers: list[int]) -> str:
    """Numbers for a reader: a run as ``0 to 65``."""
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))


def heads_of(shape: Architecture, selector: Any) -> list[int]:
    """Heads that a plan selects.

    Raises
    ------
    CaptureRefused
        A head that the model does not have.
    """
    if selector == "all":
        return list(range(shape.heads))
    if unknown := [head for head in selector if head >= shape.heads]:
        raise CaptureRefused(f"there is no head {unknown[0]}: a layer has heads 0 to {shape.heads - 1}", head=unknown[0])
    return list(selector)


def selected(plan: Any, tokens: int) -> int:
    """Tokens a resolved seam plan selects."""
    return sum(piece.stop - piece.start for piece in token_ranges(plan.tokens, tokens))


def entries(plan: CapturePlan, shape: Architecture, tokens: int, *, spans: int = 0) -> dict[str, Entries]:
    """Every array of a resolved plan, by seam.

    Parameters
    ----------
    spans : int
        Spans that pooled attention is summed over.

    Raises
    ------
    CaptureRefused
        A layer or head that the model does not have.
    """
    makers = {"routing": _routing, "sconv": _sconv, "attention": _attention, "residual": _residual, "drafts": _drafts}
    return {name: makers[name](getattr(plan, name), shape, tokens, spans) for name in plan.seams()}


def size_bytes(found: Entries) -> int:
    """Bytes of some arrays."""
    return sum(int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize for _, shape, dtype in found.values())


def step_bytes(found: Entries, step_tokens: int) -> int:
    """Bytes that one step of so many tokens holds until it is written: the rows along `t`."""
    held = 0
    for dims, shape, dtype in found.values():
        if dims[0] == "t":
            row = int(np.prod(shape[1:], dtype=np.int64)) * np.dtype(dtype).itemsize
            held += min(shape[0], step_tokens) * row
    return held


def conv_channels(shape: Architecture, layer: int, site: str) -> int:
    """Channels of a short convolution, all ranks together."""
    if site in ("k", "v"):
        return shape.head_dim * (shape.kv_heads if layer in shape.global_layers else shape.local_kv_heads)
    return shape.hidden


def reach(shape: Architecture, layer: int) -> int:
    """Distances with a relative bias in a layer."""
    return shape.extent if layer in shape.global_layers else shape.window


def _routing(plan: Any, shape: Architecture, tokens: int, spans: int) -> Entries:
    t, n = selected(plan, tokens), len(layers_of(shape, "routing", plan.layers))
    expert = "|u1" if shape.experts <= 256 else "<u2"
    found: Entries = {
        "routing.expert": (("t", "l", "k"), (t, n, shape.experts_per_token), expert),
        "routing.weight": (("t", "l", "k"), (t, n, shape.experts_per_token), F4),
        "routing.sink": (("t", "l", "s"), (t, n, shape.sinks), F4),
    }
    if plan.logits:
        found["routing.logits"] = (("t", "l", "e"), (t, n, shape.experts + shape.sinks), F4)
    return found


def _sconv(plan: Any, shape: Architecture, tokens: int, spans: int) -> Entries:
    layers = layers_of(shape, "sconv", plan.layers)
    t, n, s = selected(plan, tokens), len(layers), len(plan.sites)
    widest = max(conv_channels(shape, layer, site) for layer in layers for site in plan.sites)
    found: Entries = {f"sconv.{name}": (("t", "l", "site"), (t, n, s), F4) for name in ("input", "term", "cosine")}
    if plan.keep != "norms":
        found["sconv.by_tap"] = (("t", "l", "site", "tap"), (t, n, s, shape.conv_taps), F4)
    if plan.keep == "channels":
        for name in ("channel_input", "channel_term"):
            found[f"sconv.{name}"] = (("t", "l", "site", "c"), (t, n, s, widest), F4)
    found["sconv.kernel"] = (("l", "site", "c", "tap"), (n, s, widest, shape.conv_taps), F4)
    return found


def _attention(plan: Any, shape: Architecture, tokens: int, spans: int) -> Entries:
    layers = layers_of(shape, "attention", plan.layers)
    q, n, h = selected(plan, tokens), len(layers), len(heads_of(shape, plan.heads))
    cells = {"whole": ("t", tokens), "topk": ("k", min(plan.top, tokens)), "pooled": ("span", max(1, spans))}
    dim, size = cells[plan.keep]
    values = ("weight", "content", "bias")
    found: Entries = {f"attention.{name}": (("q", "l", "h", dim), (q, n, h, size), F4) for name in values}
    if plan.keep == "topk":
        found["attention.key"] = (("q", "l", "h", "k"), (q, n, h, size), "<i4")
    if plan.keep == "pooled":
        b = -(-tokens // bucket_tokens(tokens, plan.buckets))
        found |= {f"attention.bucket_{name}": (("q", "l", "h", "b"), (q, n, h, b), F4) for name in values}
    found["attention.scaling"] = (("q", "l"), (q, n), F4)
    summaries = (
        "logsumexp", "entropy", "distance", "inside", "inside_content", "bias_bits", "size_content", "size_bias",
    )  # fmt: skip
    found |= {f"attention.{name}": (("q", "l", "h"), (q, n, h), F4) for name in summaries}
    widest = max(reach(shape, layer) for layer in layers)
    if plan.profiles:
        found["attention.profile"] = (("q", "l", "h", "d"), (q, n, h, widest), F4)
    found["attention.bank"] = (("l", "r", "d"), (n, shape.profiles, widest), F4)
    return found


def bucket_tokens(tokens: int, buckets: int) -> int:
    """Tokens per bucket: the fewest for which so many buckets suffice."""
    return -(-tokens // buckets)


def _residual(plan: Any, shape: Architecture, tokens: int, spans: int) -> Entries:
    t, n = selected(plan, tokens), len(layers_of(shape, "residual", plan.layers))
    sites = len(ADDITIONS)
    found: Entries = {"residual.norm": (("t", "l", "site"), (t, n, sites), F4)}
    if plan.keep == "vectors":
        found["residual.vector"] = (("t", "l", "site", "c"), (t, n, sites, shape.hidden), F4)
    if plan.lens:
        found["residual.lens_token"] = (("t", "l", "k"), (t, n, plan.lens), "<i4")
        found["residual.lens_logprob"] = (("t", "l", "k"), (t, n, plan.lens), F4)
    return found


def _drafts(plan: Any, shape: Architecture, tokens: int, spans: int) -> Entries:
    size = selected(plan, tokens), shape.draft_layers
    kinds = {"token": "<i4", "logprob": F4, "accepted": "|i1"}
    return {f"drafts.{name}": (("t", "depth"), size, dtype) for name, dtype in kinds.items()}
