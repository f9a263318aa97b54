"""SwiGLU of Inkling's dense MLP and of its shared experts, for rows whose gate and up values alternate."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .native import layers as native


def silu_and_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """``silu(gate)·up`` of rows ``[gate 0, up 0, gate 1, …]``, in float32, rounded once."""
    if (found := native.gated(gate_up, None, 1)) is not None:
        return found
    gate, up = gate_up.float().unflatten(-1, (-1, 2)).unbind(-1)
    return (F.silu(gate) * up).to(gate_up.dtype)


def sink_silu_mul(
    raw: torch.Tensor,
    alphas: torch.Tensor,
    gammas: torch.Tensor,
    ratios: torch.Tensor,
    n_experts: int,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """SwiGLU of all shared experts at once, each scaled by its router weight.

    Parameters
    ----------
    raw : Tensor, shape (t, s·2c)
        Alternating gate and up values per shared expert.
    alphas, ratios : Tensor, shape (s,)
        Scale before and after the activation.
    gammas : Tensor, shape (t, s)
        Router weight of each shared expert.
    """
    if out_dtype == torch.float32 and (found := native.gated(raw, (alphas, gammas, ratios), n_experts)) is not None:
        return found
    gate, up = raw.float().unflatten(-1, (n_experts, -1, 2)).unbind(-1)
    scale = alphas[:, None]
    return (F.silu(gate * scale) * (up * scale) * (gammas * ratios)[..., None]).flatten(1).to(out_dtype)
