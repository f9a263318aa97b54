"""Forced tool choice and structured output on vLLM's own routes: the same grammar as on ours, through vLLM's seam for parsers.

vLLM 0.32 takes ``required`` and a named tool for a wish with Inkling, and applies a schema behind the first text marker only, which
a model that opens another message walks past. A tool parser of its own name (``--tool-call-parser``) may adjust a request before it
runs; this one puts the whole turn's grammar there and leaves the reading of answers to vLLM's Inkling parser. Known to vLLM by
:func:`register`, in the API process; ``enable_in_reasoning`` has the grammar hold from the first token on. This module knows no
HTTP: a BadRequest leaves as vLLM's own validation error.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ..errors import BadRequest
from .chat_bodies import effort_of
from .describe import framing_of
from .token_bytes import TokenBytes
from .turn_grammar import DeclaredTool, TurnGrammar, check_tag, thinking_room

NAME = "inkling-held"
"""What the parser is called among vLLM's."""

CLASS = "HeldToolParser"

OPTIONS = ("--structured-outputs-config", '{"backend": "xgrammar", "enable_in_reasoning": true}')
"""One backend, which knows token ids (vLLM otherwise keeps the one the first request needed), and from the first token on."""


def register() -> None:
    """Make the parser known to vLLM in this process; repeatable."""
    from vllm.tool_parsers import ToolParserManager

    ToolParserManager.register_lazy_module(NAME, __name__, CLASS)


def adjust(request: Any, grammar: TurnGrammar) -> None:
    """Put the grammar of what `request` (chat or responses) asks for in the place of its own constraints, in place.

    Raises
    ------
    BadRequest
        It cannot be enforced.
    """
    from vllm.sampling_params import StructuredOutputsParams

    held = request.extract_structured_outputs()
    if held is not None and (held.grammar is not None or held.structural_tag is not None):
        return  # a grammar of the caller's own: it is the turn's, from its first token
    tag = grammar.turn(
        tools=_declared(request.tools), choice=_choice(request.tool_choice), parallel=request.parallel_tool_calls is not False,
        output=None if held is None else _output(held), thinking_tokens=_thinking(request),
    )  # fmt: skip
    if tag is None:
        return
    request.structured_outputs = StructuredOutputsParams(structural_tag=check_tag(tag))
    # Taken over: vLLM would refuse two constraints.
    for name in ("response_format", "text"):
        if hasattr(request, name):
            setattr(request, name, None)


def _declared(tools: Any) -> list[DeclaredTool]:
    functions = (getattr(tool, "function", tool) for tool in tools or ())
    return [
        DeclaredTool(name=function.name, parameters=dict(function.parameters or {}))
        for function in functions
        if hasattr(function, "parameters")
    ]


def _choice(choice: Any) -> str:
    """OpenAI's tool choice as ours; none is what vLLM takes a missing one for where there are no tools."""
    if choice is None:
        return "auto"
    if isinstance(choice, str):
        return choice
    name = getattr(getattr(choice, "function", choice), "name", None)
    if not isinstance(name, str):
        raise BadRequest("this tool_choice is not supported here: 'auto', 'none', 'required' or one function by name")
    return name


def _thinking(request: Any) -> int:
    """What a request leaves for thinking; bodies say the effort in one place by now (:mod:`.chat_bodies`)."""
    named = getattr(request, "reasoning_effort", None) or getattr(getattr(request, "reasoning", None), "effort", None)
    named = (getattr(request, "chat_template_kwargs", None) or {}).get("reasoning_effort", named)
    lengths = (getattr(request, name, None) for name in ("max_completion_tokens", "max_tokens", "max_output_tokens"))
    return thinking_room(
        None if named is None else effort_of(named, "reasoning_effort"), next(filter(None, lengths), None),
        budget=getattr(request, "thinking_token_budget", None),
    )  # fmt: skip


def _output(held: Any) -> dict[str, Any]:
    import json

    if held.json is not None:
        return {"json": json.loads(held.json) if isinstance(held.json, str) else held.json}
    if held.regex is not None:
        return {"regex": held.regex}
    if held.choice is not None:
        return {"choice": list(held.choice)}
    return {"json": True}


@cache
def _grammar(tokenizer: Any) -> TurnGrammar:
    return TurnGrammar(framing_of(tokenizer), TokenBytes(tokenizer).special_ids())


def __getattr__(name: str) -> Any:
    """The parser class, made when vLLM asks for it: its base is heavy to import."""
    if name != CLASS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = _parser_class()
    globals()[CLASS] = made
    return made


def _parser_class() -> type:
    from vllm.exceptions import VLLMValidationError
    from vllm.tool_parsers.inkling_tool_parser import InklingEngineToolParser

    class HeldToolParser(InklingEngineToolParser):  # type: ignore[valid-type, misc]
        """vLLM's Inkling parser that also holds the model to what was asked for."""

        def adjust_request(self, request: Any) -> Any:
            request = super().adjust_request(request)
            try:
                adjust(request, _grammar(self.model_tokenizer))
            except BadRequest as problem:
                raise VLLMValidationError(problem.message) from problem
            return request

    return HeldToolParser
