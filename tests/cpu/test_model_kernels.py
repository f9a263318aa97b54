"""The model's torch kernels against plain float64 formulas, at every edge: window, bias extent, page borders, chunks, padding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cpu import activation, moe, norms, sconv
from engine.cpu.attention import RelativeAttention
from engine.cpu.head import FEW_ROWS, product
from engine.cpu.native import layers
from engine.cpu.qkvr import fused_qkvr_prep


@pytest.fixture(scope="module", autouse=True, params=["torch", "native"])
def kernels(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every test twice: with torch alone, and with the native versions of the small operations where they are built."""
    if request.param == "native" and layers.library() is None:
        pytest.skip("no C++ compiler: the native operations are not built")
    with pytest.MonkeyPatch.context() as changed:
        if request.param == "torch":
            changed.setattr(layers, "library", lambda: None)
        yield request.param


# float32 sums against float64: rounding of a few hundred products of size one.
CLOSE = 2e-5


def paged(values: torch.Tensor, page: int, table: list[int], blocks: int) -> torch.Tensor:
    """Rows (t, h, c) laid out in pages (blocks, page, h, c); what is not written is NaN, and must not be read."""
    pages = torch.full((blocks, page, *values.shape[1:]), torch.nan)
    for place, row in enumerate(values):
        pages[table[place // page], place % page] = row
    return pages


def dense_attention(q, keys, values, relative, first, window, extent):
    """Definition: softmax over every visible key of q·k/c plus the bias of its distance."""
    q, keys, values, relative = (x.double() for x in (q, keys, values, relative))
    groups, out = q.shape[1] // keys.shape[1], torch.zeros(q.shape, dtype=torch.float64)
    for row in range(len(q)):
        at = first + row
        low = max(0, at - window + 1) if window else 0
        distance = at - torch.arange(low, at + 1)
        for head in range(q.shape[1]):
            scores = keys[low : at + 1, head // groups] @ q[row, head] / q.shape[2]
            near = distance < extent
            scores[near] += relative[row, head, distance[near]]
            out[row, head] = scores.softmax(0) @ values[low : at + 1, head // groups]
    return out


@settings(max_examples=40, deadline=None)
@given(
    page=st.sampled_from([1, 3, 8, 16]),
    local=st.booleans(),
    extent=st.sampled_from([1, 2, 7, 16]),
    lengths=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=1, max_size=3),
    block=st.sampled_from([2, 5, 512]),
    seed=st.integers(0, 9),
)
def test_attention(page, local, extent, lengths, block, seed) -> None:
    """Requests with `past` cached and `new` computed tokens each, in one call."""
    draw = torch.Generator().manual_seed(seed)
    heads, kv_heads, width = 4, 2, 5
    total, widest = sum(new for _, new in lengths), max(past + new for past, new in lengths)
    per_request = -(-widest // page)
    # Blocks in an order of their own, and one that belongs to nobody.
    order = torch.randperm(per_request * len(lengths), generator=draw) + 1
    table = order.view(len(lengths), per_request)
    key_pages, value_pages = (torch.full((len(order) + 1, page, kv_heads, width), torch.nan) for _ in range(2))
    q = torch.randn(total, heads, width, generator=draw) * 3
    relative = torch.randn(total, heads, extent, generator=draw)
    wanted, row, bounds = [], 0, [0]
    for request, (past, new) in enumerate(lengths):
        keys, values = (torch.randn(past + new, kv_heads, width, generator=draw) for _ in range(2))
        for pages, rows in ((key_pages, keys), (value_pages, values)):
            filled = paged(rows, page, table[request].tolist(), len(order) + 1)
            pages[~filled.isnan()] = filled[~filled.isnan()]
        part = slice(row, row + new)
        wanted.append(dense_attention(q[part], keys, values, relative[part], past, extent if local else 0, extent))
        row += new
        bounds.append(row)
    from engine.cpu import attention

    before, attention.QUERY_BLOCK = attention.QUERY_BLOCK, max(32, block)
    try:
        found = RelativeAttention(lambda: None)(
            q, key_pages, value_pages, block_table=table.int(), cu_seqlens_q=torch.tensor(bounds),
            cache_seqlens=torch.tensor([past + new for past, new in lengths]), max_seqlen_q=total, softmax_scale=1 / width,
            causal=True, window_size=(extent - 1, 0) if local else (-1, -1), rel_extent=extent, rel_logits=relative,
        )  # fmt: skip
    finally:
        attention.QUERY_BLOCK = before
    torch.testing.assert_close(found.double(), torch.cat(wanted), atol=CLOSE, rtol=CLOSE)


@pytest.mark.parametrize("values_at_once", [1 << 22, 1 << 15, 1])
@pytest.mark.parametrize("past", [0, 5, 700])
@pytest.mark.parametrize("local", [False, True])
def test_attention_over_several_query_blocks(local: bool, past: int, values_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """600 queries behind cached keys: blocks of queries, of which many, few or none are done together, a far part, a bias that ends
    inside the near part, windows cut by the beginning."""
    from engine.cpu import attention

    monkeypatch.setattr(attention, "BAND_VALUES", values_at_once)
    draw = torch.Generator().manual_seed(0)
    new, extent, page = 600, 48, 16
    keys, values = (torch.randn(past + new, 2, 8, generator=draw) for _ in range(2))
    q, relative = torch.randn(new, 4, 8, generator=draw) * 3, torch.randn(new, 4, extent, generator=draw)
    table = list(range(-(-(past + new) // page)))
    found = RelativeAttention(lambda: None)(
        q, paged(keys, page, table, len(table)), paged(values, page, table, len(table)), block_table=torch.tensor([table]),
        cu_seqlens_q=torch.tensor([0, new]), cache_seqlens=torch.tensor([past + new]), max_seqlen_q=new, softmax_scale=1 / 8,
        causal=True, window_size=(extent - 1, 0) if local else (-1, -1), rel_extent=extent, rel_logits=relative,
    )  # fmt: skip
    rows = [0, 1, 31, 32, 47, 48, 49, 63, 64, 95, 96, 511, 512, 513, 575, 576, 599]
    wanted = torch.cat([
        dense_attention(q[r : r + 1], keys, values, relative[r : r + 1], past + r, extent if local else 0, extent) for r in rows
    ])  # fmt: skip
    torch.testing.assert_close(found[rows].double(), wanted, atol=CLOSE, rtol=CLOSE)


def test_attention_refuses_what_it_does_not_know() -> None:
    with pytest.raises(NotImplementedError, match="window"):
        RelativeAttention(lambda: None)(
            torch.zeros(1, 1, 4), torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 1, 4), block_table=torch.zeros(1, 1),
            cu_seqlens_q=torch.tensor([0, 1]), cache_seqlens=torch.tensor([1]), max_seqlen_q=1, softmax_scale=1.0, causal=True,
            window_size=(7, 0), rel_extent=4, rel_logits=torch.zeros(1, 1, 4),
        )  # fmt: skip


def dense_sconv(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Definition over a whole sequence: causal taps, the last one on the current token, plus the input."""
    x, weight, taps = x.double(), weight.double(), weight.shape[1]
    padded = torch.cat([torch.zeros(taps - 1, x.shape[1], dtype=torch.float64), x])
    return x + sum(padded[tap : tap + len(x)] * weight[:, tap] for tap in range(taps))


@settings(max_examples=60, deadline=None)
@given(
    page=st.sampled_from([1, 2, 4, 8, 16]),
    chunks=st.lists(st.lists(st.integers(0, 5), min_size=2, max_size=2), min_size=1, max_size=6),
    padding=st.integers(0, 2),
    seed=st.integers(0, 9),
)
def test_sconv_in_chunks_is_sconv(page, chunks, padding, seed) -> None:
    """Two requests advance by any number of tokens per step; pages are enlarged; padding rows write nothing."""
    draw = torch.Generator().manual_seed(seed)
    heads, width, offset, taps = 2, 3, 1, 4
    lengths = [sum(chunk[request] for chunk in chunks) for request in range(2)]
    sequences = [torch.randn(length, heads * width, generator=draw) for length in lengths]
    weight = torch.randn(heads * width, taps, generator=draw)
    per_request = max(1, -(-max(lengths) // page))
    table = (torch.randperm(2 * per_request, generator=draw) + 1).view(2, per_request)
    cache = torch.full((2 * per_request + 1, heads, page, 8), torch.nan)
    at, got = [0, 0], [[], []]
    for chunk in chunks:
        rows, position, request, start, slot = [], [], [], [], []
        for index, count in enumerate(chunk):
            begin = len(rows)
            for place in range(at[index], at[index] + count):
                rows.append(sequences[index][place])
                position.append(place)
                request.append(index)
                start.append(begin)
                slot.append(int(table[index, place // page]) * page + place % page)
        if not rows:
            continue
        rows += [torch.full((heads * width,), 9.0)] * padding
        position, request, start, slot = (
            values + [fill] * padding for values, fill in ((position, 0), (request, 0), (start, 0), (slot, -1))
        )
        out = sconv.fused_sconv(
            torch.stack(rows), weight, cache, torch.tensor(position), table.int(), torch.tensor(request, dtype=torch.int32),
            torch.tensor(slot), torch.tensor(start, dtype=torch.int32), offset, width, 4,
        )  # fmt: skip
        for row, index in enumerate(request[: len(rows) - padding]):
            got[index].append(out[row])
        at = [done + count for done, count in zip(at, chunk, strict=True)]
    assert cache[0].isnan().all()
    assert cache[..., :offset].isnan().all()
    assert cache[..., offset + width :].isnan().all()
    for sequence, rows in zip(sequences, got, strict=True):
        if rows:
            torch.testing.assert_close(torch.stack(rows).double(), dense_sconv(sequence, weight), atol=CLOSE, rtol=CLOSE)


def test_seq_metadata_names_request_and_first_row() -> None:
    request, start = torch.full((9,), 7, dtype=torch.int32), torch.full((9,), 7, dtype=torch.int32)
    sconv.sconv_seq_metadata(torch.tensor([0, 3, 4, 6]), 3, 6, request, start, 8)
    assert request.tolist() == [0, 0, 0, 1, 2, 2, 0, 0, 7]
    assert start.tolist() == [0, 0, 0, 3, 4, 4, 0, 0, 7]


@pytest.mark.parametrize("scaled", [False, True])
def test_queries_keys_values_and_relative_logits(scaled: bool) -> None:
    """One request from position 0, sizes that real kernels forbid (head of 6, relative of 3), against the definitions."""
    draw = torch.Generator().manual_seed(1)
    tokens, heads, kv, dim, d_rel, extent, page = 11, 4, 2, 6, 3, 5, 4
    qkvr = torch.randn(tokens, heads * dim + 2 * kv * dim + heads * d_rel, generator=draw)
    k_taps, v_taps = (torch.randn(kv * dim, 4, generator=draw) for _ in range(2))
    q_gain, k_gain, bank = (
        torch.rand(dim, generator=draw) + 0.5,
        torch.rand(dim, generator=draw) + 0.5,
        torch.randn(d_rel, extent, generator=draw),
    )
    tau = 1 + 0.3 * torch.log(((torch.arange(tokens) + 1) / 4).clamp(min=1)) if scaled else None
    conv, key_pages, value_pages = torch.zeros(4, kv, page, 32), torch.zeros(4, page, kv, dim), torch.zeros(4, page, kv, dim)
    slots, zero = torch.arange(tokens) + page, torch.zeros(tokens, dtype=torch.int32)
    queries, logits = fused_qkvr_prep(
        qkvr, k_taps, v_taps, q_gain, k_gain, bank, 1e-6, heads, kv, dim, d_rel, conv, key_pages, value_pages,
        torch.arange(tokens), torch.tensor([[1, 2, 3]]), zero, slots, zero, slots, 0, dim, 4, tau,
    )  # fmt: skip

    def norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * gain.double()

    q, k, v, r = (part.double() for part in qkvr.split([heads * dim, kv * dim, kv * dim, heads * d_rel], dim=1))
    factor = 1.0 if tau is None else tau.double().view(-1, 1, 1)
    torch.testing.assert_close(
        queries.double().view(tokens, heads, dim), norm(q.view(tokens, heads, dim), q_gain) * factor, atol=CLOSE, rtol=CLOSE
    )
    torch.testing.assert_close(logits.double(), r.view(tokens, heads, d_rel) @ bank.double() * factor, atol=CLOSE, rtol=CLOSE)
    wanted = norm(dense_sconv(k, k_taps).view(tokens, kv, dim), k_gain)
    torch.testing.assert_close(key_pages.flatten(0, 1)[slots].double(), wanted, atol=CLOSE, rtol=CLOSE)
    torch.testing.assert_close(
        value_pages.flatten(0, 1)[slots].double(), dense_sconv(v, v_taps).view(tokens, kv, dim), atol=CLOSE, rtol=CLOSE
    )


@given(seed=st.integers(0, 50))
@settings(deadline=None)
def test_gate_shares_sigmoids_out(seed: int) -> None:
    """Weights are each sigmoid's part of the chosen and shared ones; the bias only chooses; padding columns do not matter."""
    draw = torch.Generator().manual_seed(seed)
    routed, shared, k = 9, 2, 3
    logits, bias = torch.randn(6, 16, generator=draw) * 4, torch.randn(routed, generator=draw) * 0.2
    logits[:, routed + shared :] = 1e9
    weights, ids = moe.gate_select(logits, routed + shared, routed, k, shared, bias, 1.5, torch.tensor([1.1]))
    sigmoid = logits[:, : routed + shared].double().sigmoid()
    order = np.argsort(-(sigmoid[:, :routed] + bias.double()).numpy(), axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(ids[:, :k], order)
    np.testing.assert_array_equal(ids[:, k:], [[routed, routed + 1]] * 6)
    parts = sigmoid.gather(1, ids.long())
    torch.testing.assert_close(weights.double(), parts / parts.sum(1, keepdim=True) * 1.5 * 1.1, atol=1e-6, rtol=1e-5)


def test_gate_breaks_ties_by_the_lower_index() -> None:
    _, ids = moe.gate_select(torch.zeros(1, 6), 6, 5, 3, 1, None, 1.0, None)
    assert ids.tolist() == [[0, 1, 2, 5]]


def test_activations_pair_alternating_rows() -> None:
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(2))
    gate, up = x[:, 0::2].double(), x[:, 1::2].double()
    torch.testing.assert_close(activation.silu_and_mul(x).double(), gate * gate.sigmoid() * up, atol=CLOSE, rtol=CLOSE)
    gammas, ones = torch.tensor([[0.5, 2.0]] * 3), torch.ones(2)
    found = activation.sink_silu_mul(x, ones, gammas, ones, 2, torch.float32)
    wanted = gate * gate.sigmoid() * up * gammas.double().repeat_interleave(2, dim=1)
    torch.testing.assert_close(found.double(), wanted, atol=CLOSE, rtol=CLOSE)


def test_norms_round_where_the_kernels_do() -> None:
    x, weight = torch.randn(4, 16, dtype=torch.bfloat16), torch.rand(16, dtype=torch.bfloat16)
    total = (x.float() + x.float() * 0.3).bfloat16()
    normed, residual = norms.add_rmsnorm(x, (x.float() * 0.3).bfloat16(), weight, 1e-6)
    assert residual.dtype == normed.dtype == torch.bfloat16
    # The sum is rounded before the norm, as vLLM does: one bfloat16 step at most between the two ways of writing it here.
    torch.testing.assert_close(residual, total, atol=0, rtol=2**-7)
    wanted = residual.double() / (residual.double().pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double()
    torch.testing.assert_close(normed.double(), wanted, atol=0, rtol=2**-8)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, FEW_ROWS, FEW_ROWS + 1, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_of_few_rows(rows: int, dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(rows)
    hidden, weight = torch.randn(rows, 24, generator=draw).to(dtype), torch.randn(1001, 24, generator=draw).to(dtype)
    found = product(hidden, weight, 0.25)
    assert (found.shape, found.dtype, found.is_contiguous()) == ((rows, 1001), dtype, True)
    # One rounding to the dtype of sums of 24 products of size one.
    assert torch.allclose(
        found.double(), 0.25 * hidden.double() @ weight.double().T, atol=CLOSE if dtype == torch.float32 else 0.03
    )
