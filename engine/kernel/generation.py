"""One answer: a stored context to vLLM's engine and back as events.

Before anything runs, vLLM's own renderer expands the media markers, and its ids are compared with the ones that were shown. What
was forced of the answer (:mod:`.forced`) holds the sampling and is looked at once more when it is there. This module knows no HTTP.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import numpy as np

from ..errors import ContextTooLong, RenderMismatch, RequestFailed
from ..protocol import Done, Event, Intervention, PrefillProgress, Reply, Sampling, Timings, TokenLogprob, Usage
from ..protocol.intervention_sets import describe, to_json
from .contexts import StoredContext
from .following import PROGRESS_PERIOD_S, with_progress
from .forced import Forced, check_reply
from .intervening import intervened
from .media import vllm_prompt
from .parsing import ReplyParser
from .reuse import ask_core
from .state import Activity, KernelState

RANDOM_WEIGHTS = "Random weights: this checkpoint was never trained, the answer is noise."


def new_request_id(wanted: str | None = None) -> str:
    """The caller's id, or a fresh one."""
    return wanted or f"wb-{uuid.uuid4().hex}"


async def prepare(state: KernelState, context: StoredContext, *, answer_tokens: int, cache_salt: str | None = None) -> Any:
    """vLLM's engine input for a context, checked against what was shown.

    Raises
    ------
    ContextTooLong
        The answer does not fit behind the context.
    RenderMismatch
        vLLM would run other ids.
    """
    limit = state.info.limits.context_tokens
    if len(context) + answer_tokens > limit:
        raise ContextTooLong(
            f"{len(context):,} tokens and an answer of up to {answer_tokens:,} are over this engine's {limit:,}: "
            f"ask for at most {max(0, limit - len(context)):,}, or remove parts",
            tokens=len(context), max_tokens=answer_tokens, limit_tokens=limit,
        )  # fmt: skip
    prompt = await asyncio.to_thread(vllm_prompt, context, state.blobs, cache_salt=cache_salt)
    try:
        (engine_input,) = await state.llm.renderer.render_cmpl_async([prompt])
    except ValueError as problem:
        raise RenderMismatch(f"vLLM cannot expand this context's media: {problem}", context=context.id) from problem
    check_ids(context, engine_input["prompt_token_ids"])
    return engine_input


def check_ids(context: StoredContext, ids: list[int]) -> None:
    """Raise RenderMismatch, naming the first difference, unless `ids` are the context's."""
    given = np.asarray(ids, dtype=np.uint32)
    if np.array_equal(given, context.token_ids):
        return
    shared = min(len(given), len(context))
    differ = np.flatnonzero(given[:shared] != context.token_ids[:shared])
    at = int(differ[0]) if len(differ) else shared
    raise RenderMismatch(
        f"vLLM would run other tokens than were shown: {len(given):,} instead of {len(context):,}, first difference at {at:,}",
        context=context.id, t=at,
    )  # fmt: skip


def sampling_params(state: KernelState, options: Sampling, tag: str | None = None) -> Any:
    """vLLM's sampling parameters for `options`, held to the grammar `tag`. Ids only: text is our parser's business."""
    from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

    return SamplingParams(
        max_tokens=options.max_tokens, temperature=options.temperature, top_p=options.top_p, top_k=options.top_k,
        seed=options.seed, logprobs=options.logprobs, detokenize=False, output_kind=RequestOutputKind.DELTA,
        # Inkling ends a turn with this token; a checkpoint's generation config need not say so.
        stop_token_ids=[state.framing.content_model_end_sampling],
        structured_outputs=StructuredOutputsParams(structural_tag=tag) if tag else None,
    )  # fmt: skip


async def generate(
    state: KernelState, context: StoredContext, engine_input: Any, options: Sampling, request_id: str, wanted: Forced,
    adapter: str | None = None, interventions: Sequence[Intervention] = (), client: str = "",
) -> AsyncIterator[Event]:  # fmt: skip
    """Events of one answer, by the model alone or with the adapter of that name, ending in Done.

    `interventions` have passed their check and salted `engine_input`; `wanted` is what `options` force; `client` waits its turn.

    Raises
    ------
    AdapterUnknown
        It was unloaded meanwhile.
    EngineDied, RequestFailed
        The engine is gone, or gave up on the request.
    OutputInvalid
        The answer is not what was forced: cut short, mostly.
    """
    chosen = state.adapters.chosen(adapter)
    activity = Activity(request_id=request_id, kind="generate", total_tokens=len(context))
    earlier, shared = (None, 0) if interventions else state.reuse.most_similar(context, adapter)
    parser, run = ReplyParser(state.framing, state.table, wanted.names), _Run(len(context))
    began = time.monotonic()
    state.active[request_id] = activity
    lora_request = chosen.request if chosen else None
    turn, waited_s = state.turns.join(client), 0.0
    try:
        while not await turn.came(PROGRESS_PERIOD_S):
            yield PrefillProgress(done_tokens=0, total_tokens=len(context), waiting=True, position=turn.position)
        waited_s = time.monotonic() - began
        async with intervened(state, request_id, interventions):
            params = sampling_params(state, options, wanted.tag)
            # The grammar is the whole turn's, thinking included: vLLM must not wait for the thinking to end.
            held = {"reasoning_ended": True} if wanted.tag else {}
            outputs = state.llm.generate(engine_input, params, request_id, lora_request=lora_request, **held)
            async with aclosing(with_progress(state, outputs, activity)) as items:
                async for item in items:
                    if isinstance(item, PrefillProgress):
                        yield item
                        continue
                    run.add(item, time.monotonic() - began)
                    activity.generated_tokens = len(run.token_ids)
                    for event in parser.feed(item.outputs[0].token_ids):
                        yield event
    finally:
        turn.leave()
        state.active.pop(request_id, None)
    for event in parser.close():
        yield event
    # An intervened run has cache entries of its own, which nobody else can reuse.
    if run.token_ids and not interventions:
        state.reuse.add(
            context, run.token_ids, computed_tokens=len(context) - run.cached_tokens,
            first_token_s=run.first_token_s - waited_s,
            adapter=adapter,
        )  # fmt: skip
    if run.finish not in ("stop", "length", "abort"):
        raise RequestFailed(f"the engine ended the request with {run.finish!r}", request_id=request_id)
    drafted, accepted = await acceptance(state, request_id)
    notices = ([RANDOM_WEIGHTS] if state.info.random_weights else []) + parser.notices
    notices += [f"Intervention: {describe(item)}." for item in interventions]
    reply = Reply(
        text=parser.text, reasoning=parser.reasoning, tool_calls=tuple(parser.tool_calls),
        token_ids=np.asarray(run.token_ids, dtype=np.uint32),
        usage=Usage(
            prompt_tokens=len(context), cached_tokens=run.cached_tokens, completion_tokens=len(run.token_ids), drafted=drafted,
            accepted=accepted,
        ),
        timings=Timings(first_token_s=run.first_token_s, total_s=time.monotonic() - began),
        finish_reason=run.finish, context=context.id, request_id=request_id, logprobs=tuple(run.logprobs),
        notices=tuple(notices), adapter=adapter,
        provenance=provenance(state, options, interventions) | {"reuse": {"earlier": earlier, "shared_tokens": shared, "hit_tokens":
        state.reuse.hit_tokens}} | ({"adapter": chosen.info.model_dump(mode="json")} if chosen else {}),
    )  # fmt: skip
    check_reply(wanted, reply)
    yield Done(reply=reply)


async def acceptance(state: KernelState, request_id: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Drafted and accepted tokens of a request by depth; empty on an engine that does not draft."""
    if not state.info.engine_args.get("drafts") or state.llm.errored:
        return (), ()
    ((drafted, accepted), *_) = await state.llm.collective_rpc("workbench_acceptance", args=(request_id,))
    return tuple(drafted), tuple(accepted)


async def warm_up(state: KernelState) -> None:
    """One token for nobody: the first request of a fresh engine pays for lazy initialisation, seconds of it.

    Asks for the cache's granularity, too: an engine core that cannot be asked shows at start.
    """
    await ask_core(state, np.asarray([state.framing.message_user], dtype=np.uint32), [])
    salt = new_request_id()
    (engine_input,) = await state.llm.renderer.render_cmpl_async(
        [{"prompt_token_ids": [state.framing.message_user, state.framing.message_model], "cache_salt": salt}]
    )
    async for _ in state.llm.generate(engine_input, sampling_params(state, Sampling(max_tokens=2, temperature=1.0)), salt):
        pass


class _Run:
    """What has come back of one request."""

    def __init__(self, prompt_tokens: int) -> None:
        self.prompt_tokens = prompt_tokens
        self.token_ids: list[int] = []
        self.logprobs: list[TokenLogprob] = []
        self.cached_tokens, self.first_token_s = 0, 0.0
        self.finish: Any = None

    def add(self, output: Any, at_s: float) -> None:
        """Take in one of vLLM's request outputs."""
        piece = output.outputs[0]
        if not self.token_ids and piece.token_ids:
            self.first_token_s = at_s
        for token_id, choices in zip(piece.token_ids, piece.logprobs or [], strict=False):
            others = {other: float(found.logprob) for other, found in choices.items()}
            self.logprobs.append(TokenLogprob(token_id=int(token_id), logprob=others[token_id], alternatives=others))
        self.token_ids += piece.token_ids
        self.cached_tokens = output.num_cached_tokens or self.cached_tokens
        self.finish = piece.finish_reason or self.finish


def provenance(state: KernelState, options: Sampling | None = None, interventions: Sequence[Intervention] = ()) -> dict[str, Any]:
    """What an answer or a capture was made with, as JSON values."""
    info = state.info
    values: dict[str, Any] = {
        "model": info.model, "revision": info.revision, "recipe": info.recipe, "random_weights": info.random_weights,
        "versions": info.versions, "engine_args": info.engine_args, "image_rule": info.image_rule.id,
    }  # fmt: skip
    if interventions:
        values["interventions"] = [to_json(item) for item in interventions]
    if options is not None:
        values["sampling"] = {name: getattr(options, name) for name in options.__slots__}
    return values
