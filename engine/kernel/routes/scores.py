"""``POST /workbench/scores``: log-probabilities of a stored context's last tokens, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request
from fastapi.responses import StreamingResponse

from ...errors import BadRequest
from ...protocol.intervention_sets import check, from_json
from ...protocol.wire import ScoreBody, event_to_json
from .. import generation
from ..admission import Admitted, client_of
from ..dependencies import State
from ..scores import score
from .route import router
from .sse import stream

routes = router()


@routes.post("/scores")
async def scores(body: ScoreBody, request: Request, state: State) -> StreamingResponse:
    """Events PrefillProgress and, last, Scores: ``{"logprobs": [...]}``, one per token from `first` on.

    Closing the connection ends the work. What can be refused is refused before the first byte.
    """
    context = await asyncio.to_thread(state.contexts.get, body.context)
    adapter = state.adapters.chosen(body.adapter.name, body.adapter.id) if body.adapter else None
    interventions = [from_json(item) for item in body.interventions]
    check(interventions, state.info, len(context))
    if body.first >= len(context):
        raise BadRequest(
            f"first is {body.first:,}: the first token to score, 1 to {len(context) - 1:,} of this context", first=body.first
        )
    admitted = Admitted(state, client_of(request))

    async def events() -> AsyncIterator[tuple[str, dict[str, Any]]]:
        try:
            async for item in score(state, context, body.first, generation.new_request_id(), interventions, adapter):
                yield ("Scores", {"logprobs": item}) if isinstance(item, list) else event_to_json(item)
        finally:
            admitted.leave()

    return stream(events(), at_end=admitted.leave)
