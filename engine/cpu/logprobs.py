"""Log-probabilities and ranks of the V2 runner, of sampled and of prompt tokens.

Source: vLLM 0.32 ``v1/worker/gpu/sample/{logprob,prompt_logprob}.py`` and ``v1/worker/gpu/metrics/logits.py``.
"""

from __future__ import annotations

import numpy as np
import torch

PROMPT_ROWS = 128
"""Rows of logits that exist at once while a prompt is scored (vLLM's 1,024 would be 820 MB at Inkling's vocabulary)."""

_ROWS = 16


def topk_log_softmax(
    output: torch.Tensor,
    logits: torch.Tensor,
    logits_stride: int,
    topk_ids: torch.Tensor,
    topk_ids_stride: int,
    topk: int,
    vocab_size: int,
    BLOCK_SIZE: int,
    TOPK_BLOCK_SIZE: int,
) -> None:
    """Log-probability of the given ids of each row, in float32, a few rows at a time (a row is 200,058 wide)."""
    for begin in range(0, len(logits), _ROWS):
        rows = logits[begin : begin + _ROWS].float()
        chosen = rows.gather(1, topk_ids[begin : begin + _ROWS, :topk])
        output[begin : begin + _ROWS] = chosen - rows.logsumexp(dim=1, keepdim=True)


def ranks(
    output: torch.Tensor, logits: torch.Tensor, logits_stride: int, token_ids: torch.Tensor, vocab_size: int, BLOCK_SIZE: int
) -> None:
    """How many tokens of the row are at least as likely as the given one, itself included."""
    for row, token in enumerate(token_ids.tolist()):
        # numpy counts ten times as fast as torch sums booleans; bfloat16 has no numpy type.
        values = logits[row, :vocab_size].float().numpy()
        output[row] = int(np.count_nonzero(values >= values[token]))


def fill_logprob_token_ids(
    out_token_ids: torch.Tensor,
    out_token_ids_stride: int,
    out_valid_mask: torch.Tensor,
    out_valid_mask_stride: int,
    sampled_token_ids: torch.Tensor,
    topk_indices: torch.Tensor,
    topk_indices_stride: int,
    expanded_idx_mapping: torch.Tensor,
    num_per_req_token_ids: torch.Tensor,
    per_req_token_ids: torch.Tensor,
    per_req_token_ids_stride: int,
    NUM_TOPK: int,
    PADDED_COLS: int,
) -> None:
    """Ids to score per row: the sampled one, then the request's own list or the likeliest."""
    for row, state in enumerate(expanded_idx_mapping.tolist()):
        own = int(num_per_req_token_ids[state])
        ids = per_req_token_ids[state, :own] if own > 0 else topk_indices[row, :NUM_TOPK]
        out_token_ids[row, 0] = sampled_token_ids[row]
        out_token_ids[row, 1 : 1 + len(ids)] = ids.to(out_token_ids.dtype)
        out_valid_mask[row, : 1 + len(ids)] = True


def prompt_logprobs_token_ids(
    prompt_logprobs_token_ids: torch.Tensor,
    query_start_loc: torch.Tensor,
    idx_mapping: torch.Tensor,
    num_computed_tokens: torch.Tensor,
    all_token_ids: torch.Tensor,
    all_token_ids_stride: int,
    BLOCK_SIZE: int,
) -> None:
    """The token after each of this step's prompt tokens: the one whose log-probability the row gives."""
    bounds = query_start_loc.tolist()
    for row, state in enumerate(idx_mapping.tolist()):
        start, end = bounds[row], bounds[row + 1]
        first = int(num_computed_tokens[state]) + 1
        following = all_token_ids[state, first : first + end - start]
        # The last row of a full-length request has no next token; its value is never read.
        prompt_logprobs_token_ids[start:end] = 0
        prompt_logprobs_token_ids[start : start + len(following)] = following.to(prompt_logprobs_token_ids.dtype)


def num_nans(logits: torch.Tensor, logits_stride: int, num_nans: torch.Tensor, vocab_size: int, BLOCK_SIZE: int) -> None:
    """NaNs per row."""
    num_nans[:] = logits.isnan().sum(dim=1).to(num_nans.dtype)


KERNELS = {
    "sample.logprob._topk_log_softmax_kernel": topk_log_softmax,
    "sample.logprob._ranks_kernel": ranks,
    "sample.logprob._fill_logprob_token_ids_kernel": fill_logprob_token_ids,
    "sample.prompt_logprob._prompt_logprobs_token_ids_kernel": prompt_logprobs_token_ids,
    "metrics.logits._num_nans_kernel": num_nans,
}
"""Kernels of ``vllm.v1.worker.gpu`` by module and name."""
