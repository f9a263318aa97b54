"""``GET /workbench/status``: what is going on; one snapshot, or a stream of them for who accepts ``text/event-stream``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Header
from fastapi.responses import JSONResponse, Response

from ..dependencies import State
from ..state import KernelState
from .route import router
from .sse import stream

routes = router()

PERIOD_S = 0.5

_BY_DEPTH = "vllm:spec_decode_num_accepted_tokens_per_pos_total"

_GAUGES = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv_cache_used",
    "vllm:prompt_tokens_total": "prompt_tokens",
    "vllm:generation_tokens_total": "generated_tokens",
    "vllm:prefix_cache_queries_total": "prefix_queried_tokens",
    "vllm:prefix_cache_hits_total": "prefix_hit_tokens",
    "vllm:spec_decode_num_drafts_total": "draft_steps",
    "vllm:spec_decode_num_draft_tokens_total": "drafted_tokens",
    "vllm:spec_decode_num_accepted_tokens_total": "accepted_tokens",
}


@routes.get("/status")
async def status(state: State, accept: Annotated[str, Header()] = "") -> Response:
    """Running and waiting requests, prompt progress, KV cache use (0 to 1), prefix-cache and draft counts since the start."""
    if "text/event-stream" not in accept:
        return JSONResponse(snapshot(state))
    return stream(_follow(state))


def snapshot(state: KernelState) -> dict[str, Any]:
    """The engine's numbers as vLLM counts them, and our own requests one by one."""
    from prometheus_client import REGISTRY

    values: dict[str, Any] = dict.fromkeys(_GAUGES.values(), 0.0)
    depths: dict[int, float] = {}
    for metric in REGISTRY.collect():
        for sample in metric.samples:
            if sample.name in _GAUGES:
                values[_GAUGES[sample.name]] += sample.value
            elif sample.name == _BY_DEPTH:
                depth = int(sample.labels["position"])
                depths[depth] = depths.get(depth, 0.0) + sample.value
    alive = not state.llm.errored
    values["accepted_by_depth"] = [depths[depth] for depth in sorted(depths)]
    return values | {
        "alive": alive, "stopping": state.stopping.is_set(), "adapters": list(state.adapters.support().loaded),
        "requests": [item.to_json() for item in state.active.values()],
    }  # fmt: skip


async def _follow(state: KernelState) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    while not state.stopping.is_set():
        yield "Status", snapshot(state)
        try:
            await asyncio.wait_for(state.stopping.wait(), PERIOD_S)
        except TimeoutError:
            continue
    yield "Status", snapshot(state)
