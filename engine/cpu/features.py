"""What the torch kernels cannot do, by name, for an API to refuse before a request reaches a worker.

A kernel without an implementation is a plain function there: the first request that launches it would end the engine. So every
Triton kernel of the V2 runner is replaced, belongs to another kind of model, or is listed here with the feature that launches it;
a test reads vLLM's source and holds that nothing is left. Names are those of vLLM's request fields and engine arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NO_KERNEL = "its kernels have no implementation without a GPU in this version; use a GPU engine for it"

SAMPLING = {"watermarking": _NO_KERNEL, "prompt_embeds": _NO_KERNEL}
"""Request fields that are refused."""

WITH_DRAFTS = {"logprob_token_ids": "vLLM does not report chosen ids' log-probabilities while it verifies drafted tokens"}
"""Request fields that are refused, on any machine, by an engine that drafts: it would ignore them without a word."""

ENGINE = {
    "watermark_config": _NO_KERNEL,
    "enable_batch_sharded_sampling": _NO_KERNEL,
    "decode_context_parallel_size": "context parallelism is not available without a GPU",
    "prefill_context_parallel_size": "context parallelism is not available without a GPU",
    "enable_prompt_embeds": _NO_KERNEL,
    "pipeline_parallel_size": "pipeline parallelism was not tried without a GPU",
    "kv_transfer_config": "moving a cache between engines was not tried without a GPU",
    "kv_offloading_size": "moving a cache out of its pages was not tried with Inkling's",
}
"""Engine arguments that are refused when they differ from vLLM's default."""

DRAFTING = frozenset({
    "method", "model", "num_speculative_tokens", "draft_sample_method", "rejection_sample_method", "synthetic_acceptance_rates",
    "synthetic_acceptance_length",
})  # fmt: skip
"""Settings of ``speculative_config`` that the kernels here know; its method must be ``mtp``, the checkpoint's own blocks."""

DRAFT_METHOD = "only the checkpoint's own multi-token-prediction blocks draft without a GPU: method 'mtp'"

KERNELS_OF: dict[str, tuple[str, ...]] = {
    "watermark_config": ("sample.watermark._repeated_context_mask_kernel", "sample.watermark._philox_gumbel_kernel"),
    "enable_batch_sharded_sampling": tuple(f"sample.batch_shard.{name}" for name in (
        "_build_shard_plan_kernel", "_pack_sampler_output_kernel", "_unpack_gathered_output_kernel", "_pack_logprobs_kernel",
        "_unpack_logprobs_kernel",
    )),
    "decode_context_parallel_size": ("cp_utils._dcp_local_seq_lens_kernel",),
    "enable_prompt_embeds": ("model_states.prompt_embeds._apply_prompt_embeds_kernel",),
    "speculative_config.method": (
        "spec_decode.standalone_ar.speculator._prepare_prefill_inputs_kernel",
        "spec_decode.dflash2.speculator._selector_walk_kernel", "spec_decode.dflash2.speculator._cache_draft_logits_kernel",
        "spec_decode.dflash.speculator._prepare_dflash_inputs_kernel",
        "spec_decode.ngram.speculator._ngram_scan_kernel", "spec_decode.ngram.speculator._ngram_finalize_kernel",
    ),
    "speculative_config.enable_adaptive_verification": tuple(f"spec_decode.acceptance_estimator.{name}" for name in (
        "_accumulate_kernel", "_refit_kernel", "_local_max_sumexp_kernel", "_predict_kernel",
    )),
}  # fmt: skip
"""Triton kernels below ``vllm.v1.worker.gpu`` that are not replaced, by the refused argument that launches them."""


def refused_option(args: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first engine argument of `args` that the kernels here cannot serve, and why; None when all can."""
    for name, reason in ENGINE.items():
        if name in args and args[name] != defaults.get(name):
            return name, reason
    drafting = args.get("speculative_config")
    if drafting is None:
        return None
    for name in drafting:
        if name not in DRAFTING and drafting[name] not in (None, False):
            return f"speculative_config.{name}", "it was not tried without a GPU"
    return None if drafting.get("method") == "mtp" else ("speculative_config.method", DRAFT_METHOD)
