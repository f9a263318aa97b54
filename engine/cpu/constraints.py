"""What forces or forbids tokens in the V2 runner: allowed ids, biases, minimum length, bad words, grammars.

Source: vLLM 0.32 ``v1/worker/gpu/sample/{logit_bias,bad_words}.py`` and ``v1/worker/gpu/structured_outputs.py``.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch


def logit_bias(
    logits: torch.Tensor,
    logits_stride: int,
    vocab_size: int,
    expanded_idx_mapping: torch.Tensor,
    num_allowed_token_ids: torch.Tensor,
    allowed_token_ids: torch.Tensor,
    allowed_token_ids_stride: int,
    num_logit_bias: torch.Tensor,
    bias_token_ids: torch.Tensor,
    bias_token_ids_stride: int,
    bias: torch.Tensor,
    bias_stride: int,
    pos: torch.Tensor,
    min_lens: torch.Tensor,
    num_stop_token_ids: torch.Tensor,
    restore_when_all_masked: torch.Tensor,
    stop_token_ids: torch.Tensor,
    stop_token_ids_stride: int,
    BLOCK_SIZE: int,
    LOGITS_BLOCK_SIZE: int,
    CHECK_ALL_MASKED_ROWS: bool,
) -> None:
    """Keep only allowed ids, add biases, forbid stop ids below the minimum length; in place, in this order."""
    for row, state in enumerate(expanded_idx_mapping.tolist()):
        values = logits[row, :vocab_size]
        if allowed := int(num_allowed_token_ids[state]):
            ids = allowed_token_ids[state, :allowed].long()
            kept = values[ids].clone()
            values.fill_(-torch.inf)
            values[ids] = kept
        if biased := int(num_logit_bias[state]):
            values[bias_token_ids[state, :biased].long()] += bias[state, :biased].to(values.dtype)
        stops = int(num_stop_token_ids[state])
        if stops and int(pos[row]) + 1 < int(min_lens[state]):
            ids = stop_token_ids[state, :stops].long()
            before = values[ids].clone()
            values[ids] = -torch.inf
            # A grammar may allow nothing but the end: then the minimum length gives way.
            if CHECK_ALL_MASKED_ROWS and int(restore_when_all_masked[state]) and bool(values.isneginf().all()):
                values[ids] = torch.where(before.isfinite(), before, -torch.inf)


def bad_words(
    logits: torch.Tensor,
    logits_stride: int,
    expanded_idx_mapping: torch.Tensor,
    bad_word_token_ids: torch.Tensor,
    bad_word_token_ids_stride: int,
    bad_word_offsets: torch.Tensor,
    bad_word_offsets_stride: int,
    num_bad_words: torch.Tensor,
    all_token_ids: torch.Tensor,
    all_token_ids_stride: int,
    prompt_len: torch.Tensor,
    total_len: torch.Tensor,
    input_ids: torch.Tensor,
    expanded_local_pos: torch.Tensor,
) -> None:
    """Forbid the last token of each bad word whose other tokens were just said, in place."""
    for row, state in enumerate(expanded_idx_mapping.tolist()):
        words = int(num_bad_words[state])
        if words == 0:
            continue
        back = int(expanded_local_pos[row])
        said = all_token_ids[state, int(prompt_len[state]) : int(total_len[state])].tolist()
        said += input_ids[row - back + 1 : row + 1].tolist()
        offsets, tokens = bad_word_offsets[state, : words + 1].tolist(), bad_word_token_ids[state]
        for begin, end in pairwise(offsets):
            *prefix, last = tokens[begin:end].tolist()
            if len(prefix) <= len(said) and said[len(said) - len(prefix) :] == prefix:
                logits[row, last] = -torch.inf


def grammar_bitmask(
    logits: torch.Tensor,
    logits_stride: int,
    logits_indices: torch.Tensor,
    cu_num_logits: torch.Tensor,
    bitmask: torch.Tensor,
    bitmask_stride: int,
    vocab_size: int,
    MASK_STRIDE: int,
    BLOCK_SIZE: int,
) -> None:
    """Forbid what a grammar's bit mask forbids (bit 0), in place."""
    bounds = cu_num_logits.tolist()
    for mask, place in zip(bitmask, logits_indices.tolist(), strict=False):
        request, offset = divmod(place, MASK_STRIDE)
        row = bounds[request] + offset
        if row < bounds[request + 1]:
            bits = np.unpackbits(mask.contiguous().numpy().view(np.uint8), bitorder="little")[:vocab_size]
            logits[row, : len(bits)].masked_fill_(torch.from_numpy(bits) == 0, -torch.inf)


KERNELS = {
    "sample.logit_bias._bias_kernel": logit_bias,
    "sample.bad_words._bad_words_kernel": bad_words,
    "structured_outputs._apply_grammar_bitmask_kernel": grammar_bitmask,
}
"""Kernels of ``vllm.v1.worker.gpu`` by module and name."""
