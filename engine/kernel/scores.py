"""Scoring a stored context's last tokens: one prefill, with interventions or without, and the log-probabilities that came of it.

The prefix cache answers for what lies before the first scored token and no further: tokens that come from it are not seen.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from ..errors import RequestFailed
from ..protocol import Intervention, PrefillProgress, Sampling
from ..protocol.intervention_sets import salt
from .adapters import Loaded
from .contexts import StoredContext
from .following import with_progress
from .generation import prepare, sampling_params
from .intervening import intervened
from .prefix_cap import ARGUMENT
from .state import Activity, KernelState


async def score(
    state: KernelState, context: StoredContext, first: int, request_id: str, interventions: Sequence[Intervention] = (),
    adapter: Loaded | None = None,
) -> AsyncIterator[PrefillProgress | list[float]]:  # fmt: skip
    """Progress, and at the end the natural log-probability of every token from `first` on, 1 to the last.

    By the model alone, or with an adapter.

    Raises
    ------
    EngineDied, RequestFailed
        The engine is gone, or did not compute every token.
    """
    engine_input = await prepare(state, context, answer_tokens=1, cache_salt=salt(interventions))
    activity = Activity(request_id=request_id, kind="score", total_tokens=len(context))
    params = sampling_params(state, Sampling(max_tokens=1, temperature=0.0))
    params.extra_args = {**(params.extra_args or {}), ARGUMENT: first - 1}
    state.active[request_id] = activity
    ids = [int(token) for token in context.token_ids[first:]]
    found: list[float] = []
    try:
        await state.llm.collective_rpc("workbench_score_begin", args=(request_id, first, ids))
        async with intervened(state, request_id, interventions):
            request = adapter.request if adapter else None
            outputs = state.llm.generate(engine_input, params, request_id, lora_request=request)
            async with aclosing(with_progress(state, outputs, activity)) as items:
                async for item in items:
                    if isinstance(item, PrefillProgress):
                        yield item
    finally:
        state.active.pop(request_id, None)
        if not state.llm.errored:
            ending = asyncio.ensure_future(state.llm.collective_rpc("workbench_score_end", args=(request_id,)))
            (found, *_) = await asyncio.shield(ending)
    if len(found) != len(ids) or any(math.isnan(value) for value in found):
        raise RequestFailed("the engine did not compute every token that was to be scored: try again", request_id=request_id)
    yield found
