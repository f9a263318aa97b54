"""vLLM's outputs of one request as our clients hear of them: with the prompt's progress between, and with errors they know.

While the prompt is computed the workers are asked how far they are, at most five times a second; afterwards tokens speak for
themselves. A consumer that stops iterating aborts the request within a step. Knows neither HTTP nor what an answer says.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from ..errors import BadRequest, EngineDied, InklingError, RequestFailed
from ..protocol import PrefillProgress
from ..protocol.deaths import cause_of_death, read_tail
from .request_ids import is_of
from .state import Activity, KernelState

PROGRESS_PERIOD_S = 0.2


async def with_progress(state: KernelState, outputs: AsyncIterator[Any], activity: Activity) -> AsyncGenerator[Any]:
    """vLLM's outputs, with prompt progress between them until the first one."""
    queue: asyncio.Queue[Any] = asyncio.Queue()
    pump = asyncio.create_task(_pump(outputs, queue), name=f"pump {activity.request_id}")
    _PUMPS.add(pump)
    pump.add_done_callback(_PUMPS.discard)
    first = True
    try:
        while True:
            try:
                item = await asyncio.wait_for(queue.get(), PROGRESS_PERIOD_S if first else None)
            except TimeoutError:
                if (progress := await prefill_progress(state, activity)) is not None:
                    yield progress
                continue
            if item is None:
                return
            if isinstance(item, Exception):
                raise _named(item, state, activity) from item
            first = False
            activity.note(activity.total_tokens)
            yield item
    finally:
        pump.cancel()


async def _pump(outputs: AsyncIterator[Any], queue: asyncio.Queue[Any]) -> None:
    """Move outputs to a queue, then None or the error. Its own task, because a web server cancels a stream over and over until it
    ends, and vLLM's generator must be left alone to abort the request when it is cancelled."""
    try:
        async for output in outputs:
            queue.put_nowait(output)
        queue.put_nowait(None)
    except Exception as problem:
        queue.put_nowait(problem)


_PUMPS: set[asyncio.Task[None]] = set()
"""Running pumps; the event loop itself holds tasks weakly."""


async def pumped(request_id: str) -> None:
    """Wait until none of a request's output is being moved any more: vLLM has then been told to abort it, if it was cut short."""
    if pumps := [pump for pump in _PUMPS if pump.get_name() == f"pump {request_id}"]:
        await asyncio.wait(pumps)


async def prefill_progress(state: KernelState, activity: Activity) -> PrefillProgress | None:
    """How much of a prompt is computed; None once the engine is gone. Answered between two steps of the engine."""
    if state.llm.errored:
        return None
    (found, *_) = await state.llm.collective_rpc("workbench_progress")
    mine = [done for name, (done, _) in found.items() if is_of(name, activity.request_id)]
    if mine:
        activity.note(mine[0])
    return PrefillProgress(
        done_tokens=activity.done_tokens, total_tokens=activity.total_tokens, waiting=activity.waiting,
        position=queue_position(state, activity), left_s=activity.left_s(state.reuse.prefill_tokens_per_s),
    )  # fmt: skip


def queue_position(state: KernelState, activity: Activity) -> int | None:
    """Requests of ours that wait and came before; None for one that runs. vLLM takes them in this order."""
    if not activity.waiting:
        return None
    return sum(other.waiting and other.began < activity.began for other in state.active.values())


def _named(problem: Exception, state: KernelState, activity: Activity) -> InklingError:
    """The error our clients know for one of vLLM's."""
    from vllm.exceptions import VLLMClientError
    from vllm.v1.engine.exceptions import EngineDeadError

    match problem:
        case EngineDeadError():
            return died(state, activity)
        case VLLMClientError():
            return BadRequest(f"vLLM refused the request: {problem}")
        case InklingError():
            return problem
    return RequestFailed(f"vLLM failed on the request: {problem.__cause__ or problem}")


def died(state: KernelState, activity: Activity) -> EngineDied:
    """The engine's death as its clients hear of it: cause and remedy, as far as the log knows."""
    request = f"{activity.kind} of {activity.total_tokens:,} tokens"
    death = cause_of_death(read_tail(state.log), last_request=request)
    return EngineDied(f"the engine died while answering: {death}. The context is kept", cause=death.kind, remedy=death.remedy)
