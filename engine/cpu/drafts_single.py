"""Drafting with one multi-token-prediction block in the V2 runner: one draft, or several by running the block on its own drafts.

Implementations of vLLM's Triton kernels, called with their launch arguments.
Source: vLLM 0.32 ``v1/worker/gpu/spec_decode/target_dependent_ar/speculator.py``.
"""

from __future__ import annotations

import torch


def prepare_prefill_inputs(
    last_token_indices: torch.Tensor,
    draft_current_step: torch.Tensor,
    draft_input_ids: torch.Tensor,
    draft_positions: torch.Tensor,
    draft_query_start_loc: torch.Tensor,
    draft_seq_lens: torch.Tensor,
    target_input_ids: torch.Tensor,
    target_positions: torch.Tensor,
    idx_mapping: torch.Tensor,
    last_sampled: torch.Tensor,
    next_prefill_tokens: torch.Tensor,
    num_sampled: torch.Tensor,
    num_rejected: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    max_num_reqs: int,
    BLOCK_SIZE: int,
) -> None:
    """Input of the first draft: the step's tokens without the rejected ones, moved left by one, the newest token behind them."""
    requests, bounds = len(idx_mapping), query_start_loc.tolist()
    sampled, rejected = num_sampled.tolist(), num_rejected.tolist()
    newest, following = last_sampled.view(-1), next_prefill_tokens.view(-1)
    for row, state in enumerate(idx_mapping.tolist()):
        start, end = bounds[row], bounds[row + 1] - rejected[row]
        draft_input_ids[start : end - 1] = target_input_ids[start + 1 : end]
        draft_input_ids[end - 1] = newest[state] if sampled[row] > 0 else following[state]
        draft_positions[start:end] = target_positions[start:end]
        last_token_indices[row] = end - 1
    draft_current_step.fill_(0)
    draft_query_start_loc[:requests] = query_start_loc[:requests]
    draft_query_start_loc[requests : max_num_reqs + 1] = bounds[requests]
    draft_seq_lens[:requests] = seq_lens[:requests]
    draft_seq_lens[requests:max_num_reqs] = 0
    last_token_indices[requests:max_num_reqs] = 0


def prepare_decode_inputs(
    draft_tokens: torch.Tensor,
    draft_tokens_stride: int,
    target_seq_lens: torch.Tensor,
    num_rejected: torch.Tensor,
    input_ids: torch.Tensor,
    positions: torch.Tensor,
    sample_src_positions: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    max_model_len: int,
    max_num_reqs: int,
    BLOCK_SIZE: int,
    ADVANCE_DRAFT_POSITIONS: bool,
) -> None:
    """Input of the second draft: one token per request, the first draft."""
    requests = len(draft_tokens)
    input_ids[:requests] = draft_tokens.to(input_ids.dtype)
    sample_src_positions[:requests] += 1
    lengths = target_seq_lens[:requests] - num_rejected[:requests]
    if ADVANCE_DRAFT_POSITIONS:
        positions[:requests] = (positions[:requests] + 1).clamp(max=max_model_len - 1)
        lengths = (lengths + 1).clamp(max=max_model_len)
    seq_lens[:requests] = lengths.to(seq_lens.dtype)
    seq_lens[requests:max_num_reqs] = 0
    bounds = torch.arange(max_num_reqs + 1, dtype=query_start_loc.dtype)
    query_start_loc[: max_num_reqs + 1] = bounds.clamp(max=requests)


def update_draft_inputs(
    output_draft_tokens: torch.Tensor,
    output_draft_tokens_stride: int,
    next_input_hidden_states: torch.Tensor,
    next_input_hidden_states_stride: int,
    input_ids: torch.Tensor,
    positions: torch.Tensor,
    sample_src_positions: torch.Tensor,
    seq_lens: torch.Tensor,
    draft_tokens: torch.Tensor,
    current_draft_step: torch.Tensor,
    hidden_states: torch.Tensor,
    hidden_states_stride: int,
    hidden_size: int,
    max_model_len: int,
    num_speculative_steps: int,
    BLOCK_SIZE: int,
    ADVANCE_DRAFT_POSITIONS: bool,
) -> None:
    """Note the drafted tokens and make them the next draft's input."""
    requests, step = len(draft_tokens), int(current_draft_step)
    output_draft_tokens[:requests, step] = draft_tokens.to(output_draft_tokens.dtype)
    if step >= num_speculative_steps - 1:
        return
    sample_src_positions[:requests] += 1
    input_ids[:requests] = draft_tokens.to(input_ids.dtype)
    next_input_hidden_states[:requests] = hidden_states[:requests]
    if ADVANCE_DRAFT_POSITIONS:
        positions[:requests] = (positions[:requests] + 1).clamp(max=max_model_len - 1)
        seq_lens[:requests] = (seq_lens[:requests] + 1).clamp(max=max_model_len)


KERNELS = {
    "_prepare_prefill_inputs_kernel": prepare_prefill_inputs,
    "_prepare_decode_inputs_kernel": prepare_decode_inputs,
    "_update_draft_inputs_kernel": update_draft_inputs,
}
"""Kernels of ``vllm.v1.worker.gpu.spec_decode.target_dependent_ar.speculator`` by name."""
