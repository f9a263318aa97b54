"""The engine as Python sees it: generate, stream, capture, status, stop; each with an asynchronous twin where it waits.

An :class:`Engine` is a client. It holds no process: closing a notebook leaves the engine running, several may share it. What it
is given is a rendered context, or anything with ``.render(info)``. Lifetimes: it remembers the last contexts it sent, for
shorter uploads and for capturing a reply; nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any

from pydantic import ValidationError

from . import discovery
from .adapters import Adapters
from .connection import Connection, blocking, blocking_iterator
from .errors import (
    BadRequest,
    BlobMissing,
    ContextUnknown,
    EngineAuthError,
    EngineNotFound,
    EngineUnreachable,
    FeatureUnsupported,
    RequestFailed,
)
from .looking import Looking, Renderable
from .plain import PlainServer
from .protocol import (
    Done,
    EngineInfo,
    Event,
    Intervention,
    Rendered,
    Reply,
    Sampling,
)
from .protocol.intervention_sets import check, to_json
from .protocol.wire import GenerateBody, SamplingBody, event_from_json
from .uploads import Uploads

STOP_TIMEOUT_S = 60.0

RESTART_TIMEOUT_S = 1800.0
"""A large checkpoint takes many minutes to load."""


class Engine(Looking):
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

    def __repr__(self) -> str:
        return f"Engine({self.info.model} at {self.url}, {self.info.limits.context_tokens:,} tokens)"

    def generate(
        self, context: Rendered | Renderable, *, max_tokens: int = 256, temperature: float = 1.0, top_p: float = 1.0,
        top_k: int = 0, seed: int | None = None, logprobs: int | None = None, tool_choice: str = "auto",
        parallel_tool_calls: bool = True, output: dict[str, Any] | None = None, adapter: str | None = None,
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
        tool_choice : str
            ``auto``, ``none``, ``required`` (at least one call), or the name of a tool the context declares (exactly one call of
            it). Forced by a grammar, not by asking the model.
        parallel_tool_calls : bool
            Whether a turn may hold several calls.
        output : dict, optional
            What the text must be: ``{"json": SCHEMA}`` (True for any object), ``{"regex": PATTERN}`` or ``{"choice": [TEXT, …]}``.
            A turn that is held to something may think first, for half of `max_tokens` at most; at effort none it does not. Where
            the context declares tools, a call may take the text's place; ``tool_choice="none"`` forbids that.
        adapter : str, optional
            A loaded adapter (see :attr:`adapters`) that shall answer; by default the model alone. The reply says which did.
        interventions : sequence of Intervention
            Changes of the model for this request alone (:mod:`workbench.interventions`); stamped on the reply.

        Raises
        ------
        RequestRefused
            Before anything ran: a value out of range, a context that is too long, an intervention this engine cannot have, …
        OutputInvalid
            The answer is not what `output` or `tool_choice` forced: cut at `max_tokens`, mostly. ``error.detail`` has the text.
        EngineDied, EngineAuthError, RequestFailed
        """
        options = sampling(
            max_tokens=max_tokens, temperature=temperature, top_p=top_p, top_k=top_k, seed=seed, logprobs=logprobs,
            tool_choice=tool_choice, parallel_tool_calls=parallel_tool_calls, output=output,
        )  # fmt: skip
        return blocking(self._answer(context, options, adapter, interventions))

    def stream(
        self, context: Rendered | Renderable, *, max_tokens: int = 256, temperature: float = 1.0, top_p: float = 1.0,
        top_k: int = 0, seed: int | None = None, logprobs: int | None = None, tool_choice: str = "auto",
        parallel_tool_calls: bool = True, output: dict[str, Any] | None = None, adapter: str | None = None,
        interventions: Sequence[Intervention] = (),
    ) -> Iterator[Event]:  # fmt: skip
        """Events of an answer as they come, Done last. Leaving the loop aborts the request. See :meth:`generate`."""
        options = sampling(
            max_tokens=max_tokens, temperature=temperature, top_p=top_p, top_k=top_k, seed=seed, logprobs=logprobs,
            tool_choice=tool_choice, parallel_tool_calls=parallel_tool_calls, output=output,
        )  # fmt: skip
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

    def status(self) -> dict[str, Any]:
        """What is going on: running and waiting requests, prompt progress, cache use."""
        if self._plain is not None:
            return blocking(self._plain.status())
        return blocking(self._connection.request("GET", "/workbench/status", timeout_s=30)).json()

    def openai(self, **options: Any) -> Any:
        """The OpenAI client on this engine's ``/v1``, token included: vLLM's own API, without this project's guarantees.

        Parameters
        ----------
        **options
            As ``openai.OpenAI`` takes them, for instance ``timeout``.

        Raises
        ------
        FeatureUnsupported
            The ``openai`` package is not installed here (it comes with vLLM).
        """
        try:
            from openai import OpenAI
        except ImportError:
            raise FeatureUnsupported(
                f"the openai package is not installed here: pip install openai, or use any client on {self.url}/v1 with the token"
            ) from None
        return OpenAI(base_url=f"{self.url}/v1", api_key=self._connection.token or "none", **options)

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

    def restart(self, *, timeout_s: float = RESTART_TIMEOUT_S) -> None:
        """End a supervised engine and wait until it is back, at the same address and with the same token; contexts stay.

        Raises
        ------
        FeatureUnsupported
            Nobody would start it again; nothing was ended.
        RequestFailed
            It did not come back in time.
        """
        if self._plain is not None:
            raise BadRequest("this is a plain vLLM server, not ours to restart")
        blocking(self._restart(timeout_s))

    def reconnect(self) -> None:
        """Go on with the engine that answers now: this one if it is back, or the one that runs here with the same model.

        The object stays, so that whoever holds it goes on; contexts and replies of before can be used, and are sent and read anew.

        Raises
        ------
        EngineNotFound
            None runs, or one with another model.
        EngineAmbiguous, EngineUnreachable, EngineAuthError, EngineVersionError
        """
        from . import attach

        try:
            found = attach(self.url, self._connection.token)
        except (EngineUnreachable, EngineAuthError):
            found = attach()
        if (found.info.model, found.info.revision) != (self.info.model, self.info.revision):
            raise EngineNotFound(
                f"the engine at {found.url} runs {found.info.model}, revision {found.info.revision}, not {self.info.model}, "
                f"{self.info.revision}: go on with it by engine.attach(), in a new conversation", url=found.url,
            )  # fmt: skip
        uploads = self._uploads.moved(found._connection)
        self._connection, self.info, self.log, self._uploads = found._connection, found.info, found.log, uploads
        self.adapters, self._plain = found.adapters, found._plain

    async def _restart(self, timeout_s: float) -> None:
        await self._connection.request("POST", "/workbench/shutdown", params={"restart": True}, timeout_s=30)
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    await asyncio.sleep(0.5)
                    with contextlib.suppress(EngineUnreachable):
                        values = (await self._connection.request("GET", "/workbench/info", timeout_s=5)).json()
                        if values["nonce"] != self.info.nonce:
                            break
        except TimeoutError:
            raise RequestFailed(f"the engine at {self.url} is not back after {timeout_s:.0f} s; its log says why") from None
        self.info = EngineInfo.model_validate(values)
        self.adapters = Adapters(self._connection, self.info)
        self.log = next((found.presence.log for found in discovery.running() if found.nonce == self.info.nonce), None)

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
        raise self._cut_off()

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
            name = await self._uploads.send(rendered, anew=attempt == 2)
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
                raise self._cut_off()
            except (ContextUnknown, BlobMissing):
                # It, or a picture of it, gave way to others on the engine since it was sent: once more from the start.
                self._uploads.forget(name)
                if attempt == 2:
                    raise


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
