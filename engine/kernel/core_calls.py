"""What the kernel asks vLLM's engine core directly, between two of its steps: what of a prompt the prefix cache holds.

The engine core answers utility calls by method name; our plugin adds these methods to its class, in its own process only. Nothing
is scheduled, allocated or touched: the blocks keep their age. Media are known to the cache by name and place, so no picture is
decoded.
"""

from __future__ import annotations

import sys
from typing import Any

CORE = "vllm.v1.engine.core"
NAME = "workbench_probe"


def install() -> None:
    """Add the methods in a process that runs vLLM's engine core; nothing elsewhere."""
    core = sys.modules.get(CORE)
    if core is not None:
        setattr(core.EngineCore, NAME, workbench_probe)


def workbench_probe(self: Any, token_ids: bytes, media: list[list[Any]]) -> list[int]:
    """Tokens of a prompt that would be reused.

    Parameters
    ----------
    token_ids : bytes
        uint32, little endian.
    media : list of [kind, name, start, tokens]
        In order; `name` is what the cache knows the item by.

    Returns
    -------
    list of int
        Reused tokens, tokens whose global keys and values are cached, and the granularity of hits. Costs hashing of every block,
        during which no step runs.
    """
    import numpy as np
    from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
    from vllm.sampling_params import SamplingParams
    from vllm.v1.request import Request

    manager = self.scheduler.kv_cache_manager
    if self.request_block_hasher is None or not manager.enable_caching:
        return [0, 0, 1]
    features = [
        MultiModalFeatureSpec(data=None, modality=kind, identifier=name, mm_position=PlaceholderRange(offset=start, length=tokens))
        for kind, name, start, tokens in media
    ]
    request = Request(
        request_id="workbench-probe", prompt_token_ids=np.frombuffer(token_ids, dtype="<u4").tolist(),
        sampling_params=SamplingParams(max_tokens=1), pooling_params=None, mm_features=features or None,
        block_hasher=self.request_block_hasher,
    )  # fmt: skip
    coordinator = manager.coordinator
    _, cached, uncached = coordinator.find_longest_cache_hit(request.block_hashes, request.num_tokens - 1)
    return [int(cached), int(cached + uncached), int(coordinator.scheduler_block_size)]
