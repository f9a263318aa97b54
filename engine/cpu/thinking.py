"""The V2 runner's thinking budget: when a request has thought for its budget of tokens, the end of thinking is forced.

Where thinking last began and ended is kept per request and moved on with the tokens that were committed; drafted tokens are looked
at on top of that, row by row. Source: vLLM 0.32 ``v1/worker/gpu/sample/thinking_budget.py``.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

FORCED = 1.0e9
"""Logit of a forced token."""

Ids = NDArray[np.integer]


def update_markers(
    req_ids: torch.Tensor,
    thinking_token_budget: torch.Tensor,
    all_token_ids: torch.Tensor,
    all_token_ids_stride: int,
    total_len: torch.Tensor,
    cached_last_start: torch.Tensor,
    cached_last_end: torch.Tensor,
    cached_scan_pos: torch.Tensor,
    reasoning_start_token_ids: torch.Tensor,
    natural_reasoning_end_token_ids: torch.Tensor,
    START_LEN: int,
    NATURAL_END_LEN: int,
    MAX_LEN: int,
    BLOCK: int,
) -> None:
    """Look for markers in the tokens committed since the last look; in a new request from its end backwards, a block at a time."""
    begins, ends = reasoning_start_token_ids.numpy(), natural_reasoning_end_token_ids.numpy()
    for state in req_ids.tolist():
        if int(thinking_token_budget[state]) < 0:
            continue
        total, scan = int(total_len[state]), int(cached_scan_pos[state])
        start, end = int(cached_last_start[state]), int(cached_last_end[state])
        said = all_token_ids[state, :total].numpy()
        if scan > total:
            scan, start, end = 0, -1, -1
        if scan == 0 and start < 0 and end < 0:
            high = total
            # Only which of the two came last matters: the first block with either of them ends the search.
            while high > 0 and start < 0 and end < 0:
                low = max(0, high - BLOCK)
                start, end = _last(said, begins, low, high), _last(said, ends, low, high)
                high = low
        else:
            found = _last(said, begins, scan, total), _last(said, ends, scan, total)
            start, end = (new if new >= 0 else old for new, old in zip(found, (start, end), strict=True))
        cached_last_start[state], cached_last_end[state] = start, end
        cached_scan_pos[state] = max(0, total - (MAX_LEN - 1))


def thinking_budget(
    logits: torch.Tensor,
    logits_stride: int,
    expanded_idx_mapping: torch.Tensor,
    thinking_token_budget: torch.Tensor,
    all_token_ids: torch.Tensor,
    all_token_ids_stride: int,
    total_len: torch.Tensor,
    input_ids: torch.Tensor,
    expanded_local_pos: torch.Tensor,
    cached_last_start: torch.Tensor,
    cached_last_end: torch.Tensor,
    reasoning_start_token_ids: torch.Tensor,
    natural_reasoning_end_token_ids: torch.Tensor,
    reasoning_end_token_ids: torch.Tensor,
    START_LEN: int,
    NATURAL_END_LEN: int,
    END_LEN: int,
) -> None:
    """Force the next token of the end marker in each row whose request has used its budget, in place."""
    begins, ends = reasoning_start_token_ids.numpy(), natural_reasoning_end_token_ids.numpy()
    forced = reasoning_end_token_ids.tolist()
    for row, state in enumerate(expanded_idx_mapping.tolist()):
        budget = int(thinking_token_budget[state])
        if budget < 0:
            continue
        drafted, total = int(expanded_local_pos[row]), int(total_len[state])
        # Long enough for a marker that began before the drafts, and for a whole end marker before the row.
        first = max(0, total - max(START_LEN, NATURAL_END_LEN, END_LEN))
        recent = np.concatenate([all_token_ids[state, first:total].numpy(), input_ids[row - drafted + 1 : row + 1].numpy()])
        start = _newest(recent, begins, first, total, int(cached_last_start[state]))
        end = _newest(recent, ends, first, total, int(cached_last_end[state]))
        if start < 0 or start <= end or total + drafted - (start + START_LEN) < budget:
            continue
        said = 0
        for length in range(1, min(END_LEN - 1, total + drafted) + 1):
            if recent[-length:].tolist() == forced[:length]:
                said = length
        logits[row, forced[said]] = FORCED


def _newest(recent: Ids, marker: Ids, first: int, total: int, known: int) -> int:
    """Position of the last `marker` that ends after `total`, in `recent` (which begins at `first`); else `known`."""
    found = _last(recent, marker, max(0, total - len(marker) + 1) - first, len(recent))
    return found + first if found >= 0 else known


def _last(ids: Ids, marker: Ids, low: int, high: int) -> int:
    """The last place in `low` … `high` - 1 where `marker` begins and lies within `ids`; -1 for none."""
    high = min(high, len(ids) - len(marker) + 1)
    if high <= low:
        return -1
    equal = np.ones(high - low, bool)
    for place, token in enumerate(marker):
        equal &= ids[low + place : high + place] == token
    places = np.flatnonzero(equal)
    return low + int(places[-1]) if len(places) else -1


KERNELS = {"_update_committed_marker_cache_kernel": update_markers, "_thinking_budget_kernel": thinking_budget}
"""Kernels of ``vllm.v1.worker.gpu.sample.thinking_budget`` by name."""
