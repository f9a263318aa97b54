"""A bound on how much of one request may come from the prefix cache, in the engine's core process.

What a capture is to see must be computed, and no more than that: the tokens before the first one it selects may come from the
cache. vLLM can skip the cache for a request, or use all it finds; between the two a request carries a bound in its ``extra_args``.
Requests without it are served by vLLM's own code.

Private name of vLLM 0.32 used here: ``KVCacheManager.get_computed_blocks`` and in it ``coordinator.find_longest_cache_hit``.
"""

from __future__ import annotations

from typing import Any

ARGUMENT = "workbench_cached_tokens"
"""Most tokens from the cache: a key of ``SamplingParams.extra_args``."""


def install() -> None:
    """Honour the bound in this process; repeatable.

    Raises
    ------
    ImportError, AttributeError
        This vLLM has moved the name.
    """
    from vllm.v1.core.kv_cache_manager import KVCacheManager

    original = KVCacheManager.get_computed_blocks
    if getattr(original, "bounded", False):
        return

    def get_computed_blocks(self: Any, request: Any) -> Any:
        bound = (getattr(request.sampling_params, "extra_args", None) or {}).get(ARGUMENT)
        if bound is None:
            return original(self, request)
        if bound <= 0:
            return self.empty_kv_cache_blocks, 0, 0
        coordinator = self.coordinator
        find = coordinator.find_longest_cache_hit
        # The manager asks for a hit of up to the whole prompt; the answer is cut to whole blocks by the coordinator itself.
        coordinator.find_longest_cache_hit = lambda hashes, most: find(hashes, min(most, bound))
        try:
            return original(self, request)
        finally:
            del coordinator.find_longest_cache_hit

    get_computed_blocks.bounded = True  # type: ignore[attr-defined]
    KVCacheManager.get_computed_blocks = get_computed_blocks
