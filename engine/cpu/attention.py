"""Exact attention with Inkling's relative bias over vLLM's paged keys and values, in torch; :mod:`.native` does the same faster.

The bias of query `i` for key `j` is ``relative[i, h, i - j]`` within its extent and exactly zero beyond. So keys further away than
the extent need no mask at all: a block of queries attends to them with plain flash attention, to the near ones with the bias as
mask, and the two parts are merged by their log-sum-exp. Sliding layers have the near part only. Everything is float32, whatever
the model's dtype; nothing is approximated and nothing of size t × t exists: the largest temporary is one query block's near band.

The queries of one key/value head are stacked along the query axis, so keys are never repeated per head.
Measured shapes and the source of this arrangement: the banded prefill of the project's notes on CPU performance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch

from .native import kernel

QUERY_BLOCK = 512
"""Most queries per block: larger ones gain nothing, and the mask of the near band grows with their square."""

BAND_VALUES = 1 << 22
"""Bound on heads × queries × extent of a block: keeps the mask of a large model's near band under about 20 MB."""

KEY_STEP = 8192
"""Keys taken at a time where attention is computed step by step: bounds the scores of a query block."""


class RelativeAttention:
    """Stands in for vLLM's FA4 kernel object: one call is a layer's attention of a whole step.

    Parameters
    ----------
    native : callable
        Gives the native kernel, or None for torch; asked at the first call, in the worker.
    """

    def __init__(self, native: Callable[[], kernel.Native | None] = kernel.loaded) -> None:
        self._native = native

    def register_warmup(self) -> None:
        """Build the native kernel while the model is built, not within the first request."""
        self._native()

    def __call__(
        self,
        q: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        *,
        block_table: torch.Tensor,
        cache_seqlens: torch.Tensor,
        cu_seqlens_q: torch.Tensor,
        max_seqlen_q: int,
        softmax_scale: float,
        causal: bool,
        window_size: tuple[int, int],
        rel_extent: int,
        rel_logits: torch.Tensor,
        num_splits: int = 1,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Attention of every request of a step.

        Parameters
        ----------
        q : Tensor, shape (t, h, c)
            Queries, requests one after the other; the last query of a request is its newest token.
        key_cache, value_cache : Tensor, shape (blocks, N, kv heads, c)
        block_table : Tensor, shape (requests, blocks per request)
        cache_seqlens : Tensor, shape (requests,)
            Keys per request, this step's included.
        cu_seqlens_q : Tensor, shape (requests + 1,)
        window_size : tuple of int
            Keys to the left and right: ``(window - 1, 0)``, or ``(-1, -1)`` for all.
        rel_logits : Tensor, shape (t, h, rel_extent)
        """
        window = window_size[0] + 1
        if not causal or (window and (window != rel_extent or window_size[1] != 0)):
            raise NotImplementedError(f"causal attention with a bias over its window only, not {window_size} with {rel_extent}")
        out = torch.empty_like(q) if out is None else out
        if kernel.takes(key_cache, value_cache) and (native := self._native()) is not None:
            native(
                q, rel_logits, key_cache, value_cache, block_table, cache_seqlens, cu_seqlens_q, out,
                local=bool(window), scale=softmax_scale,
            )  # fmt: skip
            return out
        bounds, lengths = cu_seqlens_q.tolist(), cache_seqlens.tolist()
        for request, length in enumerate(lengths[: len(bounds) - 1]):
            rows = slice(bounds[request], bounds[request + 1])
            first = length - (rows.stop - rows.start)
            if rows.start == rows.stop:
                continue
            begin = max(0, first - window + 1) if window else 0
            keys = gather(key_cache, block_table[request], begin, length)
            values = gather(value_cache, block_table[request], begin, length)
            attend(q[rows], rel_logits[rows], keys, values, out[rows], first=first, begin=begin,
                   local=bool(window), scale=softmax_scale)  # fmt: skip
        return out


def attend(
    q: torch.Tensor,
    relative: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    out: torch.Tensor,
    *,
    first: int,
    begin: int,
    local: bool,
    scale: float,
    hidden: Sequence[tuple[int, int]] = (),
) -> None:
    """Attention of one request's queries, written to `out`.

    Parameters
    ----------
    q, out : Tensor, shape (t, h, c)
    relative : Tensor, shape (t, h, extent)
    keys, values : Tensor, shape (kv heads, k, c)
        float32, of positions `begin`, `begin` + 1, …
    first : int
        Position of the first query.
    local : bool
        Keys beyond the extent are not seen at all.
    hidden : sequence of (int, int)
        Keys from one position to before another that none of these queries sees; none of them is a query's own.
    """
    heads, extent = q.shape[1], relative.shape[2]
    groups = heads // keys.shape[0]
    block = max(32, min(QUERY_BLOCK, BAND_VALUES // (heads * extent), extent if local else QUERY_BLOCK))
    for start in range(0, len(q), block):
        stop = min(start + block, len(q))
        rows, at = stop - start, first + start
        near = max(at - extent + 1, begin)
        stacked = q[start:stop].float().transpose(0, 1).reshape(-1, groups * rows, q.shape[2])
        mask = _band(relative[start:stop], at, near, local)
        if any(near < end and first_key < at + rows for first_key, end in hidden):
            mask = mask.clone()  # what lies outside the band is shared with later blocks
            for first_key, end in hidden:
                mask[:, :, max(0, first_key - near) : max(0, end - near)] = -torch.inf
        mask = mask.view(-1, groups * rows, at + rows - near)
        span = slice(near - begin, at + rows - begin)
        result, weight = _flash(stacked, keys[:, span], values[:, span], scale, mask)
        if not local and (seen := _visible(begin, near, hidden)):
            far_keys, far_values = (_pieces(cache, begin, seen) for cache in (keys, values))
            far, far_weight = _flash(stacked, far_keys, far_values, scale, None)
            result = torch.lerp(result, far, torch.sigmoid(far_weight - weight)[..., None])
        out[start:stop] = result.view(heads, rows, -1).transpose(0, 1).to(out.dtype)


def _visible(begin: int, end: int, hidden: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What of positions `begin` to `end` is not hidden, in pieces."""
    pieces, at = [], begin
    for first_key, last in sorted(hidden):
        if at < min(first_key, end):
            pieces.append((at, min(first_key, end)))
        at = max(at, last)
    return [*pieces, (at, end)] if at < end else pieces


def _pieces(cache: torch.Tensor, begin: int, pieces: list[tuple[int, int]]) -> torch.Tensor:
    """Those positions of keys or values (kv heads, k, c) that begin at `begin`; a view when it is one piece."""
    found = [cache[:, start - begin : stop - begin] for start, stop in pieces]
    return found[0] if len(found) == 1 else torch.cat(found, dim=1)


def _band(relative: torch.Tensor, at: int, near: int, local: bool) -> torch.Tensor:
    """Mask of a query block against its near keys, shape (h, rows, keys from `near` to the block's end).

    Row `r` holds its logits by falling distance, shifted by `r`: a view with a row stride one longer than the row writes all rows
    at once, without an index.
    """
    rows, heads, extent = relative.shape
    wide = rows + extent - 1
    mask = _frame(heads, rows, extent, local, relative.device)
    mask.as_strided((heads, rows, extent), (rows * wide, wide + 1, 1)).copy_(relative.transpose(0, 1).flip(-1))
    return mask[:, :, near - (at - extent + 1) :]


@lru_cache(maxsize=8)
def _frame(heads: int, rows: int, extent: int, local: bool, device: torch.device) -> torch.Tensor:
    """What lies outside the band: nothing to see right of it, and left of it no bias (global) or nothing (local).

    Only the band is ever written, so a frame serves every later block of its size.
    """
    frame = torch.full((rows, rows + extent - 1), -torch.inf, device=device)
    if not local:
        frame.masked_fill_(torch.ones_like(frame, dtype=torch.bool).tril(-1), 0.0)
    return frame.repeat(heads, 1, 1)


def _flash(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float, mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention and its log-sum-exp: shapes (kv heads, rows, c) and (kv heads, rows)."""
    if q.device.type != "cpu":
        return _stepwise(q, keys, values, scale, mask)
    result: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q[None], keys[None], values[None], 0.0, False, attn_mask=None if mask is None else mask[None], scale=scale
    )
    return result[0][0], result[1][0]


def _stepwise(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float, mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """:func:`_flash` where the CPU's operation is not to be had: keys in steps, merged by their log-sum-exp."""
    result, weight = torch.zeros_like(q), torch.full(q.shape[:2], -torch.inf, device=q.device)
    for start in range(0, keys.shape[1], KEY_STEP):
        part = slice(start, start + KEY_STEP)
        scores = q @ keys[:, part].transpose(1, 2) * scale
        scores = scores if mask is None else scores + mask[:, :, part]
        here = scores.logsumexp(-1)
        both = torch.logaddexp(weight, here)
        share = (here - both).exp().nan_to_num(0.0)
        inside = (scores - here[..., None]).exp().nan_to_num(0.0) @ values[:, part]
        result = torch.lerp(result, inside, share[..., None])
        weight = both
    return result, weight


def gather(cache: torch.Tensor, blocks: torch.Tensor, begin: int, end: int) -> torch.Tensor:
    """Keys or values of positions `begin` to `end` of one request, shape (kv heads, k, c), float32."""
    page = cache.shape[1]
    low = begin // page
    pages = cache[blocks[low : -(-end // page)].long()].flatten(0, 1)
    return pages[begin - low * page : end - low * page].transpose(0, 1).float()
