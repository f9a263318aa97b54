"""Cache pages, against vLLM's own grouping of the same layers."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.errors import BadRequest
from engine.inkling import ModelShape, published
from engine.inkling.cache import cache_layout

torch = pytest.importorskip("torch")
pytest.importorskip("vllm")

IN_FLIGHT = 8192


def vllms_groups(shape: ModelShape, *, ranks: int, drafts: int, dtype: torch.dtype):  # pyright: ignore[reportInvalidTypeForm]
    """vLLM's groups and bytes per block for the layers Inkling registers (``models/inkling/nvidia``), and their config."""
    from vllm.config import CacheConfig, VllmConfig
    from vllm.v1.core import kv_cache_utils
    from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec

    config = VllmConfig(cache_config=CacheConfig(block_size=16))
    config.cache_config.kv_cache_layout = "LBNHC"  # what both platforms resolve to: layers outermost
    extra, specs = max(0, drafts - 1), {}
    layers = [(f"layer{i}", i in shape.local_layers) for i in range(shape.layers)]
    layers += [(f"draft{i}", i in shape.local_draft_layers) for i in range(drafts)]
    for name, local in layers:
        heads, width = shape.kv(local=local)
        raw = 2 * width + 2 * (shape.hidden // heads)
        common = {"num_kv_heads": heads // ranks, "dtype": dtype}
        specs[f"{name}.conv"] = SlidingWindowSpec(
            block_size=4,
            head_size=1 << (raw - 1).bit_length(),
            head_size_v=0,
            sliding_window=4,
            extra_retained_tokens=extra,
            **common,
        )
        common |= {"block_size": 16, "head_size": width}
        specs[f"{name}.attn"] = (
            SlidingWindowSpec(sliding_window=shape.window, extra_retained_tokens=extra, **common)
            if local
            else FullAttentionSpec(**common)
        )
    groups = kv_cache_utils.get_kv_cache_groups(config, specs)
    return groups, kv_cache_utils._pool_bytes_per_block(config, groups)


@pytest.mark.parametrize(
    ("model", "ranks", "drafts"),
    [
        ("thinkingmachines/Inkling-NVFP4", 4, 0),
        ("thinkingmachines/Inkling-NVFP4", 4, 8),
        ("thinkingmachines/Inkling-NVFP4", 8, 3),
        ("thinkingmachines/Inkling-Small-NVFP4", 4, 1),
        ("thinkingmachines/Inkling-Small-NVFP4", 2, 0),
    ],
)
def test_groups_blocks_and_bytes_are_vllms(model: str, ranks: int, drafts: int) -> None:
    shape = published(model)
    assert shape is not None
    theirs, bytes_per_block = vllms_groups(shape, ranks=ranks, drafts=drafts, dtype=torch.bfloat16)
    ours = cache_layout(shape, ranks=ranks, drafts=drafts)

    def theirs_of(group):
        spec = group.kv_cache_spec
        window = getattr(spec, "sliding_window", None)
        return (spec.block_size, window, len(group.layer_names), spec.page_size_bytes)

    assert Counter((g.page.block_tokens, g.page.window, g.layers, g.page.bytes) for g in ours.groups) == Counter(
        map(theirs_of, theirs)
    )
    assert ours.block_bytes == bytes_per_block
    # One request, as vLLM admits it: whole contexts for global layers, a window and what is in flight for the others.
    for context in (1, 4096, 1_048_576):
        blocks = 0
        for group in theirs:
            spec = group.kv_cache_spec
            if getattr(spec, "sliding_window", None):
                blocks += spec.max_admission_blocks_per_request(IN_FLIGHT, context)
            else:
                blocks += -(-context // spec.block_size)
        assert ours.blocks(context, IN_FLIGHT).total() == blocks


def test_a_token_costs_44_kib_of_global_keys_and_values() -> None:
    shape = published("thinkingmachines/Inkling-NVFP4")
    assert shape is not None
    one, two = (cache_layout(shape, ranks=4).blocks(context, IN_FLIGHT)["global"] for context in (1 << 19, 1 << 20))
    per_token = (two - one) * cache_layout(shape, ranks=4).block_bytes * 4 / (1 << 19)
    assert per_token == 44 * 1024


@pytest.mark.parametrize(("block", "conv"), [(16, 4), (32, 8), (64, 16), (128, 32)])
def test_only_blocks_of_16_leave_the_convolutions_page_alone(block: int, conv: int) -> None:
    shape = published("thinkingmachines/Inkling-NVFP4")
    assert shape is not None
    assert cache_layout(shape, ranks=4, block_tokens=block).conv_block_tokens == conv


@pytest.mark.parametrize("ranks", [3, 16])
def test_more_ranks_than_key_value_heads_are_refused(ranks: int) -> None:
    shape = published("thinkingmachines/Inkling-NVFP4")
    assert shape is not None
    with pytest.raises(BadRequest, match="8 \\(global\\) and 16"):
        cache_layout(shape, ranks=ranks)


def test_the_longest_context_is_the_last_that_fits() -> None:
    shape = published("thinkingmachines/Inkling-NVFP4")
    assert shape is not None
    layout = cache_layout(shape, ranks=4)
    pool = 30_000
    longest = layout.longest_context(pool, IN_FLIGHT, most=1 << 20)
    assert layout.blocks(longest, IN_FLIGHT).total() <= pool - 1 < layout.blocks(longest + 1, IN_FLIGHT).total()
    assert layout.longest_context(10, IN_FLIGHT, most=1 << 20) == 0
