"""The native attention kernel against the torch kernels and against plain float64 formulas, with every instruction set there is.

Both compute in float32 with their sums in another order. 1e-5 is ten times the rounding of sums of a few thousand values of size
one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cpu.attention import RelativeAttention
from engine.cpu.native import building, kernel
from tests.cpu.test_model_kernels import dense_attention, paged

SAME = 1e-5


def sets() -> list[str]:
    """Instruction sets of this processor; none where there is no compiler, and the tests say so."""
    try:
        widest = kernel.Native().set
    except building.NotBuilt:
        return []
    return list(kernel.SETS[: kernel.SETS.index(widest) + 1])


SETS = sets()
needs_kernel = pytest.mark.skipif(not SETS, reason="no C++ compiler: the native kernel is not built")
each_set = pytest.mark.parametrize("name", SETS)


def step(
    lengths: list[tuple[int, int]], *, heads: int = 4, kv_heads: int = 2, width: int = 32, extent: int = 16, page: int = 16,
    local: bool = False, seed: int = 0, dtype: torch.dtype = torch.float32, spread: float = 3.0, floor: int = 0,
) -> tuple[dict[str, Any], list[tuple[torch.Tensor, torch.Tensor]]]:  # fmt: skip
    """Arguments of a call for requests with (past, new) tokens each, and every request's keys and values, (k, kv heads, c).

    Scores have a long tail: a few queries and keys are several times as large as most. With `floor`, queries and bias grow with the
    logarithm of the position beyond it.
    """
    draw = torch.Generator().manual_seed(seed)
    total, per_request = sum(new for _, new in lengths), -(-max(past + new for past, new in lengths) // page)
    table = (torch.randperm(per_request * len(lengths), generator=draw) + 1).view(len(lengths), per_request)
    blocks = per_request * len(lengths) + 1
    q = torch.randn(total, heads, width, generator=draw) * spread
    q *= torch.rand(total, 1, 1, generator=draw).pow(-0.5).clamp(max=4)
    relative = torch.randn(total, heads, extent, generator=draw) * 2
    contents, bounds, both = [], [0], torch.full((blocks, page, kv_heads, 2 * width), torch.nan)
    for request, (past, new) in enumerate(lengths):
        rows = torch.randn(past + new, kv_heads, 2 * width, generator=draw)
        rows[..., :width] *= torch.rand(past + new, kv_heads, 1, generator=draw).pow(-0.4).clamp(max=4)
        rows = rows.to(dtype).float()
        pages = paged(rows, page, table[request].tolist(), blocks)
        both[~pages.isnan()] = pages[~pages.isnan()]
        contents.append((rows[..., :width], rows[..., width:]))
        if floor:
            position = past + torch.arange(new) + 1
            tau = 1 + 0.3 * torch.log((position / floor).clamp(min=1)).view(-1, 1, 1)
            q[bounds[-1] : bounds[-1] + new] *= tau
            relative[bounds[-1] : bounds[-1] + new] *= tau
        bounds.append(bounds[-1] + new)
    key_cache, value_cache = both.to(dtype).split(width, dim=-1)
    return {
        "q": q, "key_cache": key_cache, "value_cache": value_cache, "block_table": table.int(),
        "cache_seqlens": torch.tensor([past + new for past, new in lengths], dtype=torch.int32),
        "cu_seqlens_q": torch.tensor(bounds, dtype=torch.int32), "max_seqlen_q": total, "softmax_scale": 1 / width, "causal": True,
        "window_size": (extent - 1, 0) if local else (-1, -1), "rel_extent": extent, "rel_logits": relative,
    }, contents  # fmt: skip


def dense(call: dict[str, Any], contents: list[tuple[torch.Tensor, torch.Tensor]], lengths: list[tuple[int, int]]) -> torch.Tensor:
    """What the definition says, in float64."""
    found, row = [], 0
    extent, local = call["rel_extent"], call["window_size"][0] >= 0
    for (past, new), (keys, values) in zip(lengths, contents, strict=True):
        part = slice(row, row + new)
        found.append(dense_attention(call["q"][part], keys, values, call["rel_logits"][part], past, extent if local else 0, extent))
        row += new
    return torch.cat(found)


def native(name: str) -> RelativeAttention:
    built = kernel.Native(name)
    return RelativeAttention(lambda: built)


@needs_kernel
@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(SETS or ["plain"]),
    page=st.sampled_from([1, 3, 8, 16]),
    local=st.booleans(),
    extent=st.sampled_from([1, 2, 7, 16, 33]),
    heads=st.sampled_from([(1, 1), (4, 2), (6, 2), (12, 1), (3, 3)]),
    width=st.sampled_from([5, 8, 32, 40]),
    lengths=st.lists(st.tuples(st.integers(0, 70), st.integers(0, 40)), min_size=1, max_size=4),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    seed=st.integers(0, 9),
)
def test_equal_to_the_definition_and_to_torch(name, page, local, extent, heads, width, lengths, dtype, seed) -> None:
    """Requests with any past, some with nothing new, in one call."""
    if not any(new for _, new in lengths):
        lengths = [*lengths, (3, 1)]
    lengths = [(max(past, 1 - new), new) for past, new in lengths]
    call, contents = step(
        lengths, heads=heads[0], kv_heads=heads[1], width=width, extent=extent, page=page, local=local, seed=seed, dtype=dtype
    )  # fmt: skip
    found = native(name)(**call)
    torch.testing.assert_close(found.double(), dense(call, contents, lengths), atol=SAME, rtol=SAME)
    torch.testing.assert_close(found, RelativeAttention(lambda: None)(**call), atol=SAME, rtol=SAME)


@needs_kernel
@each_set
@pytest.mark.parametrize("local", [False, True])
def test_long_tails_at_every_edge(name: str, local: bool) -> None:
    """5,200 keys, 700 new queries: blocks of keys, the bias's last distance and the one beyond, log scaling past its floor."""
    past, new, extent = 4500, 700, 48
    call, contents = step([(past, new)], extent=extent, local=local, floor=1000, seed=4)
    found = native(name)(**call)
    torch.testing.assert_close(found, RelativeAttention(lambda: None)(**call), atol=SAME, rtol=SAME)
    (keys, values), reach = contents[0], extent if local else 0
    for row in (0, 1, 47, 48, 255, 256, 511, 699):
        part = slice(row, row + 1)
        wanted = dense_attention(call["q"][part], keys, values, call["rel_logits"][part], past + row, reach, extent)
        torch.testing.assert_close(found[part].double(), wanted, atol=SAME, rtol=SAME)


@needs_kernel
@each_set
def test_bias_ends_at_its_extent(name: str) -> None:
    """A bias of 30 on the last distance decides; one step further there is none."""
    extent = 8
    call, contents = step([(40, 3)], extent=extent, heads=1, kv_heads=1, seed=1)
    call["rel_logits"].zero_()
    call["rel_logits"][:, :, extent - 1] = 60.0
    found = native(name)(**call)
    values = contents[0][1]
    for row in range(3):
        torch.testing.assert_close(found[row, 0], values[40 + row - (extent - 1), 0], atol=1e-4, rtol=1e-4)


@needs_kernel
@each_set
@pytest.mark.parametrize("local", [False, True])
def test_how_a_prompt_is_split_changes_no_bit(name: str, local: bool) -> None:
    """One step of 300 rows, and the same rows one by one and in uneven chunks: blocks of keys lie where they lie."""
    whole, _ = step([(0, 300)], extent=32, local=local, seed=2)
    attention = native(name)
    wanted = attention(**whole)
    for chunks in ([1] * 20 + [280], [7, 93, 130, 70]):
        at, got = 0, []
        for count in chunks:
            part = slice(at, at + count)
            got.append(attention(**whole | {
                "q": whole["q"][part], "rel_logits": whole["rel_logits"][part], "cache_seqlens": torch.tensor([at + count]),
                "cu_seqlens_q": torch.tensor([0, count]), "max_seqlen_q": count,
            }))  # fmt: skip
            at += count
        assert torch.equal(torch.cat(got), wanted)


@needs_kernel
def test_few_rows_over_many_keys_are_shared_among_threads() -> None:
    """One query on 20,000 keys, with four threads: parts of the keys are merged."""
    call, _ = step([(20_000, 1), (9_000, 2)], seed=3)
    before = torch.get_num_threads()
    torch.set_num_threads(16)
    try:
        found = native(SETS[-1])(**call)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found, RelativeAttention(lambda: None)(**call), atol=SAME, rtol=SAME)


@needs_kernel
def test_bfloat16_queries_and_a_given_output() -> None:
    call, _ = step([(50, 20)], dtype=torch.bfloat16)
    half = call | {"q": call["q"].bfloat16(), "rel_logits": call["rel_logits"].bfloat16()}
    out = torch.empty_like(half["q"])
    assert native(SETS[-1])(**half, out=out) is out
    # One rounding to bfloat16 at the end, in both.
    torch.testing.assert_close(out, RelativeAttention(lambda: None)(**half), atol=2**-8, rtol=2**-7)


def test_without_a_compiler_torch_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No compiler, one that fails, the switch: no failure, and the reason is told."""
    monkeypatch.setenv("INKLING_CACHE", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("INKLING_NATIVE", raising=False)
    with monkeypatch.context() as changed:
        changed.setenv("PATH", str(tmp_path))
        assert kernel.choose() == (None, "no C++ compiler is installed (c++, g++, clang++; CXX names another)")
    failing = tmp_path / "fails"
    failing.write_text("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho 'no such thing' >&2\nexit 3\n", "utf-8")
    failing.chmod(0o755)
    monkeypatch.setenv("CXX", str(failing))
    assert kernel.choose() == (None, f"{failing} ended with 3: no such thing")
    monkeypatch.setenv("INKLING_NATIVE", "0")
    assert kernel.choose() == (None, "INKLING_NATIVE=0")
    assert not list(tmp_path.glob("native/*"))


@needs_kernel
def test_it_is_compiled_once_and_the_switch_takes_a_narrower_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INKLING_CACHE", str(tmp_path))
    monkeypatch.delenv("INKLING_NATIVE", raising=False)
    widest, _ = kernel.choose()
    assert widest is not None
    assert widest.set == SETS[-1]
    (library,) = (tmp_path / "native").iterdir()
    written = library.stat().st_mtime_ns
    monkeypatch.setenv("INKLING_NATIVE", "plain")
    narrow, _ = kernel.choose()
    assert narrow is not None
    assert narrow.set == "plain"
    assert [entry.stat().st_mtime_ns for entry in (tmp_path / "native").iterdir()] == [written]
