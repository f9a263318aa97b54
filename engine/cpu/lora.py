"""Adapters (LoRA) on Inkling without a GPU: expert matrices and projections with a low-rank addition per request.

With adapters switched on, vLLM forces its Triton kernel for experts whatever the device, and its torch operations for the other
projections take the last adapter for requests that have none (index -1). Both are replaced: an expert's tokens are multiplied once
with its matrices, then the tokens of each adapter get that adapter's product; other rows are never touched, so a request without
an adapter computes exactly what it would compute alone.

The stacked matrices belong to vLLM's adapter manager: ``[slots, …]``, zero beyond an adapter's rank.
Source: vLLM 0.32 ``fused_moe/experts/triton_moe.py``, ``lora/ops/torch_ops/lora_ops.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

from .replacing import replace

NONE = -1
"""Slot of a token without an adapter."""


def rows_by_slot(slots: torch.Tensor) -> Iterator[tuple[int, Any]]:
    """Every adapter slot that occurs, with the index of its rows; rows without an adapter are in none."""
    found = slots.unique().tolist()
    for slot in found:
        if slot != NONE:
            yield slot, slice(None) if len(found) == 1 else (slots == slot).nonzero()[:, 0]


def shrink(inputs: torch.Tensor, lora_a: torch.Tensor, output: torch.Tensor, slots: torch.Tensor, scaling: float = 1.0) -> None:
    """``output[t] = scaling·A[slot of t] @ inputs[t]``, zero without an adapter; in place (``bgmv_shrink``).

    Parameters
    ----------
    inputs : Tensor, shape (t, c)
    lora_a : Tensor, shape (slots, [1,] r, c)
    output : Tensor of float32, shape (t, at least r)
    slots : Tensor, shape (t,)
    """
    matrices = lora_a.view(len(lora_a), *lora_a.shape[-2:])
    part = output[:, : matrices.shape[1]]
    part.zero_()
    for slot, rows in rows_by_slot(_checked(slots, inputs)):
        part[rows] = scaling * F.linear(inputs[rows].to(output.dtype), matrices[slot].to(output.dtype))


def expand(inputs: torch.Tensor, lora_b: torch.Tensor, output: torch.Tensor, slots: torch.Tensor, add_inputs: bool = True) -> None:
    """``output[t] += B[slot of t] @ inputs[t]`` over the columns that both have; in place (``bgmv_expand``)."""
    expand_slice(inputs, lora_b, output, slots, 0, min(lora_b.shape[-2], output.shape[1]), add_inputs)


def expand_slice(
    inputs: torch.Tensor,
    lora_b: torch.Tensor,
    output: torch.Tensor,
    slots: torch.Tensor,
    slice_offset: int,
    slice_size: int,
    add_inputs: bool = True,
) -> None:
    """:func:`expand` into columns `slice_offset` to `slice_offset` + `slice_size` (``bgmv_expand_slice``)."""
    matrices = lora_b.view(len(lora_b), *lora_b.shape[-2:])
    part = output[:, slice_offset : slice_offset + slice_size]
    if not add_inputs:
        part.zero_()
    for slot, rows in rows_by_slot(_checked(slots, inputs)):
        delta = F.linear(inputs[rows], matrices[slot, :slice_size].to(inputs.dtype))
        part[rows] += delta.to(output.dtype)


def _checked(slots: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    if len(slots) != len(inputs) and bool((slots != NONE).any()):
        raise ValueError(f"{len(inputs)} rows and adapters of {len(slots)}: which row has which adapter is not known")
    return slots[: len(inputs)]


def apply_experts(
    self: Any,
    output: torch.Tensor,
    hidden_states: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    activation: Any,
    global_num_experts: int,
    expert_map: torch.Tensor | None,
    a1q_scale: torch.Tensor | None,
    a2_scale: torch.Tensor | None,
    workspace13: torch.Tensor,
    workspace2: torch.Tensor,
    expert_tokens_meta: Any,
    apply_router_weight_on_input: bool,
) -> None:
    """Stands in for ``TritonExperts.apply``: SwiGLU experts in the model's dtype, with each token's adapter.

    Parameters
    ----------
    output, hidden_states : Tensor, shape (t, c)
    w1 : Tensor, shape (e, 2·width, c)
        Rows of gate, then of up.
    w2 : Tensor, shape (e, c, width)
    topk_weights, topk_ids : Tensor, shape (t, k)

    Raises
    ------
    NotImplementedError
        Quantised matrices, another activation or experts spread over ranks: none of them occurs without a GPU.
    """
    if expert_map is not None or apply_router_weight_on_input or self.quant_dtype is not None or activation.name != "SILU":
        raise NotImplementedError("adapters without a GPU: whole, unquantised SwiGLU experts only")
    context = self._lora_context
    slots = _slots(context, len(hidden_states)) if context else None
    output.zero_()
    flat, per_token = topk_ids.flatten(), topk_ids.shape[1]
    order = flat.argsort(stable=True)
    weights = topk_weights.flatten()[order].to(output.dtype)[:, None]
    bounds = torch.bincount(flat, minlength=len(w1)).cumsum(0).tolist()
    tokens, start = order // per_token, 0
    for expert, stop in enumerate(bounds):
        if start == stop:
            continue
        rows, span = tokens[start:stop], slice(start, stop)
        x = hidden_states[rows]
        present = () if slots is None else tuple(rows_by_slot(slots[rows]))
        gate_up = F.linear(x, w1[expert])
        for slot, mine in present:
            gate_up[mine] += _delta(context.w13_lora_a_stacked, context.w13_lora_b_stacked, slot, expert, x[mine])
        gate, up = gate_up.chunk(2, dim=1)
        inner = F.silu(gate) * up
        result = F.linear(inner, w2[expert])
        for slot, mine in present:
            result[mine] += _delta(context.w2_lora_a_stacked, context.w2_lora_b_stacked, slot, expert, inner[mine])
        output.index_add_(0, rows, result * weights[span])
        start = stop


def _slots(context: Any, tokens: int) -> torch.Tensor | None:
    """Adapter slot of each token; None when no token has one."""
    slots = context.punica_wrapper.token_lora_indices[:tokens]
    return slots if bool((slots != NONE).any()) else None


def _delta(
    stacked_a: tuple[torch.Tensor, ...], stacked_b: tuple[torch.Tensor, ...], slot: int, expert: int, x: torch.Tensor
) -> torch.Tensor:
    """What an adapter adds to an expert's outputs, the parts of a fused matrix side by side."""
    parts = []
    for all_a, all_b in zip(stacked_a, stacked_b, strict=True):
        # A matrix that all experts share is stored once.
        a, b = all_a[slot, min(expert, all_a.shape[1] - 1)], all_b[slot, min(expert, all_b.shape[1] - 1)]
        parts.append(F.linear(F.linear(x, a), b))
    return torch.cat(parts, dim=1)


def replacements() -> dict[str, Any]:
    """Every name that is replaced, with what replaces it."""
    operations = "vllm.lora.ops.torch_ops.lora_ops"
    return {
        f"{operations}:bgmv_shrink": shrink,
        f"{operations}:bgmv_expand": expand,
        f"{operations}:bgmv_expand_slice": expand_slice,
        "vllm.model_executor.layers.fused_moe.experts.triton_moe:TritonExperts.apply": apply_experts,
    }


def install() -> None:
    """Replace the adapters' kernels in this process, a worker; before the model is built.

    Raises
    ------
    KernelMoved
        vLLM no longer has one of the names; nothing has been replaced then.
    """
    replace(replacements(), rebind_in="vllm.lora")
