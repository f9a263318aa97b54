"""Resume points of the prefix cache, on vLLM's own cache manager with the demo's layers: what an edit recomputes, what it costs.

No model runs: the manager decides alone what can be reused, from block hashes.
"""

from __future__ import annotations

from typing import Any

import pytest

from engine import recipes
from engine.demo import shape_named
from engine.inkling import ModelShape
from engine.inkling.cache import cache_layout

pytest.importorskip("vllm")

SHAPE = ModelShape.from_config(shape_named("demo").config())
LAYOUT = cache_layout(SHAPE, block_tokens=16, value_bytes=4, conv_bytes=4)
STEP, CONTEXT = 2048, 65_536
BLOCKS = 24_000


class Manager:
    """vLLM's cache manager for the demo's layers, and the little of a scheduler that fills it."""

    def __init__(self, interval: int | None) -> None:
        import torch
        from vllm.utils.hashing import sha256
        from vllm.v1.core.kv_cache_manager import KVCacheManager
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec

        init_none_hash(sha256)
        groups = []
        for number, group in enumerate(LAYOUT.groups):
            page, common = (
                group.page,
                {"num_kv_heads": group.page.heads, "dtype": torch.float32, "block_size": group.page.block_tokens},
            )
            head = page.bytes // (page.heads * page.block_tokens * 4)
            spec = (
                FullAttentionSpec(head_size=head // 2, **common)
                if page.window is None
                else SlidingWindowSpec(head_size=head, head_size_v=0, sliding_window=page.window, **common)
            )
            groups.append(KVCacheGroupSpec([f"layer.{number}.{layer}" for layer in range(group.layers)], spec))
        config = KVCacheConfig(
            num_blocks=BLOCKS, kv_cache_tensors=[], kv_cache_groups=groups, prefix_cache_retention_interval=interval
        )  # fmt: skip
        self.manager: Any = KVCacheManager(
            config, max_model_len=CONTEXT, scheduler_block_size=16, hash_block_size=4, max_in_flight_tokens=STEP
        )  # fmt: skip
        self._hasher, self._number = get_request_block_hasher(4, sha256), 0

    def run(self, ids: list[int]) -> int:
        """Run a prompt to its end; tokens that were reused."""
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        self._number += 1
        request = Request(f"r{self._number}", ids, SamplingParams(max_tokens=1), None, block_hasher=self._hasher)
        blocks, cached, boundary = self.manager.get_computed_blocks(request)
        del boundary
        first = True
        while request.num_computed_tokens < len(ids):
            done = cached if first else request.num_computed_tokens
            count = min(STEP, len(ids) - done)
            if first:
                slots = self.manager.allocate_slots(request, count, cached, blocks)
            else:
                slots = self.manager.allocate_slots(request, count)
            assert slots is not None, "the pool is large enough for this test"
            request.num_computed_tokens, first = done + count, False
        self.manager.free(request)
        return cached

    def cached_blocks(self) -> int:
        """Blocks that a later request could reuse."""
        return sum(block.block_hash is not None for block in self.manager.block_pool.blocks)


def text(seed: int, tokens: int) -> list[int]:
    return [1000 + (seed * 7919 + n * 31) % 150_000 for n in range(tokens)]


@pytest.mark.parametrize("interval", [1024, 2048, 4096, 8192])
def test_an_edit_recomputes_at_most_an_interval_more_than_what_is_new(interval: int) -> None:
    manager = Manager(interval)
    document = text(1, 30_000)
    assert manager.run(document) == 0
    for place in (29_000, 17_000, 9_500):
        cached = manager.run([*document[:place], *text(place, 500)])
        assert place - interval - 16 <= cached <= place
    # The same again: all but the last block.
    assert len(document) - manager.run(document) <= 32


def test_without_an_interval_an_edit_recomputes_everything() -> None:
    manager = Manager(0)
    document = text(1, 30_000)
    manager.run(document)
    assert manager.run([*document[:17_000], *text(2, 500)]) == 0


@pytest.mark.parametrize("interval", [1024, 2048, 4096, 8192])
def test_the_memory_of_resume_points_is_what_the_planner_counts(interval: int) -> None:
    tokens = 32_768
    with_points, without = Manager(interval), Manager(0)
    with_points.run(text(1, tokens))
    without.run(text(1, tokens))
    extra = with_points.cached_blocks() - without.cached_blocks()
    # The point at the end is kept either way; one that coincides with it is counted once.
    assert extra == pytest.approx((tokens // interval) * LAYOUT.resume_blocks(), abs=LAYOUT.resume_blocks())


def test_twenty_turns_compute_only_what_is_new_and_at_most_an_interval() -> None:
    interval = int(recipes.load("demo").args["prefix-cache-retention-interval"])  # type: ignore[arg-type]
    manager, ids, before = Manager(interval), text(1, 3000), 0
    for turn in range(20):
        ids = [*ids, *text(turn + 2, 137)]
        computed = len(ids) - manager.run(ids)
        if turn:
            assert computed <= len(ids) - before + interval
        before = len(ids)
