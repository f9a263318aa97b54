"""The engine as Python sees it: generate, stream, capture, status, stop; each with an asynchronous twin where it waits.

An :class:`Engine` is a client. It holds no process: closing a notebook leaves the engine running, several may share it. What it
is given is a rendered context, or anything with ``.render(info)``. Lifetimes: it remembers the last contexts it sent, for
shorter uploads and for capturing a reply; nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from .adapters import Adapters
from .captures import CaptureRun, Progress, capture_cost, start_capture
from .connection import Connection, blocking, blocking_iterator
from .errors import BadRequest, ContextUnknown, EngineDied, EngineUnreachable, FeatureUnsupported, RequestFailed
from .plain import PlainServer
from .protocol import (
    CaptureCost,
    CapturePlan,
    Done,
    EngineInfo,
    Event,
    Intervention,
    PrefillProgress,
    Rendered,
    Reply,
    Reuse,
    Sampling,
)
from .protocol.intervention_sets import check, place, to_json
from .protocol.wire import GenerateBody, SamplingBody, ScoreBody, event_from_json
from .uploads import Uploads

if TYPE_CHECKING:
    from workbench.captures import Capture

STOP_TIMEOUT_S = 60.0


class Renderable(Protocol):
    """Anything that becomes a rendered context for an engine."""

    def render(self, engine_or_info: EngineInfo | None = None, /) -> Rendered: ...


class Engine:
    """A running engine; made by :func:`engine.start` and :func:`engine.attach`.

    Attributes
    ----------
    info : EngineInfo
        Model, limits, image rule, seams; as it was when attached.
    url : str
    log : str or None
        Path of its log, if it runs on this machine.
    adapters : Adapters
        Load, list and unload adapters.
    """

    def __init__(self, connection: Connection, info: EngineInfo, *, log: str | None = None) -> None:
        self._connection, self.info, self.log = connection, info, log
        self._uploads = Uploads(connection)
        self.adapters = Adapters(connection, info)
        self._plain = PlainServer(connection, info) if info.kind == "vllm" else None

    @property
    def url(self) -> str:
        return self._connection.url

    def __repr__(self) -> str:
        return f"Engine({self.info.model} at {self.url}, {self.info.limits.context_tokens:,} tokens)"

    def generate(
        self, context: Rendered | Renderable, *, max_tokens: int = 256, temperature: float = 1.0, top_p: float = 1.0,
        top_k: int = 0, seed: int | None = None, logprobs: int | None = None, adapter: str | None = None,
        interventions: Sequence[Intervention] = (),
    ) -> Reply:  # fmt: skip
        """One whole answer.

        Parameters
        ----------
        context : Rendered, or anything with ``.render(info)``
        max_tokens : int
            At most so many tokens of answer, at least 1; reserved against the engine's limit.
        temperature : float
            0 is greedy; 0 to 2.
        top_p : float
            Above 0, up to 1.
        top_k : int
            0 keeps all.
        seed : int, optional
        logprobs : int, optional
            Alternatives to report per token, 0 to 20.
        adapter : str, optional
            A loaded adapter (see :attr:`adapters`) that shall answer; by default the model alone. The reply says which did.
        interventions : sequence of Intervention
            Changes of the model for this request alone (:mod:`workbench.interventions`); stamped on the reply.

        Raises
        ------
        RequestRefused
            Before anything ran: a value out of range, a context that is too long, an intervention this engine cannot have, …
        EngineDied, EngineAuthError, RequestFailed
        """
        options = sampling(max_tokens=max_tokens, temperature=temperature, top_p=top_p, top_k=top_k, seed=seed, logprobs=logprobs)
        return blocking(self._answer(context, options, adapter, interventions))

    def stream(
        self, context: Rendered | Renderable, *, max_tokens: int = 256, temperature: float = 1.0, top_p: float = 1.0,
        top_k: int = 0, seed: int | None = None, logprobs: int | None = None, adapter: str | None = None,
        interventions: Sequence[Intervention] = (),
    ) -> Iterator[Event]:  # fmt: skip
        """Events of an answer as they come, Done last. Leaving the loop aborts the request. See :meth:`generate`."""
        options = sampling(max_tokens=max_tokens, temperature=temperature, top_p=top_p, top_k=top_k, seed=seed, logprobs=logprobs)
        return blocking_iterator(lambda: self._events(context, options, adapter, interventions))

    async def agenerate(
        self,
        context: Rendered | Renderable,
        *,
        adapter: str | None = None,
        interventions: Sequence[Intervention] = (),
        **options: Any,
    ) -> Reply:
        """:meth:`generate` for asynchronous callers."""
        return await self._answer(context, sampling(**options), adapter, interventions)

    def astream(
        self,
        context: Rendered | Renderable,
        *,
        adapter: str | None = None,
        interventions: Sequence[Intervention] = (),
        **options: Any,
    ) -> AsyncGenerator[Event]:
        """:meth:`stream` for asynchronous callers; ``aclose()`` aborts the request."""
        return self._events(context, sampling(**options), adapter, interventions)

    def capture(
        self, what: Rendered | Renderable | Reply, plan: CapturePlan, *, progress: Progress | None = None, recompute: bool = False,
        interventions: Sequence[Intervention] = (),
    ) -> Capture:  # fmt: skip
        """Run a context, or a reply behind its context, once more and record what `plan` names, under `interventions` if any.

        Parameters
        ----------
        progress : callable, optional
            Called with the job's state (``done_tokens``, ``total_tokens``) while it runs.
        recompute : bool
            However many cached tokens must be computed again for it.

        Raises
        ------
        CaptureRefused, InterventionRefused
            The engine cannot record or change that, or it is too large; the reason is in the message. Nothing ran.
        """
        return blocking(self.acapture(what, plan, progress=progress, recompute=recompute, interventions=interventions))

    async def acapture(
        self, what: Rendered | Renderable | Reply, plan: CapturePlan, *, progress: Progress | None = None, recompute: bool = False,
        interventions: Sequence[Intervention] = (),
    ) -> Capture:  # fmt: skip
        """:meth:`capture` for asynchronous callers; cancelling it cancels the capture."""
        return await (await self._start_capture(what, plan, recompute, interventions)).aresult(progress)

    def start_capture(
        self, what: Rendered | Renderable | Reply, plan: CapturePlan, *, recompute: bool = False,
        interventions: Sequence[Intervention] = (),
    ) -> CaptureRun:  # fmt: skip
        """As :meth:`capture`, without waiting: how far it is, and cancelling it, which keeps what was written."""
        return blocking(self._start_capture(what, plan, recompute, interventions))

    def capture_cost(self, what: Rendered | Renderable | Reply, plan: CapturePlan) -> CaptureCost:
        """What a capture would cost: bytes, tokens to compute, seconds. Nothing runs.

        Raises
        ------
        CaptureRefused
            It cannot run here at any cost.
        """
        return blocking(self._capture_cost(what, plan))

    async def _capture_cost(self, what: Rendered | Renderable | Reply, plan: CapturePlan) -> CaptureCost:
        rendered, name, reply_tokens = await self._sent(what, plan)
        return await capture_cost(self._connection, rendered, name, plan, reply_tokens=reply_tokens)

    async def _start_capture(
        self, what: Rendered | Renderable | Reply, plan: CapturePlan, recompute: bool, interventions: Sequence[Intervention]
    ) -> CaptureRun:
        rendered, name, reply_tokens = await self._sent(what, plan)
        placed = self._placed(interventions, rendered)
        return await start_capture(
            self._connection, rendered, name, plan, reply_tokens=reply_tokens, recompute=recompute, interventions=placed
        )

    async def _sent(self, what: Rendered | Renderable | Reply, plan: CapturePlan) -> tuple[Rendered, str, int]:
        """What is captured as the engine holds it, its name there, and how many of its last tokens are a reply's."""
        if self._plain is not None:
            self._plain.refuse_capture(plan)
        rendered = self._uploads.with_reply(what) if isinstance(what, Reply) else self._rendered(what)
        reply_tokens = len(what.token_ids) if isinstance(what, Reply) else 0
        plan.resolve(len(rendered), reply_tokens=reply_tokens)
        return rendered, await self._uploads.send(rendered), reply_tokens

    def context_of(self, reply: Reply) -> Rendered:
        """The context a reply answers, with the reply's own tokens behind it as a last span.

        Raises
        ------
        ContextUnknown
            It was not sent by this client, or too long ago.
        """
        return self._uploads.with_reply(reply)

    def score(
        self, what: Reply | Rendered | Renderable, *, first: int | None = None, interventions: Sequence[Intervention] = (),
        progress: Callable[[PrefillProgress], None] | None = None,
    ) -> NDArray[np.float64]:  # fmt: skip
        """Log-probabilities that the model gives tokens which are already there.

        Parameters
        ----------
        what : Reply, or what :meth:`generate` takes
            Of a reply every token of the answer is scored, behind the context it answered.
        first : int, optional
            Position of the first token to score, at least 1; needed for anything but a reply.
        interventions : sequence of Intervention
            Changes of the model while it judges.
        progress : callable, optional
            Told how much of the prompt is computed.

        Returns
        -------
        ndarray of float64, shape (t,)
            Natural logarithms. Costs a prefill of what the prefix cache does not hold, and of the scored tokens.

        Raises
        ------
        BadRequest, InterventionRefused, ContextTooLong
            Nothing ran.
        """
        return blocking(self.ascore(what, first=first, interventions=interventions, progress=progress))

    async def ascore(
        self, what: Reply | Rendered | Renderable, *, first: int | None = None, interventions: Sequence[Intervention] = (),
        progress: Callable[[PrefillProgress], None] | None = None,
    ) -> NDArray[np.float64]:  # fmt: skip
        """:meth:`score` for asynchronous callers; cancelling it ends the work."""
        if self._plain is not None:
            raise FeatureUnsupported("a plain vLLM server does not score tokens: start one of our engines for it")
        if isinstance(what, Reply) and what.adapter is not None:
            raise FeatureUnsupported(f"tokens are scored by the model alone, this reply is adapter {what.adapter!r}'s")
        rendered = self._uploads.with_reply(what) if isinstance(what, Reply) else self._rendered(what)
        if isinstance(what, Reply) and first is None:
            first = len(rendered) - len(what.token_ids)
        if first is None or not 1 <= first < len(rendered):
            raise BadRequest(f"first is {first}: the first token to score, 1 to {len(rendered) - 1:,} of this context", first=first)
        placed = self._placed(interventions, rendered)
        name = await self._uploads.send(rendered)
        body = ScoreBody(context=name, first=first, interventions=[to_json(item) for item in placed])
        async with aclosing(self._connection.events("/workbench/scores", body.model_dump(mode="json"))) as events:
            async for kind, values in events:
                if kind == "Scores":
                    return np.asarray(values["logprobs"], dtype=np.float64)
                event = event_from_json(kind, values)
                if progress is not None and isinstance(event, PrefillProgress):
                    progress(event)
        raise EngineDied(f"the engine at {self.url} closed the stream without an end: it died; its log says why")

    def probe(self, context: Rendered | Renderable) -> Reuse:
        """What of a context would be reused from the prefix cache if it ran now, by part, and why not more. Nothing runs.

        Raises
        ------
        FeatureUnsupported
            A plain vLLM server does not tell.
        """
        return blocking(self.aprobe(context))

    async def aprobe(self, context: Rendered | Renderable) -> Reuse:
        """:meth:`probe` for asynchronous callers."""
        if self._plain is not None:
            raise FeatureUnsupported(
                "a plain vLLM server does not say what its prefix cache holds: the reply's usage does, afterwards"
            )
        rendered = self._rendered(context)
        name = await self._uploads.send(rendered)
        answer = await self._connection.request("POST", "/workbench/probe", json={"context": name}, timeout_s=60)
        return Reuse(**answer.json(), spans=rendered.spans)

    def explain(self, reply: Reply) -> Reuse:
        """What of a reply's context was reused, by part, and what broke the prefix.

        Raises
        ------
        ContextUnknown
            The context was sent by another client, or too long ago.
        FeatureUnsupported
            The reply does not come from an engine that notes it.
        """
        noted = reply.provenance.get("reuse")
        if noted is None:
            raise FeatureUnsupported("this reply does not say what its engine had cached: it comes from a plain vLLM server")
        rendered = self._uploads.sent(reply.context)
        return Reuse(
            prompt_tokens=reply.usage.prompt_tokens, cached_tokens=reply.usage.cached_tokens, matching_tokens=None,
            shared_tokens=max(noted["shared_tokens"], reply.usage.cached_tokens), hit_tokens=noted["hit_tokens"],
            earlier=noted["earlier"], spans=rendered.spans,
        )  # fmt: skip

    def status(self) -> dict[str, Any]:
        """What is going on: running and waiting requests, prompt progress, cache use."""
        if self._plain is not None:
            return blocking(self._plain.status())
        return blocking(self._connection.request("GET", "/workbench/status", timeout_s=30)).json()

    def stop(self) -> None:
        """End the engine, for everyone who uses it; returns when it is gone. Does nothing when it is gone already.

        Raises
        ------
        BadRequest
            A plain vLLM server: whoever started it stops it.
        """
        if self._plain is not None:
            raise BadRequest("this is a plain vLLM server, not ours to stop: end it where it was started")
        blocking(self._stop())

    async def _stop(self) -> None:
        from .starting import wait_for_end

        try:
            await self._connection.request("POST", "/workbench/shutdown", timeout_s=30)
            async with asyncio.timeout(STOP_TIMEOUT_S):
                while True:
                    await self._connection.request("GET", "/workbench/info", timeout_s=5)
                    await asyncio.sleep(0.1)
        except EngineUnreachable:
            await wait_for_end(self.info.nonce, self.log)
        except TimeoutError:
            raise RequestFailed(
                f"the engine at {self.url} did not end within {STOP_TIMEOUT_S:.0f} s; its log: {self.log}"
            ) from None

    async def _answer(
        self, context: Rendered | Renderable, options: Sampling, adapter: str | None, interventions: Sequence[Intervention]
    ) -> Reply:
        async with aclosing(self._events(context, options, adapter, interventions)) as events:
            async for event in events:
                if isinstance(event, Done):
                    return event.reply
        raise EngineDied(f"the engine at {self.url} closed the stream without an end: it died; its log says why")

    async def _events(
        self, context: Rendered | Renderable, options: Sampling, adapter: str | None, interventions: Sequence[Intervention]
    ) -> AsyncGenerator[Event]:
        if self._plain is not None:
            check(interventions, self.info, 0)  # refuses any
            async with aclosing(self._plain.events(context, options, adapter)) as plain_events:
                async for event in plain_events:
                    yield event
            return
        rendered = self._rendered(context)
        placed = self._placed(interventions, rendered)
        for attempt in (1, 2):
            name = await self._uploads.send(rendered)
            chosen = SamplingBody(**{key: getattr(options, key) for key in options.__slots__})
            changes = [to_json(item) for item in placed]
            body = GenerateBody(context=name, sampling=chosen, adapter=adapter, interventions=changes)
            try:
                # Closed here and now when the caller leaves: that is what aborts the request.
                async with aclosing(self._connection.events("/workbench/generate", body.model_dump(mode="json"))) as events:
                    async for kind, values in events:
                        yield event_from_json(kind, values)
                        if kind == "Done":
                            return
                raise EngineDied(f"the engine at {self.url} closed the stream without an end: it died; its log says why")
            except ContextUnknown:
                # Cleaned away on the engine since it was sent: once more from the start.
                self._uploads.forget(name)
                if attempt == 2:
                    raise

    def _placed(self, interventions: Sequence[Intervention], rendered: Rendered) -> tuple[Intervention, ...]:
        """Interventions with their spans, checked against this engine before anything is sent."""
        placed = place(interventions, rendered.spans)
        check(placed, self.info, len(rendered))
        return placed

    def _rendered(self, context: Any) -> Rendered:
        if isinstance(context, Rendered):
            return context
        if not hasattr(context, "render"):
            raise BadRequest(f"cannot run a {type(context).__name__}: give a Context, a Rendered, or anything with .render(info)")
        return context.render(self.info)


def sampling(**values: Any) -> Sampling:
    """Checked sampling options.

    Raises
    ------
    BadRequest
        An unknown name or a value out of its range.

    Examples
    --------
    >>> sampling(max_tokens=0)
    Traceback (most recent call last):
    engine.errors.BadRequest: max_tokens is 0: Input should be greater than or equal to 1
    """
    try:
        return SamplingBody(**values).options()
    except ValidationError as problem:
        first = problem.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise BadRequest(f"{name} is {first['input']!r}: {first['msg']}", option=name) from None
