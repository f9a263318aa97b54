"""A plain vLLM server seen as an engine: chat and streaming work, internals say why they do not.

Nothing of ours runs there. A context is sent as OpenAI chat messages (``.chat_request()``), so the server renders it; what a
server renders cannot be checked against what was shown. A part that spells a control token out is refused, because such a
server would take it for one. Rendered ids without media go to ``/v1/completions`` as they are.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import httpx
import numpy as np

from .connection import Connection
from .errors import CaptureRefused, EngineUnreachable, FeatureUnsupported
from .protocol import (
    AdapterSupport,
    CapturePlan,
    Done,
    EngineInfo,
    Event,
    Limits,
    Reasoning,
    Rendered,
    Reply,
    Sampling,
    Text,
    Timings,
    ToolCall,
    Usage,
)
from .protocol.framing import SPELLINGS

UNPARSED = "A plain vLLM server was given ids: its thinking and its answer are not told apart. Send a Context to have them apart."
UNCHECKED = "A plain vLLM server rendered this context itself: what ran was not compared with what was shown."


async def describe(connection: Connection) -> EngineInfo:
    """What can be known of a plain server: its model and its limit.

    Raises
    ------
    EngineUnreachable
        It is not a vLLM server.
    """
    try:
        model = (await connection.request("GET", "/v1/models", timeout_s=30)).json()["data"][0]
        limit = int(model["max_model_len"]) - 1
    except (KeyError, IndexError, TypeError, ValueError) as problem:
        raise EngineUnreachable(f"{connection.url} answers, but not as a vLLM server: its /v1/models lists no model") from problem
    off = AdapterSupport(reason="adapters of a plain vLLM server are loaded where it was started; name one it lists as adapter=…")
    return EngineInfo(kind="vllm", model=str(model["id"]), limits=Limits(context_tokens=limit), adapters=off)


class PlainServer:
    """Generation over OpenAI's API."""

    def __init__(self, connection: Connection, info: EngineInfo) -> None:
        self._connection, self._info = connection, info

    def refuse_capture(self, plan: CapturePlan) -> None:
        """Always raises CaptureRefused, with the reason."""
        seam = self._info.seam(plan.seams()[0])
        raise CaptureRefused(
            f"{seam.name} cannot be captured here: {seam.reason}; start one of ours: engine.start(…)", seam=seam.name
        )

    async def status(self) -> dict[str, Any]:
        """Whether it is alive, and what its metrics say of running and waiting requests."""
        text = (await self._connection.request("GET", "/metrics", timeout_s=30)).text
        values = {"running": 0.0, "waiting": 0.0}
        for line in text.splitlines():
            for name in values:
                if line.startswith(f"vllm:num_requests_{name}{{"):
                    values[name] += float(line.rpartition(" ")[2])
        return values | {"alive": True, "stopping": False, "requests": []}

    async def events(self, context: Any, options: Sampling, adapter: str | None = None) -> AsyncGenerator[Event]:
        """Text, Reasoning, ToolCall and Done, as our own engine gives them; prompt progress is not known.

        An adapter is a model of its own name there.
        """
        path, body, notice, name = self._request(context, options)
        body["model"] = adapter or body["model"]
        began, first, answer = time.monotonic(), None, _Answer()
        async with aclosing(self._connection.events(path, body)) as chunks:
            async for _, chunk in chunks:
                for event in answer.add(chunk):
                    first = first or time.monotonic()
                    yield event
        for call in answer.calls():
            yield call
        now = time.monotonic()
        yield Done(reply=Reply(
            text=answer.text, reasoning=answer.reasoning, tool_calls=tuple(answer.calls()),
            token_ids=np.asarray(answer.token_ids, dtype=np.uint32), usage=answer.usage,
            timings=Timings(first_token_s=(first or now) - began, total_s=now - began),
            finish_reason="length" if answer.finish == "length" else "abort" if answer.finish == "abort" else "stop",
            context=name, request_id=answer.request_id, notices=(notice,), adapter=adapter,
            provenance={"model": self._info.model, "url": self._connection.url},
        ))  # fmt: skip

    def _request(self, context: Any, options: Sampling) -> tuple[str, dict[str, Any], str, str]:
        body = {
            "model": self._info.model, "stream": True, "stream_options": {"include_usage": True}, "return_token_ids": True,
            "max_tokens": options.max_tokens, "temperature": options.temperature, "top_p": options.top_p,
            "top_k": options.top_k, "seed": options.seed,
        }  # fmt: skip
        if options.logprobs is not None:
            raise FeatureUnsupported("log-probabilities are not read from a plain vLLM server: start one of our engines for them")
        if options.tool_choice not in ("auto", "none") or options.output is not None or not options.parallel_tool_calls:
            raise FeatureUnsupported(
                "a plain vLLM server does not hold Inkling to a tool or a format (it takes a forced tool for a wish): start one of "
                "our engines for it"
            )
        if hasattr(context, "chat_request"):
            chat = dict(context.chat_request())
            refuse_control_spellings(chat)
            if options.tool_choice == "none":
                chat["tool_choice"] = "none"
            return "/v1/chat/completions", body | chat, UNCHECKED, context.render(self._info).id
        rendered = context if isinstance(context, Rendered) else context.render(self._info)
        if rendered.media:
            raise FeatureUnsupported(
                "a plain vLLM server takes media as chat messages only: give the Context, not what it rendered to"
            )
        return "/v1/completions", body | {"prompt": rendered.token_ids.tolist()}, UNPARSED, rendered.id


class _Answer:
    """What has come back of one request, put together from OpenAI's chunks."""

    def __init__(self) -> None:
        self.text = self.reasoning = self.request_id = ""
        self.token_ids: list[int] = []
        self.finish: str | None = None
        self.usage = Usage(prompt_tokens=0, cached_tokens=0, completion_tokens=0)
        self._calls: dict[int, list[str]] = {}

    def add(self, chunk: dict[str, Any]) -> Iterator[Event]:
        self.request_id = chunk.get("id", self.request_id)
        if usage := chunk.get("usage"):
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
            self.usage = Usage(
                prompt_tokens=usage["prompt_tokens"], cached_tokens=cached, completion_tokens=usage.get("completion_tokens", 0)
            )
        for choice in chunk.get("choices", ()):
            ids = tuple(choice.get("token_ids") or ())
            self.token_ids += ids
            self.finish = choice.get("finish_reason") or self.finish
            delta = choice.get("delta") or {"content": choice.get("text")}
            if thought := delta.get("reasoning") or delta.get("reasoning_content"):
                self.reasoning += thought
                yield Reasoning(text=thought, token_ids=ids)
            if text := delta.get("content"):
                self.text += text
                yield Text(text=text, token_ids=ids)
            for call in delta.get("tool_calls") or ():
                function, held = call.get("function") or {}, self._calls.setdefault(call.get("index", 0), ["", ""])
                held[0] += function.get("name") or ""
                held[1] += function.get("arguments") or ""

    def calls(self) -> list[ToolCall]:
        """The tool calls, once everything is there."""
        import json

        made = []
        for name, raw in self._calls.values():
            try:
                arguments, problem = json.loads(raw), None
            except ValueError as trouble:
                arguments, problem = None, f"not JSON: {trouble}"
            made.append(ToolCall(name=name, arguments=arguments if isinstance(arguments, dict) else None, raw=raw, problem=problem))
        return made


def refuse_control_spellings(values: Any) -> None:
    """Raise FeatureUnsupported when any text in an OpenAI request spells a control token out."""
    found = next(
        (spelling for text in _texts(values) for spellings in SPELLINGS.values() for spelling in spellings if spelling in text),
        None,
    )
    if found:
        raise FeatureUnsupported(
            f"a part contains {found!r}: a plain vLLM server would take it for a control token. Start one of our engines for it.",
            spelling=found,
        )  # fmt: skip


def _texts(values: Any) -> Iterator[str]:
    match values:
        case str():
            yield values
        case dict():
            for key, value in values.items():
                yield from () if key in ("url", "data") else _texts(value)
        case list() | tuple():
            for value in values:
                yield from _texts(value)


async def is_ours(connection: Connection) -> bool:
    """Whether our routes are there; False on a plain vLLM server."""
    try:
        return await connection.probe("GET", "/workbench/info") != 404
    except httpx.InvalidURL as problem:
        raise EngineUnreachable(f"{connection.url!r} is not an address: {problem}") from problem
