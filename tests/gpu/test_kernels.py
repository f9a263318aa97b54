"""The torch kernels of :mod:`engine.cpu` on CUDA tensors against themselves on the CPU: what an unsupported card would run.

Both in float32. Products on a GPU are summed in another order; with TF32 off (torch's default) they agree to a few 1e-5 of the
largest value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from engine.cpu import activation, moe, norms, qkvr, sconv
from engine.cpu.attention import RelativeAttention

SAME = {"atol": 1e-4, "rtol": 1e-4}

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
]


def both(call: Callable[..., Any], *given: torch.Tensor, stores: tuple[torch.Tensor, ...] = ()) -> None:
    """`call` with `given` and `stores` here and on the GPU: equal results, equal stores, and nothing came back to the CPU."""
    ours, theirs = [store.clone() for store in stores], [store.cuda() for store in stores]
    here, there = call(*given, *ours), call(*[x.cuda() for x in given], *theirs)
    for one, other in zip(_list(here), _list(there), strict=True):
        assert other.is_cuda
        torch.testing.assert_close(other.cpu(), one, **SAME, equal_nan=True)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(other.cpu(), one, **SAME, equal_nan=True)


def _list(found: Any) -> list[torch.Tensor]:
    return [found] if isinstance(found, torch.Tensor) else list(found)


def step(past: int, new: int, page: int) -> tuple[tuple[torch.Tensor, ...], int]:
    """Where the rows of one request lie whose first `past` tokens are cached, and how many pages there are."""
    blocks = -(-(past + new) // page)
    table, place = torch.randperm(blocks) + 1, torch.arange(past, past + new)
    slots = table[place // page] * page + place % page
    zeros = torch.zeros(new, dtype=torch.int32)
    return (place, table.int()[None], zeros, slots, zeros), blocks + 1


@pytest.mark.parametrize(("past", "new"), [(0, 90), (70, 1), (33, 200)])
def test_convolutions_and_preparation(past: int, new: int) -> None:
    where, pages = step(past, new, 16)
    heads, kv, width, d_rel, extent = 6, 2, 32, 16, 40
    x, taps, conv = torch.randn(new, kv * 24), torch.randn(kv * 24, 4), torch.randn(pages, kv, 16, 40)
    both(lambda x, taps, *rest: sconv.convolve(x, taps, rest[-1], 5, 24, *rest[:-1]), x, taps, *where, stores=(conv,))

    fused = torch.randn(new, heads * width + 2 * kv * width + heads * d_rel)
    weights = (*(torch.randn(kv * width, 4) for _ in range(2)), *(torch.rand(width) + 0.5 for _ in range(2)))
    bank, tau, slots = torch.randn(d_rel, extent), 1 + torch.rand(new, 1), torch.randperm(new * 16)[:new]
    stores = (torch.randn(pages, kv, 16, 2 * width + 8), *(torch.zeros(new, 16, kv, width) for _ in range(2)))

    def prepare(*given: torch.Tensor) -> Any:
        fused, k, v, q_norm, k_norm, bank, tau, slots, *rest = given
        *where, conv, keys, values = rest
        sizes, caches = (1e-6, heads, kv, width, d_rel), (conv, keys, values)
        return qkvr.fused_qkvr_prep(fused, k, v, q_norm, k_norm, bank, *sizes, *caches, *where, slots, 3, 3 + width, 4, tau)

    both(prepare, fused, *weights, bank, tau, slots, *where, stores=stores)


@pytest.mark.parametrize("rows", [1, 100])
def test_norm_router_and_activations(rows: int) -> None:
    both(lambda *given: norms.add_rmsnorm(*given, 1e-6), torch.randn(rows, 96), torch.randn(rows, 96), torch.rand(96))
    both(
        lambda logits, bias, scale: moe.gate_select(logits, 20, 18, 4, 2, bias, 2.5, scale),
        torch.randn(rows, 24) * 6, torch.randn(18), torch.tensor([1.1]),
    )  # fmt: skip
    both(activation.silu_and_mul, torch.randn(rows, 120) * 5)
    both(
        lambda raw, before, gammas, after: activation.sink_silu_mul(raw, before, gammas, after, 3, torch.float32),
        torch.randn(rows, 120) * 5, torch.rand(3) + 0.5, torch.rand(rows, 3), torch.rand(3) + 0.5,
    )  # fmt: skip


@pytest.mark.parametrize("window", [0, 64])
@pytest.mark.parametrize(("past", "new"), [(0, 300), (9_000, 40), (511, 1)])
def test_attention(window: int, past: int, new: int) -> None:
    extent, heads, kv, width = window or 96, 4, 2, 32
    (_, table, *_), pages = step(past, new, 16)
    kernel = RelativeAttention(lambda: None)

    def attention(q: torch.Tensor, relative: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, table: torch.Tensor) -> Any:
        return kernel(
            q, keys, values, block_table=table, cache_seqlens=torch.tensor([past + new]), cu_seqlens_q=torch.tensor([0, new]),
            max_seqlen_q=new, softmax_scale=1 / width, causal=True, window_size=(window - 1, 0) if window else (-1, -1),
            rel_extent=extent, rel_logits=relative,
        )  # fmt: skip

    keys, values = torch.randn(2, pages, 16, kv, width)
    both(attention, torch.randn(new, heads, width) * 3, torch.randn(new, heads, extent), keys, values, table)
