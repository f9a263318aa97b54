"""What of vLLM's Inkling is replaced without a GPU, name by name, and installing it.

Projections, experts, KV-cache specs, short-conv state, weight loading, towers and the multimodal processor stay vLLM's own.
"""

from __future__ import annotations

from typing import Any

from . import activation, head, moe, norms, qkvr, sconv
from .attention import RelativeAttention
from .replacing import lookup, replace

_INKLING = "vllm.models.inkling.nvidia"


def _no_lamport(*args: object, **kwargs: object) -> None:
    """There is no fused collective: layers then take vLLM's own path of plain collectives."""


def _attn_backend(self: Any) -> Any:
    from .backend import RelativeAttentionBackend

    return RelativeAttentionBackend


def replacements() -> dict[str, Any]:
    """Every name that is replaced, with what replaces it."""
    drafting = "vllm.v1.worker.gpu.spec_decode.speculator:DraftModelSpeculator.sample_draft"
    return {
        drafting: head.sample_draft(lookup(drafting)[2]),
        f"{_INKLING}.ops.norm:rmsnorm": norms.rmsnorm,
        f"{_INKLING}.ops.norm:add_rmsnorm": norms.add_rmsnorm,
        f"{_INKLING}.ops.norm:embed_rmsnorm": norms.embed_rmsnorm,
        f"{_INKLING}.ops.norm:embed_dual_rmsnorm_cat": norms.embed_dual_rmsnorm_cat,
        f"{_INKLING}.ops.sconv:fused_sconv": sconv.fused_sconv,
        f"{_INKLING}.ops.sconv:sconv_seq_metadata": sconv.sconv_seq_metadata,
        f"{_INKLING}.ops.silu_and_mul:silu_and_mul_triton": activation.silu_and_mul,
        f"{_INKLING}.ops.silu_and_mul:sink_silu_mul_epilogue": activation.sink_silu_mul,
        f"{_INKLING}.ops.qkvr_prep:fused_qkvr_prep": qkvr.fused_qkvr_prep,
        f"{_INKLING}.ops.fa4_rel_attention:_INKLING_FA4_REL_ATTENTION_KERNEL": RelativeAttention(),
        f"{_INKLING}.ops.lamport:initialize_lamport_rs_conv": _no_lamport,
        f"{_INKLING}.ops.lamport:get_lamport_rs_conv": _no_lamport,
        f"{_INKLING}.moe:_linear_with_fp32_out": moe.linear_with_fp32_out,
        f"{_INKLING}.moe:inkling_gate_select": moe.gate_select,
        f"{_INKLING}.logits_processor:InklingLogitsProcessor._base_forward": head.base_forward,
        f"{_INKLING}.mtp:InklingMTP.compute_logits": head.draft_logits,
        f"{_INKLING}.mtp:InklingMTP.get_top_tokens": head.draft_top,
        f"{_INKLING}.attention:InklingAttention.get_attn_backend": _attn_backend,
        f"{_INKLING}.sconv_swa_attn:InklingConvState.__init__": _any_dtype(),
    }


def _any_dtype() -> Any:
    """``InklingConvState.__init__`` for any dtype: vLLM asserts bfloat16, which only its kernels need."""
    conv_state, _, original = lookup(f"{_INKLING}.sconv_swa_attn:InklingConvState.__init__")
    _, _, current_config = lookup(f"{_INKLING}.sconv_swa_attn:get_current_vllm_config")
    if getattr(original, "any_dtype", False):
        return original
    import torch

    def __init__(self: Any, **sizes: Any) -> None:
        model = current_config().model_config
        dtype = model.dtype
        # Nothing is allocated in there; the dtype is only noted for the cache spec, which reads it later.
        model.dtype = torch.bfloat16
        try:
            original(self, **sizes)
        finally:
            model.dtype = dtype
        self._dtype = dtype

    __init__.any_dtype = True  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{conv_state.__name__}.__init__"
    return __init__


def install() -> None:
    """Replace the kernels of vLLM's Inkling in this process; before the model is built.

    Raises
    ------
    KernelMoved
        vLLM no longer has one of the names; nothing has been replaced then.
    """
    replace(replacements(), rebind_in="vllm.models.inkling")
