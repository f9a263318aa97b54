"""The grammar of one model turn: which tool calls and which text may be written, and that thinking comes first.

Written as one of xgrammar's structural tags over token ids, for the whole turn from its first token on. Control tokens are named by
id, so no text can pass for one, and a grammar that stands behind a content marker (as vLLM applies it) cannot be walked past by
opening another message. Used for our own route and for vLLM's: what is forced is forced the same way in both. This module knows
neither; it makes a description, the engine compiles it.

    turn     = [thinking <|end_message|> <|message_model|>], then text or calls
    thinking = <|content_thinking|> ordinary tokens, so many at most
    text     = <|content_text|> what was asked for <|end_message|>
    call     = NAME <|content_invoke_tool_json|> {"name":NAME,"args":ARGUMENTS} <|end_message|>
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import BadRequest
from ..protocol import FramingIds
from ..protocol.outputs import MAX_CALLS
from .parsing import AUTHOR_NAME

Format = dict[str, Any]

MAX_WHITESPACE = 32
"""Blanks in a row between two pieces of JSON: enough for any indentation, and an end to a model that writes nothing else."""


THINKING_TOKENS = 16_384
"""Most that a turn which is held to something thinks first, where the request does not bound its answer."""


def thinking_room(effort: float | None, max_tokens: int | None, *, budget: int | None = None) -> int:
    """Tokens that a turn may think before it does what it is held to: none at effort none, else half of the answer at most.

    Parameters
    ----------
    effort : float or None
        As the prompt names it; None where it names none.
    max_tokens : int or None
        What the whole answer may have.
    budget : int, optional
        A thinking budget of the request's own.

    Examples
    --------
    >>> thinking_room(0.9, 200), thinking_room(0.0, 200), thinking_room(0.9, 200, budget=30)
    (100, 0, 30)
    """
    if effort == 0:
        return 0
    room = THINKING_TOKENS if max_tokens is None else min(THINKING_TOKENS, max_tokens // 2)
    return room if budget is None else min(room, budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTool:
    """A tool that a prompt declares; `parameters` is the JSON schema of its arguments."""

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)


class TurnGrammar:
    """Grammars for one tokenizer.

    Parameters
    ----------
    framing : FramingIds
    controls : iterable of int
        Every control token's id: none of them is text.
    """

    def __init__(self, framing: FramingIds, controls: Iterable[int]) -> None:
        self._framing = framing
        self._ordinary: Format = {"type": "any_tokens", "exclude_tokens": sorted(controls)}

    def turn(
        self, *, tools: Sequence[DeclaredTool] = (), choice: str = "auto", parallel: bool = True,
        output: dict[str, Any] | None = None, thinking_tokens: int | None = None,
    ) -> Format | None:  # fmt: skip
        """The structural tag of a turn; None when nothing was asked for that needs one.

        Parameters
        ----------
        tools : sequence of DeclaredTool
        choice : str
            ``auto``, ``none``, ``required``, or the name of a declared tool.
        parallel : bool
            More than one call.
        output : dict, optional
            As :func:`engine.protocol.outputs.checked_output` gives it.
        thinking_tokens : int, optional
            Most tokens of thinking before it, 0 for none: a model that will not do what it is held to thinks for ever otherwise.

        Raises
        ------
        BadRequest
            A tool that is not declared, nothing to call, text and calls both forced, or a schema that cannot be enforced.
        """
        if choice not in ("auto", "none") and output is not None:
            raise BadRequest(f"tool_choice {choice!r} forces a call and output forces a text: ask for one of them")
        if choice in ("auto", "none"):
            if output is None and (choice == "auto" or not tools) and (parallel or not tools):
                return None
            ends = [self._text(content_format(output) if output else self._ordinary)]
            if choice == "auto" and tools:
                ends.append(self._calls(tools, parallel=parallel))
        else:
            ends = [self._calls(chosen(tools, choice), parallel=parallel and choice == "required")]
        turn = _any_of(ends)
        if thinking_tokens != 0:
            bound = {} if thinking_tokens is None else {"max_tokens": thinking_tokens}
            thinking = self._message(self._framing.content_thinking, self._ordinary | bound)
            turn = _sequence({"type": "optional", "content": _sequence(thinking, self._begin())}, turn)
        return {"type": "structural_tag", "format": turn}

    def _begin(self) -> Format:
        return {"type": "token", "token": self._framing.message_model}

    def _message(self, kind: int, *content: Format) -> Format:
        end = {"type": "token", "token": self._framing.end_message}
        return _sequence({"type": "token", "token": kind}, *content, end)

    def _text(self, content: Format) -> Format:
        return self._message(self._framing.content_text, content)

    def _calls(self, tools: Sequence[DeclaredTool], *, parallel: bool) -> Format:
        call = _any_of([self._call(tool) for tool in tools])
        if not parallel:
            return call
        return _sequence(call, {"type": "repeat", "min": 0, "max": MAX_CALLS - 1, "content": _sequence(self._begin(), call)})

    def _call(self, tool: DeclaredTool) -> Format:
        name = json.dumps(tool.name, ensure_ascii=False)
        arguments = json_format(_of_object(tool.parameters), where=f"tool {tool.name!r}")
        payload = (_const(f'{{"name":{name},"args":'), arguments, _const("}"))
        message = self._message(self._framing.content_invoke_tool_json, *payload)
        return _sequence(_const(tool.name), message) if AUTHOR_NAME.fullmatch(tool.name) else message


def chosen(tools: Sequence[DeclaredTool], choice: str) -> Sequence[DeclaredTool]:
    """The tools that a forcing `choice` leaves.

    Raises
    ------
    BadRequest
        There is none.
    """
    if not tools:
        raise BadRequest(f"tool_choice is {choice!r}, but this context declares no tools: add them, or leave tool_choice out")
    if choice == "required":
        return tools
    named = [tool for tool in tools if tool.name == choice]
    if not named:
        known = ", ".join(tool.name for tool in tools)
        raise BadRequest(f"tool_choice is {choice!r}: declared are {known}; or 'auto', 'none', 'required'", tool=choice)
    return named


def content_format(output: dict[str, Any]) -> Format:
    """The format of a text that was asked for (see :func:`engine.protocol.outputs.checked_output`).

    Raises
    ------
    BadRequest
        It cannot be enforced.
    """
    ((kind, value),) = output.items()
    match kind:
        case "regex":
            check_pattern(value)
            return {"type": "regex", "pattern": value}
        case "choice":
            return _any_of([_const(text) for text in value])
    return json_format({"type": "object"} if value is True else value, where="output")


def json_format(schema: dict[str, Any], *, where: str) -> Format:
    """JSON by a schema.

    Raises
    ------
    BadRequest
        Not a JSON schema, or with a keyword that the grammar would pass over in silence.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from vllm.v1.structured_output.backend_xgrammar import has_xgrammar_unsupported_json_features

    if outside := next((ref for ref in _references(schema) if not ref.startswith("#")), None):
        raise BadRequest(f"{where}: its JSON schema refers to {outside[:80]!r}: put that schema into it, under $defs")
    try:
        Draft202012Validator.check_schema(schema)
        refused = has_xgrammar_unsupported_json_features(schema)
    except (SchemaError, RecursionError) as problem:
        said = problem.message if isinstance(problem, SchemaError) else "it is nested too deeply"
        raise BadRequest(f"{where}: not a JSON schema: {said}") from None
    if refused:
        raise BadRequest(
            f"{where}: its JSON schema uses what the grammar cannot enforce (multipleOf, uniqueItems, contains, some formats, "
            "pattern beside a length, propertyNames or patternProperties beside properties, or several schemas in allOf): leave "
            "that out and check it in the answer"
        )
    return {"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": MAX_WHITESPACE}


def check_pattern(pattern: str) -> None:
    """Raise BadRequest unless `pattern` becomes a grammar in reasonable time."""
    import xgrammar
    from vllm.v1.structured_output.utils import compile_regex_with_timeout

    if "\x00" in pattern:
        raise BadRequest("regex holds a NUL character")
    try:
        compile_regex_with_timeout(xgrammar.Grammar.from_regex, pattern)
    except Exception as problem:
        raise BadRequest(f"regex {pattern[:80]!r} cannot be enforced: {' '.join(str(problem).split())[:200]}") from None


def check_tag(tag: Format) -> str:
    """A structural tag as the engine takes it, once xgrammar has read it.

    Raises
    ------
    BadRequest
        It cannot: a schema that refers to something that is not there, for instance.
    """
    import xgrammar

    text = json.dumps(tag, ensure_ascii=False)
    try:
        xgrammar.Grammar.from_structural_tag(text)
    except Exception as problem:
        raise BadRequest(f"what was asked for cannot be enforced: {' '.join(str(problem).split())[:300]}") from None
    return text


def _references(schema: Any) -> Iterator[str]:
    """Every reference in a schema; one that leads elsewhere would be fetched by whoever validates."""
    waiting = [schema]
    while waiting:
        match waiting.pop():
            case dict() as found:
                for key, value in found.items():
                    if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                        yield value
                    waiting.append(value)
            case list() as items:
                waiting += items


def _of_object(schema: dict[str, Any]) -> dict[str, Any]:
    """A call's arguments are an object, also where a declaration does not say so."""
    return schema if "type" in schema else {"type": "object"} | schema


def _const(text: str) -> Format:
    return {"type": "const_string", "value": text}


def _sequence(*elements: Format) -> Format:
    return {"type": "sequence", "elements": list(elements)}


def _any_of(formats: list[Format]) -> Format:
    return formats[0] if len(formats) == 1 else {"type": "or", "elements": formats}
