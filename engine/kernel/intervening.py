"""An intervened request from its announcement to its end, seen from the kernel's API process.

The workers are told before vLLM sees the request, and told again when vLLM has forgotten it: whatever ends a request (its last
token, a client that leaves, a cancelled job) it is aborted first, so that no step of it can run, and fill the cache, without its
interventions. When the engine is dead there is nothing to undo. Knows no seam (:mod:`engine.kernel.interventions`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ..protocol import Intervention
from ..protocol.intervention_sets import to_json
from .endings import finish
from .following import pumped

if TYPE_CHECKING:
    from .state import KernelState


@asynccontextmanager
async def intervened(state: KernelState, request_id: str, items: Sequence[Intervention]) -> AsyncIterator[None]:
    """Have `items` act on the request called `request_id`, which runs inside the block."""
    if not items:
        yield
        return
    try:
        await state.llm.collective_rpc("workbench_intervene_begin", args=(request_id, [to_json(item) for item in items]))
        yield
    finally:
        # A web server cancels a stream over and over until it ends, and this must happen all the same.
        await finish(_end(state, request_id))


async def _end(state: KernelState, request_id: str) -> None:
    if state.llm.errored:
        return
    await pumped(request_id)
    await state.llm.abort(request_id)
    # Answered after the abort and after any step that was under way: the engine takes messages in order.
    await state.llm.collective_rpc("workbench_intervene_end", args=(request_id,))
