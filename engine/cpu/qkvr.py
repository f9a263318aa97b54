"""From the fused projection to normed queries, stored keys and values, and relative logits.

Order and rounding follow vLLM's kernel: short convolution of keys and values, RMS norm of queries and keys per head, and in global
layers the logarithmic factor on queries and relative logits alike. Any head size and any `d_rel`.
Source: vLLM 0.32 ``models/inkling/nvidia/ops/qkvr_prep.py``.
"""

from __future__ import annotations

import torch

from .native import layers as native
from .norms import rmsnorm
from .sconv import convolve


def fused_qkvr_prep(
    qkvr: torch.Tensor,
    k_weight: torch.Tensor,
    v_weight: torch.Tensor,
    q_norm_weight: torch.Tensor,
    k_norm_weight: torch.Tensor,
    rel_proj: torch.Tensor,
    eps: float,
    num_q_heads: int,
    num_kv_heads: int,
    head_dim: int,
    d_rel: int,
    conv_cache: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    positions: torch.Tensor,
    conv_block_table: torch.Tensor,
    seq_idx: torch.Tensor,
    conv_slot_mapping: torch.Tensor,
    query_start: torch.Tensor,
    attention_slot_mapping: torch.Tensor,
    off_k: int,
    off_v: int,
    conv_block_size: int,
    log_scaling: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries, shape (t, h·c), and relative logits, shape (t, h, distance); keys and values go to their pages.

    `conv_block_size` is vLLM's constant and is not used; see :mod:`.sconv`.
    """
    rows, dtype = qkvr.shape[0], qkvr.dtype
    if off_v != off_k + head_dim:
        raise NotImplementedError(f"key and value streams are expected side by side in the conv cache, not at {off_k} and {off_v}")
    step = (positions, conv_block_table, seq_idx, conv_slot_mapping, query_start)
    found = native.prepare(
        qkvr, (k_weight, v_weight, q_norm_weight, k_norm_weight), rel_proj, eps, num_q_heads, num_kv_heads, head_dim, conv_cache,
        key_cache, value_cache, step, attention_slot_mapping, off_k, log_scaling,
    )  # fmt: skip
    if found is not None:
        return found
    q_width, kv_width = num_q_heads * head_dim, num_kv_heads * head_dim
    queries, keys, values, relative = qkvr.split([q_width, kv_width, kv_width, num_q_heads * d_rel], dim=1)

    # One convolution for both: per head, keys and then values, as they lie in the cache.
    both = torch.cat([keys.unflatten(1, (num_kv_heads, head_dim)), values.unflatten(1, (num_kv_heads, head_dim))], dim=-1)
    taps = torch.cat([k_weight.unflatten(0, (num_kv_heads, head_dim)), v_weight.unflatten(0, (num_kv_heads, head_dim))], dim=1)
    mixed = convolve(
        both.flatten(1), taps.flatten(0, 1), conv_cache, off_k, 2 * head_dim, *step,
    )  # fmt: skip
    mixed = mixed.to(dtype).unflatten(1, (num_kv_heads, 2 * head_dim))
    keys = rmsnorm(mixed[..., :head_dim], k_norm_weight, eps)
    _store(keys, key_cache, attention_slot_mapping[:rows])
    _store(mixed[..., head_dim:], value_cache, attention_slot_mapping[:rows])

    queries = rmsnorm(queries.unflatten(1, (num_q_heads, head_dim)), q_norm_weight, eps)
    logits = torch.matmul(relative.unflatten(1, (num_q_heads, d_rel)).float(), rel_proj.float()).to(dtype)
    if log_scaling is not None:
        tau = log_scaling[:rows].float().view(rows, 1, 1)
        queries, logits = (queries.float() * tau).to(dtype), (logits.float() * tau).to(dtype)
    return queries.flatten(1), logits


def _store(values: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor) -> None:
    """Write rows (t, h, c) to their places in pages ``[blocks, N, h, c]``; negative slots are padding."""
    slots = slots.long()
    valid = slots >= 0
    if not bool(valid.all()):
        slots, values = slots[valid], values[valid]
    page = cache.shape[1]
    cache[slots // page, slots % page] = values.to(cache.dtype)
