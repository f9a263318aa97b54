"""What a request forces of its answer, and whether the answer kept to it.

Worked out before anything runs, from the context's own ids; a grammar holds the sampling to it, and the finished answer is looked
at once more by other means: a schema by jsonschema, a call by our parser. An answer that was cut short, or is not what was asked
for, is an error that carries the text, never a result.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ..errors import OutputInvalid
from ..protocol import Reply, Sampling, ToolCall
from .contexts import StoredContext
from .prompt_head import read_head
from .state import KernelState
from .turn_grammar import DeclaredTool, TurnGrammar, check_tag, thinking_room


@dataclass(frozen=True, slots=True, kw_only=True)
class Forced:
    """What one answer is held to.

    Attributes
    ----------
    tools : tuple of DeclaredTool
        What the prompt declares.
    tag : str or None
        The turn's grammar as vLLM takes it; None leaves the model free.
    """

    tools: tuple[DeclaredTool, ...]
    tag: str | None = None
    choice: str = "auto"
    output: dict[str, Any] | None = None

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.tools)


def forced(state: KernelState, context: StoredContext, options: Sampling) -> Forced:
    """What `options` force of the answer to `context`.

    Raises
    ------
    BadRequest
        It cannot be forced; nothing was started. Cost: compiles a pattern or a schema; call it off the event loop.
    """
    head = read_head(context.token_ids, state.framing, state.table)
    tag = TurnGrammar(state.framing, state.table.special_ids()).turn(
        tools=head.tools, choice=options.tool_choice, parallel=options.parallel_tool_calls, output=options.output,
        thinking_tokens=thinking_room(head.effort, options.max_tokens),
    )  # fmt: skip
    return Forced(tools=head.tools, tag=check_tag(tag) if tag else None, choice=options.tool_choice, output=options.output)


def check_reply(wanted: Forced, reply: Reply) -> None:
    """Raise OutputInvalid unless `reply` is what was forced; one that was aborted is nobody's any more."""
    if wanted.tag is None or reply.finish_reason == "abort":
        return
    if problem := _problem(wanted, reply):
        cut = " It was cut at max_tokens: allow more." if reply.finish_reason == "length" else ""
        raise OutputInvalid(
            f"the answer is not what was asked for: {problem}.{cut} Its text is in the error's detail",
            text=reply.text, reasoning=reply.reasoning, calls=[call.raw for call in reply.tool_calls],
            finish_reason=reply.finish_reason, completion_tokens=reply.usage.completion_tokens, request_id=reply.request_id,
        )  # fmt: skip


def _problem(wanted: Forced, reply: Reply) -> str | None:
    if bad := next((call for call in reply.tool_calls if call.arguments is None), None):
        return f"a call of {bad.name!r} cannot be used ({bad.problem})"
    if wanted.choice not in ("auto", "none"):
        return _calls_problem(wanted, reply.tool_calls)
    if wanted.output is None or reply.tool_calls:
        return "the turn did not end" if reply.finish_reason == "length" and wanted.output is not None else None
    return output_problem(wanted.output, reply.text, ended=reply.finish_reason == "stop")


def _calls_problem(wanted: Forced, calls: tuple[ToolCall, ...]) -> str | None:
    if not calls:
        return f"tool_choice was {wanted.choice!r} and no tool was called"
    allowed = wanted.names if wanted.choice == "required" else {wanted.choice}
    other = next((call.name for call in calls if call.name not in allowed), None)
    return f"{other!r} was called, tool_choice was {wanted.choice!r}" if other else None


def output_problem(output: dict[str, Any], text: str, *, ended: bool) -> str | None:
    """Why `text` is not the output that was asked for; None when it is.

    Parameters
    ----------
    ended : bool
        The model ended its turn, which the grammar allows behind a whole output only.

    Examples
    --------
    >>> output_problem({"choice": ["yes", "no"]}, "ye", ended=False)
    "'ye' is not one of the choices"
    """
    ((kind, value),) = output.items()
    match kind:
        case "choice":
            return None if text in value else f"{text[:80]!r} is not one of the choices"
        case "regex":
            return None if ended else "it ended before the pattern did"
    from jsonschema import Draft202012Validator
    from referencing import Registry

    try:
        found = json.loads(text)
    except ValueError as problem:
        return f"it is no JSON ({problem})"
    schema = {"type": "object"} if value is True else value
    error = next(Draft202012Validator(schema, registry=Registry()).iter_errors(found), None)  # an empty registry fetches nothing
    return None if error is None else f"it does not fit the schema: {error.message[:200]} at {error.json_path}"
