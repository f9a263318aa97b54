"""Inkling's short convolutions over vLLM's paged cache of past inputs.

Each layer keeps the inputs of its four depthwise causal convolutions (keys, values, attention output, MLP output) in one paged
cache ``[blocks, h, N, D]``; a stream owns the columns ``off … off + width`` of `D` for every head. A token's taps come from this
step's input where they lie in it, from the cache where they lie before it, and are zero before position 0.

The page size `N` is the cache's own shape. vLLM hands its kernels a constant (the number of taps) instead, which is wrong as soon
as the pages are enlarged to match larger attention pages; these functions take it and do not use it.
Source: vLLM 0.32 ``models/inkling/nvidia/ops/sconv.py``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import torch

from .native import layers as native


def fused_sconv(
    x: torch.Tensor,
    weight: torch.Tensor,
    cache: torch.Tensor,
    positions: torch.Tensor,
    block_table: torch.Tensor,
    seq_idx: torch.Tensor,
    slot_mapping: torch.Tensor,
    query_start: torch.Tensor,
    off_s: int,
    ws: int,
    block_size: int,
    activation: str | None = None,
    use_residual: bool = True,
) -> torch.Tensor:
    """Store this step's inputs and convolve, with vLLM's signature; see :func:`convolve`. `block_size` is not used."""
    if activation is not None or not use_residual:
        raise NotImplementedError(f"Inkling's short convolution has no activation ({activation}) and keeps its residual")
    step = (positions, block_table, seq_idx, slot_mapping, query_start)
    if (found := native.sconv(x, weight, cache, off_s, ws, step)) is not None:
        return found
    return convolve(x, weight, cache, off_s, ws, *step).to(x.dtype)


def convolve(
    x: torch.Tensor,
    weight: torch.Tensor,
    cache: torch.Tensor,
    offset: int,
    width: int,
    positions: torch.Tensor,
    block_table: torch.Tensor,
    seq_idx: torch.Tensor,
    slot_mapping: torch.Tensor,
    query_start: torch.Tensor,
) -> torch.Tensor:
    """``x + conv(x)`` in float32, and the inputs stored in the cache.

    Parameters
    ----------
    x : Tensor, shape (t, h·width)
        This step's inputs, requests one after the other, heads outermost.
    weight : Tensor, shape (h·width, taps)
        The last tap belongs to the current token.
    cache : Tensor, shape (blocks, h, N, D)
    positions : Tensor, shape (t,)
        Absolute position of each token.
    block_table : Tensor, shape (requests, blocks per request)
    seq_idx, query_start : Tensor, shape (t,)
        Request of each token, and the first row of that request in `x`.
    slot_mapping : Tensor, shape (t,)
        ``block·N + place`` of each token, negative for padding rows.
    """
    taps, rows, heads = weight.shape[1], x.shape[0], cache.shape[1]
    plan = _plan(rows, taps, cache.shape[2], positions, block_table, seq_idx, slot_mapping, query_start)
    values, kernel = x.float(), weight.float().T
    stream = cache[..., offset : offset + width]
    early = plan.early
    stored = cache[plan.block, :, plan.place, offset : offset + width].flatten(2).float()
    history = torch.where(plan.inside, values[plan.recent], stored).where(plan.known, 0)
    if len(early) < rows:
        out = torch.addcmul(values, values, kernel[-1])
        for back in range(1, taps):
            out[back:].addcmul_(values[:-back], kernel[-1 - back])
        own = values[early]
    else:
        out, own = torch.empty_like(values), values
    out[early] = own + (own * kernel[-1] + (history * kernel[:-1].flip(0)).sum(1))
    new = x.view(rows, heads, width)
    stream[plan.slot_block, :, plan.slot_place] = (new if plan.written is None else new[plan.written]).to(stream.dtype)
    return out


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where a step's taps lie: the same for every layer of a cache group and every stream.

    `early` are the rows whose taps reach back before this step (at most taps - 1 per request); the next five say, for each of
    them and each earlier tap, whether it lies in this step (`inside`, row `recent`) or in the cache (`block`, `place`), or
    nowhere (not `known`). The last three say where the rows themselves are stored; `written` drops padding rows, None if none.
    """

    early: torch.Tensor
    inside: torch.Tensor
    recent: torch.Tensor
    block: torch.Tensor
    place: torch.Tensor
    known: torch.Tensor
    slot_block: torch.Tensor
    slot_place: torch.Tensor
    written: torch.Tensor | None


_plans: deque[tuple[tuple[int, int, int], tuple[torch.Tensor, ...], _Plan]] = deque(maxlen=4)
"""Plans of the running step, one per cache group, with the tensors they were made from. vLLM makes new tensor objects for every
step, and holding them here keeps their identities from being reused: the same objects mean the same step."""


def _plan(
    rows: int,
    taps: int,
    page: int,
    positions: torch.Tensor,
    block_table: torch.Tensor,
    seq_idx: torch.Tensor,
    slot_mapping: torch.Tensor,
    query_start: torch.Tensor,
) -> _Plan:
    sizes, made_from = (rows, taps, page), (positions, block_table, seq_idx, slot_mapping, query_start)
    for known_sizes, tensors, plan in _plans:
        if known_sizes == sizes and all(one is other for one, other in zip(tensors, made_from, strict=True)):
            return plan
    slots = slot_mapping[:rows].long()
    row, start = torch.arange(rows, device=slots.device), query_start[:rows].long()
    # Rows before position 0 belong to nobody, but vLLM drafts over some (docs/upstream.md): their successors look for their taps.
    early = ((row - start < taps - 1) | (positions[:rows] < taps - 1)).nonzero()[:, 0]
    back = torch.arange(1, taps, device=slots.device)
    source, recent = positions[early].long()[:, None] - back, early[:, None] - back
    inside = recent >= start[early][:, None]
    known = (source >= 0) & (slots[early] >= 0)[:, None]
    past = source.clamp(min=0)
    column = (past // page).clamp(max=block_table.shape[1] - 1)
    block = block_table[seq_idx[early].long()[:, None], column].long()
    valid = slots >= 0
    kept = slots[valid]
    plan = _Plan(
        # Taps that the cache does not answer for read block 0 and are masked.
        early=early, inside=inside[..., None], recent=recent.clamp(min=0), block=block.where(known & ~inside, 0), place=past % page,
        known=known[..., None], slot_block=kept // page, slot_place=kept % page, written=None if len(kept) == rows else valid,
    )  # fmt: skip
    _plans.append((sizes, made_from, plan))
    return plan


def sconv_seq_metadata(
    query_start_loc: torch.Tensor,
    num_reqs: int,
    num_actual_tokens: int,
    seq_idx_out: torch.Tensor,
    query_start_out: torch.Tensor,
    num_padded_tokens: int | None = None,
) -> None:
    """Write request and first row of every token; zero for padding rows."""
    bounds = query_start_loc[: num_reqs + 1].long()
    request = torch.repeat_interleave(torch.arange(num_reqs, device=bounds.device), bounds.diff())[:num_actual_tokens]
    seq_idx_out[:num_actual_tokens] = request.to(seq_idx_out.dtype)
    query_start_out[:num_actual_tokens] = bounds[request].to(query_start_out.dtype)
    if num_padded_tokens is not None:
        seq_idx_out[num_actual_tokens:num_padded_tokens] = 0
        query_start_out[num_actual_tokens:num_padded_tokens] = 0
