"""The V2 runner's bookkeeping between steps: inputs, positions, sampled tokens.

Implementations of vLLM's Triton kernels, called with their launch arguments. A step holds few requests, so loops over requests are
plain Python over arrays that share the tensors' memory; there is no loop over tokens.
Source: vLLM 0.32 ``v1/worker/gpu/input_batch.py``.
"""

from __future__ import annotations

import numpy as np
import torch


def prepare_prefill_inputs(
    input_ids: torch.Tensor,
    next_prefill_tokens: torch.Tensor,
    next_prefill_tokens_stride: int,
    num_lookahead: int,
    idx_mapping: torch.Tensor,
    query_start_loc: torch.Tensor,
    all_token_ids: torch.Tensor,
    all_token_ids_stride: int,
    prefill_lens: torch.Tensor,
    num_computed_tokens: torch.Tensor,
    BLOCK_SIZE: int,
    LOOKAHEAD_BLOCK: int,
) -> None:
    """Copy this step's prompt tokens to the input, and note the few that follow them."""
    bounds, computed, lengths = query_start_loc.tolist(), num_computed_tokens.numpy(), prefill_lens.numpy()
    for row, state in enumerate(idx_mapping.tolist()):
        done, length = int(computed[state]), int(lengths[state])
        if done >= length:
            continue
        start, end = bounds[row], bounds[row + 1]
        prompt = all_token_ids[state]
        input_ids[start:end] = prompt[done : done + end - start]
        after = prompt[done + end - start : min(length, done + end - start + num_lookahead)]
        next_prefill_tokens[:num_lookahead, state] = 0
        next_prefill_tokens[: len(after), state] = after.to(next_prefill_tokens.dtype)


def prepare_pos_seq_lens(
    pos: torch.Tensor,
    seq_lens: torch.Tensor,
    idx_mapping: torch.Tensor,
    query_start_loc: torch.Tensor,
    num_computed_tokens: torch.Tensor,
    max_num_reqs: int,
    BLOCK_SIZE: int,
) -> None:
    """Absolute position of every token, and length of every sequence after this step."""
    requests = len(idx_mapping)
    bounds = query_start_loc[: requests + 1].long()
    lengths, done = bounds.diff(), num_computed_tokens[idx_mapping.long()].long()
    seq_lens[:requests] = (done + lengths).to(seq_lens.dtype)
    seq_lens[requests:max_num_reqs] = 0
    tokens = int(bounds[-1]) if requests else 0
    pos[:tokens] = torch.arange(tokens) + torch.repeat_interleave(done - bounds[:-1], lengths)


def combine_sampled_and_draft_tokens(
    input_ids: torch.Tensor,
    idx_mapping: torch.Tensor,
    last_sampled_tokens: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    prefill_len: torch.Tensor,
    draft_tokens: torch.Tensor,
    draft_tokens_stride: int,
    cu_num_logits: torch.Tensor,
    logits_indices: torch.Tensor,
    BLOCK_SIZE: int,
    NUM_NEW_SAMPLED_TOKENS: int = 1,
) -> None:
    """Which rows give logits; and, past the prompt, the tokens sampled and drafted last as this step's input."""
    ends, logits = query_start_loc.tolist(), cu_num_logits.tolist()
    for row, state in enumerate(idx_mapping.tolist()):
        count, end = logits[row + 1] - logits[row], ends[row + 1]
        logits_indices[logits[row] : logits[row + 1]] = torch.arange(end - count, end)
        length, prompt = int(seq_lens[row]), int(prefill_len[state])
        if length <= prompt:
            continue
        if NUM_NEW_SAMPLED_TOKENS > 0 and length - count >= prompt:
            input_ids[end - count] = last_sampled_tokens.view(-1)[state]
        drafts = count - NUM_NEW_SAMPLED_TOKENS
        if drafts > 0:
            input_ids[end - drafts : end] = draft_tokens[state, :drafts].to(input_ids.dtype)


def get_num_sampled_and_rejected(
    num_sampled: torch.Tensor,
    num_rejected: torch.Tensor,
    seq_lens: torch.Tensor,
    cu_num_logits: torch.Tensor,
    idx_mapping: torch.Tensor,
    prefill_len: torch.Tensor,
) -> None:
    """Count sampled and rejected tokens; a request whose prompt is not done yet has neither."""
    requests = len(idx_mapping)
    unfinished = seq_lens[:requests] < prefill_len[idx_mapping.long()]
    num_sampled[:requests].masked_fill_(unfinished, 0)
    rejected = cu_num_logits[: requests + 1].diff() - num_sampled[:requests]
    num_rejected[:requests] = rejected.masked_fill(unfinished, 0).to(num_rejected.dtype)


def post_update(
    idx_mapping: torch.Tensor,
    num_computed_tokens: torch.Tensor,
    last_sampled_tokens: torch.Tensor,
    output_bin_counts: torch.Tensor | None,
    output_bin_counts_stride: int,
    sampled_tokens: torch.Tensor,
    sampled_tokens_stride: int,
    num_sampled: torch.Tensor,
    num_rejected: torch.Tensor,
    query_start_loc: torch.Tensor | None,
    all_token_ids: torch.Tensor,
    all_token_ids_stride: int,
    total_len: torch.Tensor,
    **launch: object,
) -> None:
    """Append the sampled tokens to their requests and advance what is computed."""
    bounds = None if query_start_loc is None else query_start_loc.tolist()
    sampled, rejected = num_sampled.tolist(), num_rejected.tolist()
    for row, state in enumerate(idx_mapping.tolist()):
        if state < 0:
            continue
        count = sampled[row]
        if count > 0:
            tokens, length = sampled_tokens[row, :count], int(total_len[state])
            last_sampled_tokens.view(-1)[state] = tokens[-1]
            all_token_ids[state, length : length + count] = tokens.to(all_token_ids.dtype)
            total_len[state] = length + count
            if output_bin_counts is not None:
                np.add.at(output_bin_counts[state].numpy(), tokens.numpy(), 1)
        num_computed_tokens[state] += (0 if bounds is None else bounds[row + 1] - bounds[row]) - rejected[row]


def post_update_num_computed_tokens(
    idx_mapping: torch.Tensor, num_computed_tokens: torch.Tensor, query_start_loc: torch.Tensor
) -> None:
    """Advance what is computed by this step's tokens."""
    lengths = query_start_loc[: len(idx_mapping) + 1].diff()
    num_computed_tokens.index_add_(0, idx_mapping.long(), lengths.to(num_computed_tokens.dtype))


def expand_idx_mapping(
    idx_mapping: torch.Tensor,
    expanded_idx_mapping: torch.Tensor,
    expanded_local_pos: torch.Tensor,
    cu_num_logits: torch.Tensor,
    BLOCK_SIZE: int,
) -> None:
    """Request and number within the request of every row of logits."""
    bounds = cu_num_logits[: len(idx_mapping) + 1].long()
    counts, total = bounds.diff(), int(bounds[-1])
    expanded_idx_mapping[:total] = torch.repeat_interleave(idx_mapping, counts)
    expanded_local_pos[:total] = (torch.arange(total) - torch.repeat_interleave(bounds[:-1], counts)).to(expanded_local_pos.dtype)


KERNELS = {
    "_prepare_prefill_inputs_kernel": prepare_prefill_inputs,
    "_prepare_pos_seq_lens_kernel": prepare_pos_seq_lens,
    "_combine_sampled_and_draft_tokens_kernel": combine_sampled_and_draft_tokens,
    "_get_num_sampled_and_rejected_kernel": get_num_sampled_and_rejected,
    "_post_update_kernel": post_update,
    "_post_update_num_computed_tokens_kernel": post_update_num_computed_tokens,
    "_expand_idx_mapping_kernel": expand_idx_mapping,
}
"""Kernels of ``vllm.v1.worker.gpu.input_batch`` by name."""
