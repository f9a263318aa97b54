"""How fast it can be at most: a roofline from bytes moved and operations done, beside what others have measured.

Decoding one sequence reads every weight a token touches, and its keys and values, from memory once a step; with drafts a step
verifies several tokens and touches more experts. Prefill multiplies every token with the weights it touches and, in global layers,
with all before it. Real engines stay well below: kernels, launches and synchronisation are not in it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..inkling import ModelShape
from ..inkling.tensors import tensors
from .hardware import Gpu
from .settings import Settings

COLLECTIVE_S = 8e-6
"""Published time of one fused collective on 4 GB200; two a layer."""

ACCEPTED = 4.5
"""Published mean of tokens a step gives with eight drafts on mixed prompts."""

ASSUMED = (
    "speed: one sequence; every weight a step touches is read from memory once; peak bandwidth and dense peak rates of the data "
    "sheets",
    f"collectives: {COLLECTIVE_S * 1e6:.0f} µs each, two a layer, as published for 4 GB200",
    f"drafts: {ACCEPTED} tokens a step with eight of them, as published; fewer drafts give proportionally fewer beyond the first",
    "experts touched when several tokens are verified at once: as if each token chose independently and evenly",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Upper bounds.

    Attributes
    ----------
    prefill_s : float
        Seconds for the whole context, nothing cached.
    tokens_s, tokens_s_drafts : float
        Decoded tokens a second of one sequence behind that context, without and with drafts (None: the recipe has none).
    """

    prefill_s: float
    tokens_s: float
    tokens_s_drafts: float | None


def speed_of(shape: ModelShape, settings: Settings, gpu: Gpu, *, context_tokens: int) -> Speed:
    """The roofline for one sequence behind `context_tokens`."""
    collectives = 2 * shape.layers * COLLECTIVE_S if settings.ranks > 1 else 0.0
    plain = step_bytes(shape, settings, context_tokens, tokens=1, drafts=0)
    tokens_s_drafts = None
    if settings.drafts:
        verified = step_bytes(shape, settings, context_tokens, tokens=1 + settings.drafts, drafts=settings.drafts)
        accepted = 1 + (ACCEPTED - 1) * settings.drafts / 8
        drafting = 2 * settings.drafts * COLLECTIVE_S if settings.ranks > 1 else 0.0
        tokens_s_drafts = accepted / (verified / gpu.bandwidth_bytes_s + collectives + drafting)
    return Speed(
        prefill_s=prefill_s(shape, settings, gpu, context_tokens),
        tokens_s=1 / (plain / gpu.bandwidth_bytes_s + collectives), tokens_s_drafts=tokens_s_drafts,
    )  # fmt: skip


def step_bytes(shape: ModelShape, settings: Settings, context_tokens: int, *, tokens: int, drafts: int) -> int:
    """Bytes one rank reads in a step that runs `tokens` positions of one sequence."""
    touched = shape.experts * (1 - (1 - shape.experts_per_token / shape.experts) ** tokens)
    total = 0.0
    for tensor in tensors(shape):
        size = tensor.engine_bytes(settings.value_bytes)
        match tensor.kind:
            case "embedding" | "image tower" | "audio tower":
                continue
            case "routed experts":
                size = size * touched / shape.experts
            case "drafts" if tensor.draft_block >= drafts:
                continue
            case "head":
                # Each draft is sampled from the same head.
                size *= 1 + drafts
        total += size / settings.ranks if tensor.share == "split" else size
    return int(total) + cache_read_bytes(shape, settings, context_tokens)


def cache_read_bytes(shape: ModelShape, settings: Settings, context_tokens: int) -> int:
    """Keys and values one rank reads to decode a token."""
    total = 0
    for local, layers in ((False, shape.global_layers), (True, len(shape.local_layers))):
        heads, width = shape.kv(local=local)
        seen = min(context_tokens, shape.window) if local else context_tokens
        total += layers * seen * heads // settings.ranks * 2 * width * settings.cache_bytes
    return total


def prefill_s(shape: ModelShape, settings: Settings, gpu: Gpu, context_tokens: int) -> float:
    """Seconds of multiplying alone, for a context of which nothing is cached."""
    values: Counter[bool] = Counter()
    for tensor in tensors(shape):
        if tensor.kind in ("embedding", "head", "image tower", "audio tower", "norms", "drafts") or not tensor.shapes:
            continue
        packed = tensor.dtypes[0] == "U8"
        if tensor.dtypes[0] == "F8_E4M3":
            continue
        used = tensor.values * (2 if packed else 1)
        values[packed] += used * shape.experts_per_token // shape.experts if tensor.kind == "routed experts" else used
    linear = context_tokens * 2 * (values[False] / gpu.bf16_flops + values[True] / gpu.fp4_flops)
    attention = 0.0
    for local, layers in ((False, shape.global_layers), (True, len(shape.local_layers))):
        width = (shape.local_heads * shape.local_head_dim) if local else (shape.heads * shape.head_dim)
        pairs = context_tokens * min(context_tokens, shape.window) if local else context_tokens**2 / 2
        # A query meets a key twice: for the score, and for the value.
        attention += layers * pairs * width * 4
    return (linear + attention / gpu.bf16_flops) / settings.ranks
