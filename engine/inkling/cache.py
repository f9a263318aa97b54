"""Pages of vLLM's key/value cache for Inkling: how big a block is, how many a request takes, what a cache of some size holds.

vLLM gives every layer one or two specs (attention, and the short convolutions' state as a window of four), makes all pages equally
big by putting more tokens into the smaller ones, and forms groups with the same number of layers that draw blocks from one pool.
Sliding and convolution groups hold a window and what is in flight; global groups hold everything.

Source: vLLM 0.32 ``v1/core/kv_cache_utils.py`` (``unify_kv_cache_spec_page_size``, ``_get_kv_cache_groups_uniform_page_size``),
``models/inkling/nvidia/{attention,sconv_swa_attn}.py``. The tests run vLLM's own functions on the same sizes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

from ..errors import BadRequest
from .shape import ModelShape

CacheKind = Literal["global", "sliding", "conv"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What one layer keeps in one block.

    Attributes
    ----------
    block_tokens : int
        Tokens whose state a block holds.
    bytes : int
        Of one rank.
    heads : int
        Of one rank. Layers share a group when they have the same kind of page, not only an equally big one.
    window : int or None
        Tokens that stay alive; None for all.
    """

    kind: CacheKind
    block_tokens: int
    bytes: int
    heads: int
    window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Layers that share a block table: `layers` of them, padded to the pool's size."""

    page: Page
    layers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLayout:
    """The pool's groups.

    Attributes
    ----------
    group_layers : int
        Layers of a block in every group; the smaller groups are padded.
    extra_tokens : int
        Trailing tokens that sliding groups keep beyond their window, for drafts.
    """

    groups: tuple[Group, ...]
    group_layers: int
    extra_tokens: int

    @property
    def block_bytes(self) -> int:
        """Bytes of one block of the pool, on one rank."""
        return self.group_layers * self.groups[0].page.bytes

    @property
    def conv_block_tokens(self) -> int:
        """Tokens in a convolution block after pages were made equal; kernels index by the number of taps."""
        return next(group.page.block_tokens for group in self.groups if group.page.kind == "conv")

    def blocks(self, context_tokens: int, in_flight_tokens: int) -> Counter[CacheKind]:
        """Blocks by kind that one request of `context_tokens` needs, as vLLM admits it."""
        found: Counter[CacheKind] = Counter()
        for group in self.groups:
            page = group.page
            if page.window is None:
                found[page.kind] += -(-context_tokens // page.block_tokens)
            else:
                held = min(page.window - 1 + self.extra_tokens + in_flight_tokens, context_tokens)
                found[page.kind] += -(-held // page.block_tokens) + 1
        return found

    def resume_blocks(self) -> int:
        """Blocks that one retained resume point of the prefix cache keeps alive in the sliding and convolution groups."""
        # Drafts let vLLM look one block further, and drop it again.
        peek = 1 if self.extra_tokens else 0
        return sum(-(-(group.page.window - 1) // group.page.block_tokens) + peek for group in self.groups if group.page.window)

    def longest_context(self, pool_blocks: int, in_flight_tokens: int, *, most: int) -> int:
        """Longest context of one request that fits a pool, at most `most` tokens; 0 when not even one token does."""
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            # One block is vLLM's null block.
            if self.blocks(middle, in_flight_tokens).total() <= pool_blocks - 1:
                low = middle
            else:
                high = middle - 1
        return low


def cache_layout(
    shape: ModelShape, *, ranks: int = 1, block_tokens: int = 16, value_bytes: int = 2, conv_bytes: int = 2, drafts: int = 0
) -> CacheLayout:
    """The groups vLLM forms.

    Parameters
    ----------
    ranks : int
        Tensor-parallel size.
    block_tokens : int
        ``--block-size``.
    value_bytes, conv_bytes : int
        Bytes of a key or value, and of a convolution's state.
    drafts : int
        Multi-token-prediction blocks that are built.

    Raises
    ------
    BadRequest
        More ranks than key/value heads.
    """
    check_ranks(shape, ranks)
    layers = [layer in shape.local_layers for layer in range(shape.layers)]
    layers += [depth in shape.local_draft_layers for depth in range(min(drafts, shape.draft_layers))]
    found: Counter[Page] = Counter()
    for local in layers:
        heads, width = shape.kv(local=local)
        mine = heads // ranks
        attention = mine * 2 * width * block_tokens * value_bytes
        found[Page(kind="sliding" if local else "global", block_tokens=block_tokens, bytes=attention, heads=mine,
                   window=shape.window if local else None)] += 1  # fmt: skip
        packed = 2 * width + 2 * (shape.hidden // heads)
        state = mine * (1 << (packed - 1).bit_length()) * shape.conv_taps * conv_bytes
        found[Page(kind="conv", block_tokens=shape.conv_taps, bytes=state, heads=mine, window=shape.conv_taps)] += 1
    most = max(page.bytes for page in found)
    equal: Counter[Page] = Counter()
    for page, count in found.items():
        scale = most // page.bytes if most % page.bytes == 0 else 1
        equal[replace(page, bytes=most, block_tokens=page.block_tokens * scale)] += count
    fewest, largest = min(equal.values()), max(equal.values())
    size = largest if largest < fewest * 1.5 else fewest
    groups = [
        Group(page=page, layers=count // parts + (index < count % parts))
        for page, count in equal.items()
        for parts in (-(-count // size),)
        for index in range(parts)
    ]
    return CacheLayout(groups=tuple(groups), group_layers=size, extra_tokens=max(0, drafts - 1))


def check_ranks(shape: ModelShape, ranks: int) -> None:
    """Raise BadRequest unless every rank can hold a whole key/value head of every layer."""
    if ranks > shape.fewest_kv_heads or shape.kv_heads % ranks or shape.local_kv_heads % ranks:
        raise BadRequest(
            f"tensor-parallel size {ranks}: Inkling's layers have {shape.kv_heads} (global) and {shape.local_kv_heads} (sliding) "
            f"key/value heads, and the short convolutions need a whole one on every rank: at most {shape.fewest_kv_heads}, and a "
            "divisor",
            ranks=ranks, most=shape.fewest_kv_heads,
        )  # fmt: skip
