"""Attention of one request with some keys left out, over vLLM's paged cache.

Queries are taken in stretches between which the set of hidden keys does not change (a span is hidden from its end on), and heads in
groups that hide the same keys. The arithmetic is that of the torch kernels (:mod:`engine.cpu.attention`), on a GPU too.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch

from ..cpu.attention import attend, gather
from .batch_rows import Rows

Spans = tuple[tuple[int, int], ...]


def attend_masked(module: Any, q: torch.Tensor, relative: torch.Tensor, out: torch.Tensor, rows: Rows, heads: list[Spans]) -> None:
    """Write the attention of one request's rows to `out`, with keys hidden.

    Parameters
    ----------
    module : InklingAttention
        Its layer's cache and metadata are read.
    q, out : Tensor, shape (t, h, c)
        All rows of the step, this rank's heads.
    relative : Tensor, shape (t, h, extent)
    heads : list of tuple of (int, int)
        Per head: spans of keys, each hidden from the queries at or after its end.
    """
    from vllm.forward_context import get_forward_context

    metadata: Any = get_forward_context().attn_metadata
    table = metadata[module.prefix].block_table[rows.index]
    local, first, length = module.is_local, rows.t, rows.t + rows.stop - rows.start
    begin = max(0, first - module.rel_extent + 1) if local else 0
    key_cache, value_cache = module._split_kv_cache()
    keys, values = gather(key_cache, table, begin, length), gather(value_cache, table, begin, length)
    groups: dict[Spans, list[int]] = {}
    for head, spans in enumerate(heads):
        groups.setdefault(spans, []).append(head)
    for spans, members in groups.items():
        target = torch.empty_like(out[rows.part]) if len(groups) > 1 else out[rows.part]
        for start, stop, hidden in _stretches(spans, first, length):
            part = slice(rows.start + start - first, rows.start + stop - first)
            attend(
                q[part], relative[part], keys[:, : stop - begin], values[:, : stop - begin], target[start - first : stop - first],
                first=start, begin=begin, local=local, scale=module.scaling, hidden=hidden,
            )  # fmt: skip
        if len(groups) > 1:
            out[rows.part][:, members] = target[:, members]


def _stretches(spans: Spans, first: int, length: int) -> list[tuple[int, int, Spans]]:
    """Queries `first` to `length` cut where a span ends, each stretch with the spans that are hidden from all of it."""
    edges = sorted({first, length} | {stop for _, stop in spans if first < stop < length})
    return [(start, stop, tuple(span for span in spans if span[1] <= start)) for start, stop in itertools.pairwise(edges)]
