"""RMS norms of Inkling in torch: computed in float32, rounded where vLLM's kernels round.

Source of the rounding points: vLLM 0.32 ``models/inkling/nvidia/ops/norm.py``.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .native import layers as native


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMS norm over the last axis, weight applied in float32, one rounding at the end."""
    return F.rms_norm(x.float(), (x.shape[-1],), weight.float(), eps).to(x.dtype)


def add_rmsnorm(residual: torch.Tensor, delta: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """``(rmsnorm(residual + delta), residual + delta)``; the sum is rounded to the residual's dtype before the norm."""
    if (found := native.add_norm(residual, delta, weight, eps)) is not None:
        return found
    total = (residual.float() + delta.float()).to(residual.dtype)
    return rmsnorm(total, weight, eps), total


def embed_rmsnorm(
    input_ids: torch.Tensor,
    embed_table: torch.Tensor,
    weight: torch.Tensor | None,
    eps: float,
    chain_weight: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Rows of the table, normed by `weight` if given; with `chain_weight` also the norm of the result by that."""
    rows = F.embedding(input_ids.long(), embed_table)
    if weight is not None:
        rows = rmsnorm(rows, weight, eps)
    return rows if chain_weight is None else (rows, rmsnorm(rows, chain_weight, eps))


def embed_dual_rmsnorm_cat(
    hidden: torch.Tensor,
    hidden_weight: torch.Tensor,
    embed_weight: torch.Tensor,
    eps: float,
    *,
    embeds: torch.Tensor | None = None,
    input_ids: torch.Tensor | None = None,
    embed_table: torch.Tensor | None = None,
    pre_norm_weight: torch.Tensor | None = None,
) -> torch.Tensor:
    """Input of a drafting layer: the normed hidden state beside the normed embedding, shape (t, 2c)."""
    if embeds is None:
        assert input_ids is not None
        assert embed_table is not None
        embeds = F.embedding(input_ids.long(), embed_table)
    if pre_norm_weight is not None:
        embeds = rmsnorm(embeds, pre_norm_weight, eps)
    return torch.cat([rmsnorm(hidden, hidden_weight, eps), rmsnorm(embeds, embed_weight, eps)], dim=-1)
