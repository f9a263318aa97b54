"""Drafting with several multi-token-prediction blocks in the V2 runner: the inputs of each block, from step to step.

Block `i` predicts the token `i + 1` after the next one. It sees, at every position, the token that follows there and the hidden
state of the block before; so after each block the tokens move left by one and the drafted one is appended. Positions whose tokens
turned out rejected must be computed anew by the later blocks: a few inputs of the last step are kept per request for that, and put
in front of the next step's (the "gap").

Implementations of vLLM's Triton kernels, called with their launch arguments; requests are few, loops over them are plain.
Source: vLLM 0.32 ``v1/worker/gpu/spec_decode/multi_module_mtp/speculator.py``.
"""

from __future__ import annotations

import torch


def prepare_input_buffers(
    last_token_indices: torch.Tensor,
    draft_input_ids: torch.Tensor,
    draft_positions: torch.Tensor,
    draft_seq_lens: torch.Tensor,
    target_input_ids: torch.Tensor,
    target_positions: torch.Tensor,
    cached_draft_input_ids: torch.Tensor,
    cached_draft_input_ids_stride0: int,
    draft_input_id_overrides: torch.Tensor,
    draft_input_id_overrides_stride0: int,
    idx_mapping: torch.Tensor,
    last_sampled: torch.Tensor,
    next_prefill_tokens: torch.Tensor,
    next_prefill_tokens_stride0: int,
    num_sampled: torch.Tensor,
    num_rejected: torch.Tensor,
    target_seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
    max_num_reqs: int,
    num_speculative_steps: int,
    BLOCK_SIZE: int,
) -> None:
    """Tokens, positions and lengths of the first block's input: the step's tokens moved left by one, behind the gap."""
    requests, bounds = len(idx_mapping), query_start_loc.tolist()
    sampled, rejected = num_sampled.tolist(), num_rejected.tolist()
    newest, kept = last_sampled.view(-1), num_speculative_steps - 1
    for row, state in enumerate(idx_mapping.tolist()):
        start, gap = bounds[row], max(0, rejected[row] - 1)
        count = bounds[row + 1] - start - rejected[row]
        last = start + gap + count - 1
        draft_seq_lens[row] = target_seq_lens[row] - gap
        draft_input_ids[start + gap : last] = target_input_ids[start + 1 : start + count]
        draft_input_ids[last] = newest[state] if sampled[row] > 0 else next_prefill_tokens[0, state]
        draft_input_id_overrides[row] = -1 if sampled[row] > 0 else next_prefill_tokens[1:num_speculative_steps, state]
        last_token_indices[row] = last
        draft_positions[start + gap : last + 1] = target_positions[start : start + count]
        draft_input_ids[start : start + gap] = cached_draft_input_ids[state, kept - gap :].to(draft_input_ids.dtype)
        draft_positions[start : start + gap] = target_positions[start] + torch.arange(-gap, 0)
    query_start_loc[requests : max_num_reqs + 1] = bounds[requests]
    draft_seq_lens[requests:max_num_reqs] = 0
    last_token_indices[requests:max_num_reqs] = 0


def prepare_hidden_states(
    draft_input_hidden_states: torch.Tensor,
    draft_input_hidden_states_stride0: int,
    target_hidden_states: torch.Tensor,
    target_hidden_states_stride0: int,
    cached_target_hidden_states: torch.Tensor,
    cached_target_hidden_states_stride0: int,
    cached_target_hidden_states_stride1: int,
    input_embeds: torch.Tensor | None,
    input_embeds_stride0: int,
    cached_draft_input_embeds: torch.Tensor | None,
    cached_draft_input_embeds_stride0: int,
    cached_draft_input_embeds_stride1: int,
    idx_mapping: torch.Tensor,
    num_rejected: torch.Tensor,
    query_start_loc: torch.Tensor,
    num_speculative_steps: int,
    hidden_size: int,
    BLOCK_SIZE_Q: int,
    BLOCK_SIZE_H: int,
    USE_INPUT_EMBEDS: bool,
) -> None:
    """The target's hidden states behind the gap, and in the gap the kept ones; embeddings in the gap too."""
    bounds, rejected = query_start_loc.tolist(), num_rejected.tolist()
    kept = num_speculative_steps - 1
    for row, state in enumerate(idx_mapping.tolist()):
        start, gap = bounds[row], max(0, rejected[row] - 1)
        count = bounds[row + 1] - start - rejected[row]
        behind = slice(start + gap, start + gap + count)
        draft_input_hidden_states[behind] = target_hidden_states[start : start + count]
        draft_input_hidden_states[start : start + gap] = cached_target_hidden_states[state, kept - gap :]
        if USE_INPUT_EMBEDS and input_embeds is not None and cached_draft_input_embeds is not None:
            input_embeds[start : start + gap] = cached_draft_input_embeds[state, kept - gap :]


def pad_trailing_slots(
    slot_mappings: torch.Tensor,
    slot_mappings_stride0: int,
    query_start_loc: torch.Tensor,
    last_token_indices: torch.Tensor,
    PAD_ID: int,
    BLOCK_SIZE: int,
) -> None:
    """Take the slots away from the rows behind each request's last token: they hold nothing."""
    bounds = query_start_loc.tolist()
    for row, last in enumerate(last_token_indices.tolist()):
        slot_mappings[:, last + 1 : bounds[row + 1]] = PAD_ID


def cache_inputs(
    draft_input_ids: torch.Tensor,
    draft_input_embeds: torch.Tensor | None,
    draft_input_embeds_stride0: int,
    draft_input_hidden_states: torch.Tensor,
    draft_input_hidden_states_stride0: int,
    cached_draft_input_ids: torch.Tensor,
    cached_draft_input_ids_stride0: int,
    cached_draft_input_embeds: torch.Tensor | None,
    cached_draft_input_embeds_stride0: int,
    cached_draft_input_embeds_stride1: int,
    cached_target_hidden_states: torch.Tensor,
    cached_target_hidden_states_stride0: int,
    cached_target_hidden_states_stride1: int,
    idx_mapping: torch.Tensor,
    last_token_indices: torch.Tensor,
    query_start_loc: torch.Tensor,
    num_speculative_steps: int,
    hidden_size: int,
    BLOCK_SIZE: int,
    USE_INPUT_EMBEDS: bool,
) -> None:
    """Keep the last inputs of each request for the next step's gap, as many as there are later blocks."""
    bounds, lasts, kept = query_start_loc.tolist(), last_token_indices.tolist(), num_speculative_steps - 1
    for row, state in enumerate(idx_mapping.tolist()):
        if state < 0:
            continue
        end = lasts[row] + 1
        begin = max(end - kept, bounds[row])
        to = slice(kept - (end - begin), kept)
        cached_draft_input_ids[state, to] = draft_input_ids[begin:end].to(cached_draft_input_ids.dtype)
        cached_target_hidden_states[state, to] = draft_input_hidden_states[begin:end]
        if USE_INPUT_EMBEDS and draft_input_embeds is not None and cached_draft_input_embeds is not None:
            cached_draft_input_embeds[state, to] = draft_input_embeds[begin:end]


def shift_input_ids(
    input_ids: torch.Tensor,
    idx_mapping: torch.Tensor,
    query_start_loc: torch.Tensor,
    last_token_indices: torch.Tensor,
    draft_tokens: torch.Tensor,
    BLOCK_SIZE: int,
) -> None:
    """Move each request's tokens left by one and append its drafted token."""
    _shift(input_ids, draft_tokens, idx_mapping, query_start_loc, last_token_indices)


def shift_input_embeds(
    input_embeds: torch.Tensor,
    input_embeds_stride0: int,
    draft_embeds: torch.Tensor,
    draft_embeds_stride0: int,
    idx_mapping: torch.Tensor,
    query_start_loc: torch.Tensor,
    last_token_indices: torch.Tensor,
    hidden_size: int,
    BLOCK_SIZE_Q: int,
    BLOCK_SIZE_H: int,
) -> None:
    """:func:`shift_input_ids` for embeddings."""
    _shift(input_embeds, draft_embeds, idx_mapping, query_start_loc, last_token_indices)


def _shift(
    rows: torch.Tensor, new: torch.Tensor, idx_mapping: torch.Tensor, query_start: torch.Tensor, last_token_indices: torch.Tensor
) -> None:
    bounds, lasts = query_start.tolist(), last_token_indices.tolist()
    for row, state in enumerate(idx_mapping.tolist()):
        if state < 0:
            continue
        start, last = bounds[row], lasts[row]
        rows[start:last] = rows[start + 1 : last + 1].clone()
        rows[last] = new[row].to(rows.dtype)


KERNELS = {
    "_prepare_input_buffers_kernel": prepare_input_buffers,
    "_prepare_input_hidden_states_and_embeddings_kernel": prepare_hidden_states,
    "_pad_trailing_draft_slots_kernel": pad_trailing_slots,
    "_cache_inputs_kernel": cache_inputs,
    "_shift_input_ids_kernel": shift_input_ids,
    "_shift_input_embeds_kernel": shift_input_embeds,
}
"""Kernels of ``vllm.v1.worker.gpu.spec_decode.multi_module_mtp.speculator`` by name."""
