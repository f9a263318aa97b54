"""Sampled tokens to events: answer text, thinking and tool calls, told apart by token id.

A model message is ``message_model``, an optional author name, a content kind, a payload and ``end_message``; the prompt already
ends with ``message_model``. Only control tokens structure a reply: a model that spells one out in text keeps its text. Nothing
is dropped silently. What does not follow the format is shown as text and noted, and a tool call is only called one when it
ended and its JSON could be read; everything else keeps its raw text beside the reason. This module knows no engine and no HTTP.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Literal

from ..protocol import FramingIds, Reasoning, Text, ToolCall
from .token_bytes import TextStream, TokenBytes

Parsed = Text | Reasoning | ToolCall
Kind = Literal["header", "text", "thinking", "call", "call-text"]

AUTHOR_NAME = re.compile(r"[\w.:/-]{0,64}")
"""What an author's name can be; anything else before a content kind is shown at once instead of being held back."""

NOT_FRAMED = "Part of this answer does not follow Inkling's message format; it is shown as text."
STRAY_CONTROL = "This answer holds control tokens where text belongs; they are shown by their spelling."


class ReplyParser:
    """Parser of one reply.

    Parameters
    ----------
    framing : FramingIds
    table : TokenBytes
    declared : frozenset of str, optional
        Names of the tools the prompt declares: a call of another one is none. By default any name is taken.

    Attributes
    ----------
    notices : list of str
        What a reader of the answer must know; complete after :meth:`close`.
    """

    def __init__(self, framing: FramingIds, table: TokenBytes, declared: frozenset[str] | None = None) -> None:
        self._table, self._framing, self._declared = table, framing, declared
        self._kinds: dict[int, Kind] = {
            framing.content_text: "text",
            framing.content_thinking: "thinking",
            framing.content_invoke_tool_json: "call",
            framing.content_invoke_tool_text: "call-text",
            # An error or a declaration has no business in a model's turn; what it says is shown.
            framing.content_tool_error: "text",
            framing.content_xml: "text",
        }
        self._ends = (framing.end_message, framing.content_model_end_sampling)
        self._kind: Kind = "header"
        self._stream = TextStream(table)
        self._held: list[int] = []
        self._name = ""
        self._payload = bytearray()
        self.notices: list[str] = []
        self.text, self.reasoning, self.tool_calls = "", "", []

    def feed(self, token_ids: Iterable[int]) -> list[Parsed]:
        """Events of more tokens, in order; neighbouring text is joined."""
        return self._collect(event for token_id in token_ids for event in self._step(token_id))

    def close(self) -> list[Parsed]:
        """Events of what is still open when sampling ended without an end token."""
        return self._collect(self._end(complete=False))

    def _collect(self, events: Iterable[Parsed]) -> list[Parsed]:
        joined: list[Parsed] = []
        for event in events:
            last = joined[-1] if joined else None
            match last, event:
                case (Text(), Text()) | (Reasoning(), Reasoning()):
                    joined[-1] = type(event)(text=last.text + event.text, token_ids=last.token_ids + event.token_ids)
                case _:
                    joined.append(event)
        for event in joined:
            match event:
                case Text(text=text):
                    self.text += text
                case Reasoning(text=text):
                    self.reasoning += text
                case ToolCall():
                    self.tool_calls.append(event)
        return joined

    def _step(self, token_id: int) -> list[Parsed]:
        if token_id in self._ends:
            return self._end(complete=True)
        if token_id == self._framing.message_model:
            # A message that was not closed ends where the next begins.
            return self._end(complete=False)
        if token_id in self._kinds:
            return self._open(self._kinds[token_id])
        if self._kind == "header":
            self._held.append(token_id)
            return [] if self._may_be_name() else self._unframed()
        if self._kind in ("call", "call-text"):
            self._payload += self._table[token_id]
            return []
        if self._table.is_special(token_id):
            self._note(STRAY_CONTROL)
        return self._say(*self._stream.add(token_id))

    def _open(self, kind: Kind) -> list[Parsed]:
        if self._kind == "header":
            self._name = b"".join(self._table[i] for i in self._held).decode("utf-8", "replace").strip()
            self._held, events = [], []
        else:
            events = self._end(complete=False)
        self._kind = kind
        return events

    def _end(self, *, complete: bool) -> list[Parsed]:
        events: list[Parsed] = []
        match self._kind:
            case "header":
                if self._held:
                    events = self._unframed() + self._say(*self._stream.close())
            case "text" | "thinking":
                events = self._say(*self._stream.close())
            case _:
                raw = self._payload.decode("utf-8", "replace")
                call = read_call(self._name, raw, complete=complete, free_text=self._kind == "call-text")
                events = [self._of_declared(call)]
        self._kind, self._name, self._held, self._payload = "header", "", [], bytearray()
        return events

    def _of_declared(self, call: ToolCall) -> ToolCall:
        """`call`, without its arguments where no such tool was declared."""
        if call.arguments is None or self._declared is None or call.name in self._declared:
            return call
        known = ", ".join(sorted(self._declared)) or "none"
        return ToolCall(name=call.name, arguments=None, raw=call.raw, problem=f"no such tool is declared (declared: {known})")

    def _may_be_name(self) -> bool:
        name = b"".join(self._table[token_id] for token_id in self._held)
        # A character may still be open at the end.
        return not self._table.is_special(self._held[-1]) and AUTHOR_NAME.fullmatch(name.decode("utf-8", "ignore")) is not None

    def _unframed(self) -> list[Parsed]:
        """What was held as a name turns out to be text."""
        self._note(NOT_FRAMED)
        self._kind, held, self._held = "text", self._held, []
        return [event for token_id in held for event in self._say(*self._stream.add(token_id))]

    def _say(self, text: str, token_ids: tuple[int, ...]) -> list[Parsed]:
        if not text:
            return []
        return [Reasoning(text=text, token_ids=token_ids) if self._kind == "thinking" else Text(text=text, token_ids=token_ids)]

    def _note(self, notice: str) -> None:
        if notice not in self.notices:
            self.notices.append(notice)


def read_call(author: str, raw: str, *, complete: bool = True, free_text: bool = False) -> ToolCall:
    """A tool call from its payload: arguments only when the call ended and its JSON is an object with a name and arguments.

    Examples
    --------
    >>> read_call("add", '{"name":"add","args":{"a":1}}').arguments
    {'a': 1}
    >>> read_call("add", '{"name":"add","args":{"a":', complete=False).problem
    'the answer ended before the call did'
    """
    if not complete:
        return ToolCall(name=author, arguments=None, raw=raw, problem="the answer ended before the call did")
    if free_text:
        return ToolCall(name=author, arguments=None, raw=raw, problem="a call in free text, not in JSON")
    try:
        values = json.loads(raw, parse_constant=_no_constant, object_pairs_hook=_no_repeats)
    except ValueError as problem:
        return ToolCall(name=author, arguments=None, raw=raw, problem=f"not JSON: {problem}")
    if not isinstance(values, dict) or not isinstance(values.get("name"), str) or not isinstance(values.get("args"), dict):
        return ToolCall(name=author, arguments=None, raw=raw, problem="not an object with a 'name' and an object 'args'")
    return ToolCall(name=values["name"], arguments=values["args"], raw=raw)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key is given twice")
    return values
