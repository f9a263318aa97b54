"""Inkling's router in torch: gate logits in float32 and the selection of experts.

Expert matrices stay vLLM's (its FusedMoE has a CPU path that takes the router's choice). Source: vLLM 0.32
``models/inkling/nvidia/moe.py``.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .native import layers as native


def linear_with_fp32_out(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """``x @ weight.T`` with float32 products and sums."""
    return F.linear(x.float(), weight.float())


def gate_select(
    logits: torch.Tensor,
    n_gate_experts: int,
    n_routed_experts: int,
    topk: int,
    n_shared_experts: int,
    bias: torch.Tensor | None,
    route_scale: float,
    global_scale: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose experts by sigmoid plus bias and weigh them, with the shared ones ("sinks"), by their raw logits.

    Parameters
    ----------
    logits : Tensor of float32, shape (t, at least routed + shared)
        Columns beyond `n_gate_experts` are padding with no meaning.
    bias : Tensor, shape (e,), or None
        Added for the choice only.

    Returns
    -------
    weights : Tensor of float32, shape (t, k + s)
        Share of each sigmoid in the sum over the chosen and shared ones, times both scales.
    ids : Tensor of int32, shape (t, k + s)
        Chosen experts by falling score, the lower index first in a tie; then the shared ones, numbered behind the routed.
    """
    scale = route_scale if global_scale is None else route_scale * global_scale.float()
    if (found := native.choose(logits, bias, n_routed_experts, topk, n_shared_experts, float(scale))) is not None:
        return found
    routed = logits[:, :n_routed_experts]
    scores = routed.sigmoid()
    if bias is not None:
        scores = scores + bias.float()
    # A stable sort, not topk: topk leaves the order of equals open.
    chosen = scores.sort(dim=-1, descending=True, stable=True).indices[:, :topk]
    shared = torch.arange(n_routed_experts, n_routed_experts + n_shared_experts, device=logits.device)
    ids = torch.cat([chosen, shared.expand(len(logits), -1)], dim=1)
    weights = F.logsigmoid(logits.gather(1, ids)).softmax(dim=-1) * scale
    return weights, ids.int()
