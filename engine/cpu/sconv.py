"""Inkling's short convolutions over vLLM's paged cache of past inputs.

Each layer keeps the inputs of its four depthwise causal convolutions (keys, values, attention output, MLP output) in one paged
cache ``[blocks, h, N, D]``; a stream owns the columns ``off … off + width`` of `D` for every head. A token's taps come from this
step's input where they lie in it, from the cache where they lie before it, and are zero before position 0.

The page size `N` is the cache's own shape. vLLM hands its kernels a constant (the number of taps) instead, which is wrong as soon
as the pages are enlarged to match larger attention pages; these functions take it and do not use it.
Source: vLLM 0.32 ``models/inkling/nvidia/ops/sconv.py``.
"""

from __future__ import annotations

import torch


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
    out = convolve(x, weight, cache, off_s, ws, positions, block_table, seq_idx, slot_mapping, query_start)
    return out.to(x.dtype)


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
    values, kernel = x.float(), weight.float().T
    row = torch.arange(rows)
    start = query_start[:rows].long()
    # Rows whose taps reach back before this step: at most taps - 1 per request.
    early = (row - start < taps - 1).nonzero()[:, 0]
    history = _history(values, cache, offset, width, early, positions, block_table, seq_idx, slot_mapping, start, taps)
    out = torch.addcmul(values, values, kernel[-1])
    if len(early) < rows:
        for back in range(1, taps):
            out[back:].addcmul_(values[:-back], kernel[-1 - back])
    out[early] = values[early] + (values[early] * kernel[-1] + torch.einsum("tbc,bc->tc", history, kernel[:-1].flip(0)))
    _store(x.view(rows, heads, width), cache[..., offset : offset + width], slot_mapping[:rows])
    return out


def _history(
    values: torch.Tensor,
    cache: torch.Tensor,
    offset: int,
    width: int,
    early: torch.Tensor,
    positions: torch.Tensor,
    block_table: torch.Tensor,
    seq_idx: torch.Tensor,
    slot_mapping: torch.Tensor,
    start: torch.Tensor,
    taps: int,
) -> torch.Tensor:
    """Inputs 1, 2, … tokens before each row of `early`, shape (rows, taps - 1, c)."""
    page = cache.shape[2]
    back = torch.arange(1, taps)
    source = positions[early].long()[:, None] - back
    inside = early[:, None] - back >= start[early][:, None]
    known = (source >= 0) & (slot_mapping[early] >= 0)[:, None]
    past = source.clamp(min=0)
    column = (past // page).clamp(max=block_table.shape[1] - 1)
    block = block_table[seq_idx[early].long()[:, None], column].long()
    # Rows that the cache does not answer for read page 0 of nobody and are masked below.
    block = block.where(known & ~inside, 0)
    stored = cache[block, :, past % page, offset : offset + width].flatten(2).float()
    recent = values[(early[:, None] - back).clamp(min=0)]
    found = torch.where(inside[..., None], recent, stored)
    return found.where(known[..., None], 0)


def _store(values: torch.Tensor, stream: torch.Tensor, slots: torch.Tensor) -> None:
    slots = slots.long()
    valid = slots >= 0
    if not bool(valid.all()):
        slots, values = slots[valid], values[valid]
    page = stream.shape[2]
    stream[slots // page, :, slots % page] = values.to(stream.dtype)


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
    request = torch.repeat_interleave(torch.arange(num_reqs), bounds.diff())[:num_actual_tokens]
    seq_idx_out[:num_actual_tokens] = request.to(seq_idx_out.dtype)
    query_start_out[:num_actual_tokens] = bounds[request].to(query_start_out.dtype)
    if num_padded_tokens is not None:
        seq_idx_out[num_actual_tokens:num_padded_tokens] = 0
        query_start_out[num_actual_tokens:num_padded_tokens] = 0
