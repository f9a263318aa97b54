"""What the torch kernels cannot do, by name, for an API to refuse before a request reaches a worker.

A kernel without an implementation is a plain function there: the first request that launches it would end the engine. Names are
those of vLLM's sampling parameters and engine features.
"""

from __future__ import annotations

_NO_KERNEL = "its kernels have no implementation without a GPU in this version; use a GPU engine for it"

SAMPLING = {
    "thinking_token_budget": _NO_KERNEL,
    "trace_replay": _NO_KERNEL,
    "return_sampling_mask": _NO_KERNEL,
    "watermark": _NO_KERNEL,
}
"""Sampling parameters and request fields that are refused."""

ENGINE = {
    "speculative_config": _NO_KERNEL,
    "decode_context_parallel_size": "context parallelism is not available without a GPU",
    "prefill_context_parallel_size": "context parallelism is not available without a GPU",
    "enable_prompt_embeds": _NO_KERNEL,
    "pipeline_parallel_size": "pipeline parallelism was not tried without a GPU",
    "kv_transfer_config": "moving a cache between engines was not tried without a GPU",
}
"""Engine arguments that are refused."""
