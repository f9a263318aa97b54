"""Looking inside an engine from Python: captures, scores of given tokens, and what its prefix cache holds.

The half of :class:`engine.Engine` that observes. It knows where the engine is and what was sent to it, and holds nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .captures import CaptureRun, Progress, capture_cost, start_capture
from .connection import Connection, blocking
from .errors import BadRequest, EngineDied, FeatureUnsupported
from .logs import lines_of
from .plain import PlainServer
from .protocol import CaptureCost, CapturePlan, EngineInfo, Intervention, PrefillProgress, Rendered, Reply, Reuse
from .protocol.intervention_sets import check, place, to_json
from .protocol.wire import AdapterChoice, ScoreBody, event_from_json
from .uploads import Uploads

if TYPE_CHECKING:
    from workbench.captures import Capture


Adapter = str | EllipsisType | None
"""Who runs something: an adapter by name, the model alone (None), or what gave the reply (``...``)."""


class Renderable(Protocol):
    """Anything that becomes a rendered context for an engine."""

    def render(self, engine_or_info: EngineInfo | None = None, /) -> Rendered: ...


class Looking:
    """What an engine tells about its inside."""

    info: EngineInfo
    log: str | None
    _connection: Connection
    _uploads: Uploads
    _plain: PlainServer | None

    @property
    def url(self) -> str:
        """Address of the engine."""
        return self._connection.url

    def capture(
        self, what: Rendered | Renderable | Reply, plan: CapturePlan, *, progress: Progress | None = None, recompute: bool = False,
        interventions: Sequence[Intervention] = (), adapter: Adapter = ...,
    ) -> Capture:  # fmt: skip
        """Run a context, or a reply behind its context, once more and record what `plan` names, under `interventions` if any.

        Parameters
        ----------
        progress : callable, optional
            Called with the job's state (``done_tokens``, ``total_tokens``) while it runs.
        recompute : bool
            However many cached tokens must be computed again for it.
        adapter : str or None, optional
            A loaded adapter that shall run it; None is the model alone. By default the adapter that gave the reply.

        Raises
        ------
        AdapterUnknown
            The adapter is not loaded, or another one has its name now.
        CaptureRefused, InterventionRefused
            The engine cannot record or change that, or it is too large; the reason is in the message. Nothing ran.
        """
        return blocking(
            self.acapture(what, plan, progress=progress, recompute=recompute, interventions=interventions, adapter=adapter)
        )

    async def acapture(
        self, what: Rendered | Renderable | Reply, plan: CapturePlan, *, progress: Progress | None = None, recompute: bool = False,
        interventions: Sequence[Intervention] = (), adapter: Adapter = ...,
    ) -> Capture:  # fmt: skip
        """:meth:`capture` for asynchronous callers; cancelling it cancels the capture."""
        return await (await self._start_capture(what, plan, recompute, interventions, adapter)).aresult(progress)

    def start_capture(
        self, what: Rendered | Renderable | Reply, plan: CapturePlan, *, recompute: bool = False,
        interventions: Sequence[Intervention] = (), adapter: Adapter = ...,
    ) -> CaptureRun:  # fmt: skip
        """As :meth:`capture`, without waiting: how far it is, and cancelling it, which keeps what was written."""
        return blocking(self._start_capture(what, plan, recompute, interventions, adapter))

    def capture_cost(self, what: Rendered | Renderable | Reply, plan: CapturePlan) -> CaptureCost:
        """What a capture would cost: bytes, tokens to compute, seconds. Nothing runs.

        Raises
        ------
        CaptureRefused
            It cannot run here at any cost.
        """
        return blocking(self._capture_cost(what, plan))

    async def _capture_cost(self, what: Rendered | Renderable | Reply, plan: CapturePlan) -> CaptureCost:
        rendered, reply_tokens = self._captured(what, plan)
        return await self._uploads.holding(
            rendered, lambda name: capture_cost(self._connection, rendered, name, plan, reply_tokens=reply_tokens)
        )

    async def _start_capture(
        self, what: Rendered | Renderable | Reply, plan: CapturePlan, recompute: bool, interventions: Sequence[Intervention],
        adapter: Adapter,
    ) -> CaptureRun:  # fmt: skip
        rendered, reply_tokens = self._captured(what, plan)
        placed, chosen = self._placed(interventions, rendered), adapter_of(what, adapter)
        return await self._uploads.holding(
            rendered,
            lambda name: start_capture(
                self._connection, rendered, name, plan, reply_tokens=reply_tokens, recompute=recompute, interventions=placed,
                adapter=chosen,
            ),
        )  # fmt: skip

    def _captured(self, what: Rendered | Renderable | Reply, plan: CapturePlan) -> tuple[Rendered, int]:
        """What is captured, and how many of its last tokens are a reply's."""
        if self._plain is not None:
            self._plain.refuse_capture(plan)
        rendered = self._uploads.with_reply(what) if isinstance(what, Reply) else self._rendered(what)
        reply_tokens = len(what.token_ids) if isinstance(what, Reply) else 0
        plan.resolve(len(rendered), reply_tokens=reply_tokens)
        return rendered, reply_tokens

    def logs(self, lines: int = 40, *, follow: bool = False) -> Iterator[str]:
        """The last lines of the engine's log; with `follow` those that are added too, for as long as the loop goes on.

        Raises
        ------
        FeatureUnsupported
            The engine is on another machine, where its log is.
        """
        if self.log is None or not Path(self.log).is_file():
            raise FeatureUnsupported(
                f"the log of the engine at {self.url} is not on this machine: 'inkling engine logs' there shows it"
            )
        return lines_of(Path(self.log), lines, follow=follow)

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
        progress: Callable[[PrefillProgress], None] | None = None, adapter: Adapter = ...,
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
        adapter : str or None, optional
            As for :meth:`capture`: who judges.

        Returns
        -------
        ndarray of float64, shape (t,)
            Natural logarithms. Costs a prefill of what the prefix cache does not hold, and of the scored tokens.

        Raises
        ------
        BadRequest, InterventionRefused, ContextTooLong, AdapterUnknown
            Nothing ran.
        ContextUnknown
            As for :meth:`context_of`.
        FeatureUnsupported
            A plain vLLM server, which does not score.
        """
        return blocking(self.ascore(what, first=first, interventions=interventions, progress=progress, adapter=adapter))

    async def ascore(
        self, what: Reply | Rendered | Renderable, *, first: int | None = None, interventions: Sequence[Intervention] = (),
        progress: Callable[[PrefillProgress], None] | None = None, adapter: Adapter = ...,
    ) -> NDArray[np.float64]:  # fmt: skip
        """:meth:`score` for asynchronous callers; cancelling it ends the work."""
        if self._plain is not None:
            raise FeatureUnsupported("a plain vLLM server does not score tokens: start one of our engines for it")
        rendered = self._uploads.with_reply(what) if isinstance(what, Reply) else self._rendered(what)
        if isinstance(what, Reply) and first is None:
            first = len(rendered) - len(what.token_ids)
        if first is None or not 1 <= first < len(rendered):
            raise BadRequest(f"first is {first}: the first token to score, 1 to {len(rendered) - 1:,} of this context", first=first)
        changes, chosen = [to_json(item) for item in self._placed(interventions, rendered)], adapter_of(what, adapter)

        async def ask(name: str) -> NDArray[np.float64]:
            body = ScoreBody(context=name, first=first, adapter=chosen, interventions=changes).model_dump(mode="json")
            async with aclosing(self._connection.events("/workbench/scores", body)) as events:
                async for kind, values in events:
                    if kind == "Scores":
                        return np.asarray(values["logprobs"], dtype=np.float64)
                    event = event_from_json(kind, values)
                    if progress is not None and isinstance(event, PrefillProgress):
                        progress(event)
            raise self._cut_off()

        return await self._uploads.holding(rendered, ask)

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
        answer = await self._uploads.holding(
            rendered, lambda name: self._connection.request("POST", "/workbench/probe", json={"context": name}, timeout_s=60)
        )
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

    def _cut_off(self) -> EngineDied:
        """The error for a stream that ended without its last event."""
        return EngineDied(f"the engine at {self.url} closed the stream without an end: it died; its log says why")

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


def adapter_of(what: Any, chosen: Adapter) -> AdapterChoice | None:
    """The adapter that shall run `what`: the chosen one, or the one that gave it, which must then be the same by content."""
    if chosen is ...:
        own = what.adapter if isinstance(what, Reply) else None
        return None if own is None else AdapterChoice(name=own, id=(what.provenance.get("adapter") or {}).get("id"))
    return None if chosen is None else AdapterChoice(name=str(chosen))
