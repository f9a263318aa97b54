"""Sizes that vLLM checks in its workers only, where one request over them ends the whole engine: checked in the API instead.

The V2 runner keeps fixed tables for allowed ids, biases, stop ids and bad words, and raises in the worker when a request does not
fit (``v1/worker/gpu/sample/{logit_bias,bad_words}.py``). Here the same numbers, read from vLLM, are checked where it validates a
request: every route answers 400 and names the field. See docs/upstream.md; a test fails when vLLM checks them itself.
"""

from __future__ import annotations

from typing import Any


def install() -> None:
    """Add the checks to vLLM's validation in this process, the API's; repeatable."""
    from vllm.sampling_params import SamplingParams

    verify: Any = SamplingParams.verify
    tokenize: Any = SamplingParams.update_from_tokenizer
    if getattr(verify, "checks_sizes", False):
        return

    def verify_sizes(self: Any, *args: Any, **kwargs: Any) -> None:
        verify(self, *args, **kwargs)
        check_sizes(self)

    def update_from_tokenizer(self: Any, tokenizer: Any) -> None:
        tokenize(self, tokenizer)
        check_completed(self)

    verify_sizes.checks_sizes = True  # type: ignore[attr-defined]
    SamplingParams.verify = verify_sizes
    SamplingParams.update_from_tokenizer = update_from_tokenizer


def check_sizes(params: Any) -> None:
    """Raise vLLM's validation error, naming the field, when `params` do not fit the worker's tables."""
    from vllm.v1.worker.gpu.sample import logit_bias

    _refuse("allowed_token_ids", len(params.allowed_token_ids or ()), logit_bias.MAX_NUM_ALLOWED_TOKEN_IDS)
    _refuse("logit_bias", len(params.logit_bias or ()), logit_bias.MAX_NUM_LOGIT_BIAS_TOKENS)


def check_completed(params: Any) -> None:
    """As :func:`check_sizes`, for what is known once the checkpoint's stop ids are added and bad words are tokenized."""
    import vllm.envs
    from vllm.v1.worker.gpu.sample import logit_bias

    if params.min_tokens > 0:
        _refuse("stop_token_ids", len(params.all_stop_token_ids), logit_bias.MAX_NUM_STOP_TOKEN_IDS)
    _refuse("bad_words", sum(map(len, params.bad_words_token_ids or ())), vllm.envs.VLLM_MAX_BAD_WORDS_TOTAL_TOKENS)


def _refuse(name: str, count: int, most: int) -> None:
    from vllm.exceptions import VLLMValidationError

    if count > most:
        raise VLLMValidationError(f"{name} has {count:,} tokens, this engine takes at most {most:,}", parameter=name, value=count)
