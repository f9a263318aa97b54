"""Two rare needs around a sampled token in the V2 runner: replay given ones instead, and report which could have been sampled.

Source: vLLM 0.32 ``v1/worker/gpu/sample/{trace_replay,output}.py``.
"""

from __future__ import annotations

import numpy as np
import torch


def trace_replay(
    sampled: torch.Tensor,
    idx_mapping: torch.Tensor,
    trace_token_ids: torch.Tensor,
    trace_token_ids_stride: int,
    trace_len: torch.Tensor,
    total_len: torch.Tensor,
    prompt_len: torch.Tensor,
) -> None:
    """Put the trace's token of this step in the place of the sampled one; requests without a trace keep theirs."""
    for row, state in enumerate(idx_mapping.tolist()):
        if state < 0:
            continue
        step = int(total_len[state]) - int(prompt_len[state])
        if 0 <= step < int(trace_len[state]):
            sampled[row] = trace_token_ids[state, step]


def sampling_mask(
    logits: torch.Tensor,
    logits_row_stride: int,
    logits_col_stride: int,
    cu_num_logits: torch.Tensor,
    num_sampled_tokens: torch.Tensor,
    token_ids: torch.Tensor,
    token_ids_row_stride: int,
    packed_mask: torch.Tensor,
    packed_mask_row_stride: int,
    counts: torch.Tensor,
    vocab_size: int,
    max_num_kept: int,
    ROWS_PER_REQUEST: int,
    BLOCK_SIZE: int,
) -> None:
    """Which ids had a finite logit, per sampled token: the first of them, their number, and all as bits."""
    first, sampled = cu_num_logits.tolist(), num_sampled_tokens.tolist()
    for row in range(len(counts)):
        request, slot = divmod(row, ROWS_PER_REQUEST)
        if slot >= sampled[request]:
            counts[row] = 0
            continue
        kept = logits[first[request] + slot, :vocab_size].isfinite().numpy()
        ids = np.flatnonzero(kept)
        counts[row] = len(ids)
        shown = ids[:max_num_kept]
        token_ids[row, : len(shown)] = torch.from_numpy(shown).to(token_ids.dtype)
        packed_mask[row] = torch.from_numpy(np.packbits(kept, bitorder="little"))


KERNELS = {
    "sample.trace_replay._trace_replay_kernel": trace_replay,
    "sample.output._compact_sampling_mask_kernel": sampling_mask,
}
"""Kernels of ``vllm.v1.worker.gpu`` by module and name."""
