"""``POST /workbench/probe``: what of a stored context the prefix cache holds, before anything runs."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel, ConfigDict

from ..dependencies import State
from ..reuse import probe, to_json
from .route import router

routes = router()


class ProbeBody(BaseModel):
    """Body of the request."""

    model_config = ConfigDict(extra="forbid")

    context: str


@routes.post("/probe")
async def ask(body: ProbeBody, state: State) -> dict[str, Any]:
    """Reused, matching and shared tokens; costs hashing of every block, and no step runs meanwhile."""
    context = await asyncio.to_thread(state.contexts.get, body.context)
    return to_json(await probe(state, context))
