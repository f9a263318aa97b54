"""Memory of one rank by kind: weights, cache, what computing needs, what is left.

Weights and cache are arithmetic on tensors and pages. Two rows are assumptions, because nothing short of a start measures them:
room for activations, and for captured graphs and libraries. Together they come to what the published size of the cache on GB300
leaves over.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..inkling import ModelShape
from ..inkling.cache import CacheKind, CacheLayout, cache_layout
from ..inkling.tensors import tensors
from .adapters import adapter_bytes
from .settings import Settings

GRAPHS_BYTES = 3_000_000_000
ACTIVATIONS_PER_VALUE = 24
"""Bytes of working memory per token and hidden value of a step: a dozen BF16 copies alive at once."""

ASSUMED = (
    "weights: routed experts as the checkpoint stores them, everything else in the engine's type; split over ranks as vLLM splits "
    "them",
    f"activations: {ACTIVATIONS_PER_VALUE} bytes per token of a step and hidden value, and logits of every sequence in float32",
    f"graphs and libraries: {GRAPHS_BYTES / 1e9:.0f} GB per GPU (with the activations, what the published cache size on GB300 "
    "leaves)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of one rank.

    Attributes
    ----------
    weights : dict of str to int
        By kind; ``drafts`` are the multi-token-prediction blocks that are built, ``adapters`` the room set aside for them,
        ``other`` what a published size holds beyond the known tensors.
    cache : dict of str to int
        Of the asked requests: ``global KV``, ``sliding KV``, ``conv state``, ``drafts``, and ``retention``, which is what resume
        points of the prefix cache take; the engine gives those up when it needs room.
    pool_bytes, pool_blocks : int
        The whole cache; 0 when nothing is left for one.
    """

    total_bytes: int | None
    weights: dict[str, int]
    activations_bytes: int
    graphs_bytes: int
    cache: dict[str, int]
    pool_bytes: int
    pool_blocks: int
    layout: CacheLayout

    @property
    def weights_bytes(self) -> int:
        """Of all kinds together."""
        return sum(self.weights.values())

    @property
    def needed_cache_bytes(self) -> int:
        """What the asked requests cannot do without."""
        return sum(size for kind, size in self.cache.items() if kind != "retention")


def memory_of(
    shape: ModelShape, settings: Settings, *, context_tokens: int, requests: int, total_bytes: int | None,
    published_bytes: int | None = None,
) -> Memory:  # fmt: skip
    """Memory of one rank for `requests` contexts of `context_tokens` at once.

    Parameters
    ----------
    total_bytes : int or None
        Memory of an accelerator; None on a CPU, where the recipe names the cache's size.
    published_bytes : int, optional
        Size of the checkpoint as its makers give it; where it is more than the known tensors, the difference is counted.
    """
    on_gpu = total_bytes is not None
    weights = weights_bytes(shape, settings, published_bytes=published_bytes if on_gpu else None)
    activations = settings.batched_tokens * shape.hidden * ACTIVATIONS_PER_VALUE
    activations += settings.sequences * (1 + settings.drafts) * shape.vocabulary_rows * 4
    graphs = GRAPHS_BYTES if on_gpu else 0
    layout, plain = layout_of(shape, settings), layout_of(shape, settings, drafts=0)
    pool = settings.pool_bytes
    if pool is None:
        pool = max(0, int((total_bytes or 0) * settings.utilization) - sum(weights.values()) - activations - graphs)
    return Memory(
        total_bytes=total_bytes, weights=weights, activations_bytes=activations, graphs_bytes=graphs,
        cache=_cache(layout, plain, settings, context_tokens, requests), pool_bytes=pool, pool_blocks=pool // layout.block_bytes,
        layout=layout,
    )  # fmt: skip


def layout_of(shape: ModelShape, settings: Settings, *, drafts: int | None = None) -> CacheLayout:
    """The cache's groups under a recipe."""
    return cache_layout(
        shape, ranks=settings.ranks, block_tokens=settings.block_tokens, value_bytes=settings.cache_bytes,
        conv_bytes=settings.value_bytes, drafts=settings.drafts if drafts is None else drafts,
    )  # fmt: skip


def weights_bytes(shape: ModelShape, settings: Settings, *, published_bytes: int | None = None) -> dict[str, int]:
    """Bytes of one rank's weights by kind."""
    found: Counter[str] = Counter()
    for tensor in tensors(shape):
        if tensor.kind == "drafts" and tensor.draft_block >= settings.drafts:
            continue
        size = tensor.engine_bytes(settings.value_bytes)
        found[tensor.kind] += size // settings.ranks if tensor.share == "split" else size
    if room := adapter_bytes(shape, settings.adapters, ranks=settings.ranks, value_bytes=settings.value_bytes):
        found["adapters"] = room
    known = sum(tensor.disk_bytes for tensor in tensors(shape))
    if published_bytes and published_bytes > known:
        found["other"] = (published_bytes - known) // settings.ranks
    return dict(found)


def _cache(layout: CacheLayout, plain: CacheLayout, settings: Settings, context: int, requests: int) -> dict[str, int]:
    with_drafts, without = layout.blocks(context, settings.in_flight_tokens), plain.blocks(context, settings.in_flight_tokens)
    names: dict[CacheKind, str] = {"global": "global KV", "sliding": "sliding KV", "conv": "conv state"}
    rows = {name: without[kind] * plain.block_bytes * requests for kind, name in names.items()}
    rows["drafts"] = with_drafts.total() * layout.block_bytes * requests - sum(rows.values())
    rows["retention"] = resume_points(settings, context) * layout.resume_blocks() * layout.block_bytes * requests
    return rows


def resume_points(settings: Settings, context_tokens: int) -> int:
    """Points of a context at which its cached prefix can be resumed: the last one, and one every so many tokens."""
    return 1 + (context_tokens // settings.retention_tokens if settings.retention_tokens else 0)
