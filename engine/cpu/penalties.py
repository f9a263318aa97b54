"""Repetition, frequency and presence penalties of the V2 runner, and the token statistics they need.

Source: vLLM 0.32 ``v1/worker/gpu/sample/penalties.py``.
"""

from __future__ import annotations

import numpy as np
import torch


def penalties(
    logits: torch.Tensor,
    logits_stride: int,
    expanded_idx_mapping: torch.Tensor,
    token_ids: torch.Tensor,
    expanded_local_pos: torch.Tensor,
    repetition_penalty: torch.Tensor,
    frequency_penalty: torch.Tensor,
    presence_penalty: torch.Tensor,
    prompt_bin_mask: torch.Tensor,
    prompt_bin_mask_stride: int,
    output_bin_counts: torch.Tensor,
    output_bin_counts_stride: int,
    vocab_size: int,
    BLOCK_SIZE: int,
) -> None:
    """Apply the penalties of each row's request, in place; drafted tokens before a row count as output."""
    for row, state in enumerate(expanded_idx_mapping.tolist()):
        repetition, frequency, presence = (float(p[state]) for p in (repetition_penalty, frequency_penalty, presence_penalty))
        if (repetition, frequency, presence) == (1.0, 0.0, 0.0):
            continue
        counts = output_bin_counts[state, :vocab_size].numpy().copy()
        back = int(expanded_local_pos[row])
        drafted = token_ids[row - back + 1 : row + 1].numpy()
        np.add.at(counts, drafted[drafted >= 0], 1)  # placeholders are no tokens
        seen = counts > 0
        if repetition != 1.0:
            seen |= np.unpackbits(prompt_bin_mask[state].numpy().view(np.uint8), bitorder="little")[:vocab_size].view(bool)
        # Only tokens that were seen change: most often some hundreds of the 200,058.
        at = torch.from_numpy(np.flatnonzero(seen))
        said = torch.from_numpy(counts)[at]
        values = logits[row, at].float()
        if repetition != 1.0:
            values = torch.where(values > 0, values / repetition, values * repetition)
        logits[row, at] = (values - frequency * said - presence * (said > 0).float()).to(logits.dtype)


def bincount(
    expanded_idx_mapping: torch.Tensor,
    all_token_ids: torch.Tensor,
    all_token_ids_stride: int,
    prompt_len: torch.Tensor,
    prefill_len: torch.Tensor,
    prompt_bin_mask: torch.Tensor,
    prompt_bin_mask_stride: int,
    output_bin_counts: torch.Tensor,
    output_bin_counts_stride: int,
    BLOCK_SIZE: int,
) -> None:
    """Note which tokens a request's prompt holds (one bit each) and how often it already said which."""
    for state in expanded_idx_mapping.tolist():
        prompt, length = int(prompt_len[state]), int(prefill_len[state])
        ids = all_token_ids[state, :length].numpy()
        seen = np.zeros(prompt_bin_mask.shape[1] * 32, np.uint8)
        seen[ids[:prompt]] = 1
        prompt_bin_mask[state] |= torch.from_numpy(np.packbits(seen, bitorder="little").view(np.int32))
        np.add.at(output_bin_counts[state].numpy(), ids[prompt:], 1)


KERNELS = {"_penalties_kernel": penalties, "_bincount_kernel": bincount}
"""Kernels of ``vllm.v1.worker.gpu.sample.penalties`` by name."""
