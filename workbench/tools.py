"""Tool declarations and tool calls as the chat format spells them: sorted, compact JSON.

Accepts OpenAI's shape (``{"type": "function", "function": {...}}``) and the bare function. What the format has no words for is
refused when the tool is declared, not when it is sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from engine.protocol import ToolCall

from .errors import MessageError


def canonical_json(value: Any, *, what: str) -> str:
    """Sorted, compact JSON, no NaN; `what` names the value in the error."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError) as problem:
        raise MessageError(f"{what} is not JSON: {problem}") from problem


def declare(tools: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Checked declarations, in the order given: ``{description, name, parameters, type}`` each.

    Raises
    ------
    MessageError
        A tool without a name, two of one name, or parameters that are no JSON object.
    """
    found: list[dict[str, Any]] = []
    for index, tool in enumerate(tools):
        if not isinstance(tool, Mapping):
            raise MessageError(f"tool {index} is a {type(tool).__name__}: give a mapping with name, description and parameters")
        function = tool.get("function", tool)
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not name:
            raise MessageError(f"tool {index} has no name: give a mapping with name, description and parameters")
        parameters = function.get("parameters") or {}
        if not isinstance(parameters, Mapping):
            raise MessageError(f"the parameters of tool {name!r} must be a JSON schema object, not a {type(parameters).__name__}")
        if any(name == other["name"] for other in found):
            raise MessageError(f"two tools are called {name!r}: rename one")
        kind = tool.get("type", "function") if "function" in tool else "function"
        spec = {"description": function.get("description") or "", "name": name, "parameters": dict(parameters), "type": kind}
        # Read back, so that the declaration is plain JSON of its own and a later change to the caller's dict changes nothing.
        found.append(json.loads(canonical_json(spec, what=f"tool {name!r}")))
    return tuple(found)


def call_json(name: str, arguments: Mapping[str, Any]) -> str:
    """Text of a tool call message.

    Examples
    --------
    >>> call_json("add", {"b": 2, "a": 1})
    '{"name":"add","args":{"a":1,"b":2}}'
    """
    return f'{{"name":{json.dumps(name, ensure_ascii=False)},"args":{canonical_json(arguments, what=f"arguments of {name!r}")}}}'


def checked_call(call: ToolCall | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and arguments of a call written by hand or made by the model.

    Raises
    ------
    MessageError
        No name, or arguments that could not be read: such a call cannot be sent again as JSON.
    """
    if isinstance(call, ToolCall):
        name, arguments = call.name, call.arguments
    elif isinstance(call, Mapping):
        name, arguments = call.get("name"), call.get("arguments", {})
    else:
        raise MessageError(f"a tool call is a ToolCall or a mapping with name and arguments, not a {type(call).__name__}")
    if not isinstance(name, str) or not name or not isinstance(arguments, Mapping):
        raise MessageError(f"a tool call needs a name and an object of arguments, not {name!r} and {arguments!r}")
    return name, json.loads(canonical_json(arguments, what=f"arguments of {name!r}"))
