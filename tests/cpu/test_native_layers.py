"""The native small operations against the torch ones beside them, over caches that hold earlier tokens: outputs and what is stored.

Both compute in float32; a sum of a few products of size one may differ in its last digits.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine.cpu import activation, moe, norms, qkvr, sconv
from engine.cpu.native import layers

SAME = {"atol": 1e-5, "rtol": 1e-5}

pytestmark = pytest.mark.skipif(layers.library() is None, reason="no C++ compiler: the native operations are not built")


def both(monkeypatch: pytest.MonkeyPatch, call: Any, *stores: torch.Tensor) -> None:
    """`call` natively and by torch, from the same state of `stores`: equal results, equal stores, and the native one ran."""
    before, answers = [store.clone() for store in stores], []
    asked: list[str] = []
    real = layers.library()

    def library() -> Any:
        asked.append("")
        return real

    for using in (library, lambda: None):
        for store, old in zip(stores, before, strict=True):
            store.copy_(old)
        with monkeypatch.context() as changed:
            changed.setattr(layers, "library", using)
            found = call()
        answers.append(([found] if isinstance(found, torch.Tensor) else list(found), [store.clone() for store in stores]))
    assert asked
    for one, other in zip(*answers, strict=True):
        for mine, theirs in zip(one, other, strict=True):
            torch.testing.assert_close(mine, theirs, **SAME, equal_nan=True)
    if stores:
        assert not torch.equal(answers[0][1][0].nan_to_num(7), before[0].nan_to_num(7))


def step(rows: list[tuple[int, int]], page: int, seed: int, *, padding: int = 2) -> tuple[tuple[torch.Tensor, ...], int]:
    """Where the rows of requests with (past, new) tokens lie, and how many pages there are; the last rows are nobody's."""
    draw = torch.Generator().manual_seed(seed)
    per_request = -(-max(past + new for past, new in rows) // page)
    table = (torch.randperm(per_request * len(rows), generator=draw) + 1).view(len(rows), per_request)
    position, request, slot, start = [], [], [], []
    for index, (past, new) in enumerate(rows):
        begin = len(position)
        for at in range(past, past + new):
            position.append(at)
            request.append(index)
            start.append(begin)
            slot.append(int(table[index, at // page]) * page + at % page)
    found = (
        torch.tensor(position + [0] * padding), table.int(), torch.tensor(request + [0] * padding, dtype=torch.int32),
        torch.tensor(slot + [-1] * padding), torch.tensor(start + [0] * padding, dtype=torch.int32),
    )  # fmt: skip
    return found, per_request * len(rows) + 1


ROWS = [[(0, 1)], [(3, 1), (100, 1), (1, 2)], [(0, 90), (5, 7)], [(17, 3), (2, 1), (0, 2)]]


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("page", [1, 4, 16])
def test_short_convolution(monkeypatch: pytest.MonkeyPatch, rows: list[tuple[int, int]], page: int) -> None:
    where, pages = step(rows, page, 1)
    heads, width, offset = 2, 24, 5
    x, weight = torch.randn(len(where[0]), heads * width), torch.randn(heads * width, 4)
    cache = torch.randn(pages, heads, page, 40)
    both(monkeypatch, lambda: sconv.fused_sconv(x, weight, cache, *where, offset, width, 4), cache)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("scaled", [False, True])
def test_queries_keys_and_values(monkeypatch: pytest.MonkeyPatch, rows: list[tuple[int, int]], scaled: bool) -> None:
    where, pages = step(rows, 4, 2)
    heads, kv, width, d_rel, extent, page = 6, 2, 32, 16, 40, 16
    total = len(where[0])
    fused = torch.randn(total, heads * width + 2 * kv * width + heads * d_rel)
    taps, gains = [torch.randn(kv * width, 4) for _ in range(2)], [torch.rand(width) + 0.5 for _ in range(2)]
    bank, conv = torch.randn(d_rel, extent), torch.randn(pages, kv, 4, 2 * width + 8)
    cache = torch.full((total, page, kv, 2 * width), torch.nan)
    keys, values = cache.split(width, dim=-1)
    slots = torch.where(where[3] >= 0, torch.randperm(total * page)[:total], -1)
    tau = 1 + torch.rand(total, 1) if scaled else None
    both(
        monkeypatch,
        lambda: qkvr.fused_qkvr_prep(
            fused, *taps, *gains, bank, 1e-6, heads, kv, width, d_rel, conv, keys, values, *where, slots, 3, 3 + width, 4, tau
        ),
        conv, cache,
    )  # fmt: skip


@pytest.mark.parametrize("rows", [1, 7, 100])
def test_norm_router_and_activations(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    residual, delta, weight = torch.randn(rows, 96), torch.randn(rows, 96), torch.rand(96)
    both(monkeypatch, lambda: norms.add_rmsnorm(residual, delta, weight, 1e-6))
    logits, bias = torch.randn(rows, 24) * 6, torch.randn(18)
    logits[0, :18] = 0.25  # a tie: the lower index first
    both(monkeypatch, lambda: moe.gate_select(logits, 20, 18, 4, 2, bias * (torch.arange(18) > 9), 2.5, torch.tensor([1.1])))
    if rows <= layers.FEW:
        raw, gammas, ones = torch.randn(rows, 3 * 2 * 20) * 5, torch.rand(rows, 9)[:, 2:5], torch.rand(3) + 0.5
        both(monkeypatch, lambda: activation.silu_and_mul(raw))
        both(monkeypatch, lambda: activation.sink_silu_mul(raw, ones, gammas, ones + 1, 3, torch.float32))


@pytest.mark.parametrize(("entries", "width", "count"), [(1000, 192, 1), (4097, 64, 3), (50_000, 24, 9), (3, 512, 2)])
@pytest.mark.parametrize("kind", ["spread", "close", "equal"])
def test_the_likeliest_is_the_products_largest(entries: int, width: int, count: int, kind: str) -> None:
    """Whatever rounding the coarse head does: entries that differ by less than a byte's step, rows of any size, ties."""
    draw = torch.Generator().manual_seed(entries + count)
    head = torch.randn(entries, width, generator=draw) * 10 ** torch.empty(entries, 1).uniform_(-2, 1, generator=draw)
    if kind != "spread":
        head = head[:1] + (1e-4 if kind == "close" else 0.0) * head
    head[entries // 2] = 0
    rows = torch.randn(count, width, generator=draw) * 10 ** torch.linspace(-3, 3, count)[:, None]
    found = layers.likeliest(rows, head, layers.Coarse.of(head))
    assert found is not None
    exact = rows.double() @ head.double().T
    best = exact.max(dim=1).values
    # Two that agree to the last digits of float32 may change places.
    torch.testing.assert_close(exact.gather(1, found[:, None])[:, 0], best, rtol=2e-6, atol=0)
    if kind == "equal":
        assert found.tolist() == [0 if value > 0 else entries // 2 for value in best.tolist()]


def test_the_coarse_head_is_off_by_at_most_half_a_step() -> None:
    head = torch.randn(40_000, 48, generator=torch.Generator().manual_seed(5))
    coarse = layers.Coarse.of(head)
    off = (coarse.bytes.double() * coarse.size.double()[:, None] - head.double()).abs()
    assert (off <= coarse.size.double()[:, None] * (0.5 + 1e-5)).all()
    assert coarse.bytes.abs().max() == 127
