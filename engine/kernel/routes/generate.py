"""``POST /workbench/generate``: an answer to a stored context, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request
from fastapi.responses import StreamingResponse

from ...errors import BadRequest
from ...protocol.intervention_sets import check, from_json, salt
from ...protocol.wire import GenerateBody, event_to_json
from .. import generation
from ..admission import Admitted, client_of
from ..dependencies import State
from ..forced import forced
from .route import router
from .sse import stream

routes = router()


@routes.post("/generate")
async def generate(body: GenerateBody, request: Request, state: State) -> StreamingResponse:
    """Events PrefillProgress, Text, Reasoning, ToolCall and, last, Done. Closing the connection aborts the request.

    What can be refused is refused before the first byte, with its status; what fails later is an event ``error``.
    """
    options, request_id = body.sampling.options(), generation.new_request_id(body.request_id)
    if request_id in state.active:
        raise BadRequest(f"request id {request_id!r} is in use: leave it out or choose another", request_id=request_id)
    state.adapters.chosen(body.adapter)  # refused here when there is none of that name
    context = await asyncio.to_thread(state.contexts.get, body.context)
    interventions = [from_json(item) for item in body.interventions]
    check(interventions, state.info, len(context))
    wanted = await asyncio.to_thread(forced, state, context, options)
    admitted = Admitted(state, client := client_of(request))
    try:
        engine_input = await generation.prepare(state, context, answer_tokens=options.max_tokens, cache_salt=salt(interventions))
    except BaseException:
        admitted.leave()
        raise

    async def events() -> AsyncIterator[tuple[str, dict[str, Any]]]:
        try:
            answer = generation.generate(
                state, context, engine_input, options, request_id, wanted, body.adapter, interventions, client
            )
            async for event in answer:
                yield event_to_json(event)
        finally:
            admitted.leave()

    return stream(events(), at_end=admitted.leave)
