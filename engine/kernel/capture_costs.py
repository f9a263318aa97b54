"""What a capture costs on this engine, and refusing what it cannot pay: before anything runs.

Limits: the disk's free space, a bound on what recording holds in memory, and a bound on tokens that are computed anew without being
asked for. A refusal says the size and names a smaller plan. Sizes come from :mod:`engine.protocol.costs`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..errors import CaptureRefused
from ..protocol import Architecture, CaptureCost, CapturePlan, EngineInfo
from ..protocol.costs import conv_channels, entries, heads_of, layers_of, selected, size_bytes, step_bytes
from .attention_rows import CHUNK_VALUES, WHOLE_VALUES
from .recording import BLOCK_VALUES
from .seam_residual import LENS_ROWS

MEMORY_BYTES = 500_000_000
"""Most that recording may hold in a worker, beside the engine."""

DISK_BYTES = 16_000_000_000
"""Most that one capture writes, however much is free: everything of a million tokens but whole rows and channels fits."""

RECOMPUTE_TOKENS = 262_144
"""Most tokens a capture computes anew without being told to."""

SPEED_MEMORY = 16
"""Captures that the estimate of seconds looks back on."""


class Speed:
    """How fast this engine prefilled in its last captures."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, float]] = []

    def add(self, tokens: int, seconds: float) -> None:
        """A prefill of so many computed tokens took so long."""
        if tokens > 0 and seconds > 0:
            self._seen = [*self._seen, (tokens, seconds)][-SPEED_MEMORY:]

    def seconds(self, tokens: int) -> float | None:
        """For a prefill: at the rate of the one nearest in length; None before the first."""
        if not self._seen:
            return None
        near, took = min(self._seen, key=lambda item: abs(item[0] - tokens))
        return took * tokens / near


def cost_of(info: EngineInfo, plan: CapturePlan, tokens: int, *, spans: int, speed: Speed) -> CaptureCost:
    """The cost of a resolved plan over a context.

    Raises
    ------
    CaptureRefused
        A seam that does not fire here (with its reason), or a layer, head or token that is not there.
    """
    for name in plan.seams():
        seam = info.seam(name)
        if not seam.fires:
            raise CaptureRefused(f"{name} cannot be captured by this engine: {seam.reason}", seam=name)
    shape = info.architecture
    if shape is None:
        raise CaptureRefused("this engine does not tell the sizes of its model: nothing can be captured")
    found = entries(plan, shape, tokens, spans=spans)
    step = int(info.engine_args.get("max_num_batched_tokens", 8192))
    # What the rows of a step need, a row of counts per seam, and the temporaries of one seam at a time.
    held = sum(step_bytes(part, step) for part in found.values())
    held += sum(selected(getattr(plan, name), tokens) for name in found) + _temporaries(plan, shape, tokens, step)
    compute = tokens - plan.first_token(tokens)
    return CaptureCost(
        disk_bytes=sum(map(size_bytes, found.values())), memory_bytes=held, tokens=tokens, compute_tokens=compute,
        seconds=speed.seconds(compute), seams={name: size_bytes(part) for name, part in found.items()},
    )  # fmt: skip


def check_cost(
    cost: CaptureCost, plan: CapturePlan, info: EngineInfo, tokens: int, *, spans: int, free_bytes: int, recompute: bool
) -> None:
    """Refuse a plan that is too large.

    Raises
    ------
    CaptureRefused
        With the size, the limit, and a smaller plan.
    """
    most = min(free_bytes, DISK_BYTES)
    if cost.disk_bytes > most:
        room = f"the engine's disk has {free_bytes:,} free" if most < DISK_BYTES else f"one capture may write {DISK_BYTES:,}"
        raise CaptureRefused(
            f"this capture writes {cost.disk_bytes:,} bytes, {room}: "
            + smaller(plan, info, tokens, spans, limit=most, which="disk_bytes"),
            disk_bytes=cost.disk_bytes, limit_bytes=most,
        )  # fmt: skip
    if cost.memory_bytes > MEMORY_BYTES:
        raise CaptureRefused(
            f"this capture holds {cost.memory_bytes:,} bytes in every worker, {MEMORY_BYTES:,} are allowed: "
            + smaller(plan, info, tokens, spans, limit=MEMORY_BYTES, which="memory_bytes"),
            memory_bytes=cost.memory_bytes, limit_bytes=MEMORY_BYTES,
        )  # fmt: skip
    if cost.compute_tokens > RECOMPUTE_TOKENS and not recompute:
        took = "" if cost.seconds is None else f" (about {cost.seconds:,.0f} s)"
        raise CaptureRefused(
            f"this capture computes {cost.compute_tokens:,} tokens anew{took}, cached ones among them: "
            "say recompute=True to have it, or select later tokens",
            compute_tokens=cost.compute_tokens, limit_tokens=RECOMPUTE_TOKENS,
        )  # fmt: skip


def smaller(plan: CapturePlan, info: EngineInfo, tokens: int, spans: int, *, limit: int, which: str) -> str:
    """The mildest reduction that fits, in words of a plan."""
    for words, changed in _reductions(plan):
        try:
            cost = cost_of(info, changed, tokens, spans=spans, speed=Speed())
        except CaptureRefused:
            continue
        if getattr(cost, which) <= limit:
            return f"{words} needs {getattr(cost, which):,}"
    return "select fewer tokens or layers, or capture one seam at a time"


def _reductions(plan: CapturePlan) -> list[tuple[str, CapturePlan]]:
    """Plans less wide, the mildest first; each reduces further than the one before."""
    found: list[tuple[str, CapturePlan]] = []
    words: list[str] = []

    def add(seam: str, text: str, **values: Any) -> None:
        nonlocal plan
        plan = replace(plan, **{seam: replace(getattr(plan, seam), **values)})
        words.append(text)
        found.append((", ".join(words), plan))

    if plan.routing and plan.routing.logits:
        add("routing", "RoutingPlan(logits=False)", logits=False)
    if plan.sconv and plan.sconv.keep == "channels":
        add("sconv", 'SconvPlan(keep="taps")', keep="taps")
    if plan.residual and plan.residual.keep == "vectors":
        add("residual", 'ResidualPlan(keep="norms")', keep="norms")
    if plan.attention and plan.attention.keep == "whole":
        add("attention", 'AttentionPlan(keep="topk")', keep="topk")
    if plan.attention and plan.attention.keep == "pooled" and plan.attention.buckets > 64:
        add("attention", "AttentionPlan(buckets=64)", buckets=64)
    if plan.attention and plan.attention.layers == "all":
        add("attention", 'AttentionPlan(layers="global")', layers="global")
    if plan.sconv and plan.sconv.keep == "taps":
        add("sconv", 'SconvPlan(keep="norms")', keep="norms")
    return found


def _temporaries(plan: CapturePlan, shape: Architecture, tokens: int, step: int) -> int:
    sizes = [0]
    if plan.routing:
        sizes.append(step * (shape.experts + shape.sinks) * 4 if plan.routing.logits else step * 64)
    if plan.sconv:
        layers = layers_of(shape, "sconv", plan.sconv.layers)
        widest = max(conv_channels(shape, layer, site) for layer in layers for site in plan.sconv.sites)
        whole = 4 * step * widest if plan.sconv.keep == "channels" else 0
        sizes.append(((shape.conv_taps + 3) * BLOCK_VALUES + whole) * 4)
    if plan.residual:
        lens = LENS_ROWS * shape.vocabulary * 3 if plan.residual.lens else 0
        sizes.append((2 * BLOCK_VALUES + lens) * 4)
    if plan.drafts:
        sizes.append(LENS_ROWS * shape.vocabulary * 3 * 4)
    if plan.attention:
        whole = plan.attention.keep == "whole"
        values = max(WHOLE_VALUES, len(heads_of(shape, plan.attention.heads)) * tokens) * 4 if whole else 8 * CHUNK_VALUES
        sizes.append(values * 4)
    return max(sizes)
