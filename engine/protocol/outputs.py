"""What an answer may be asked to be: JSON by a schema, text by a pattern, one of some choices; and which tools it must call.

Form only, so that both sides of the wire refuse the same things before anything is sent: whether a schema can be enforced, and
whether a tool is declared, the engine says. Values are plain JSON, because they travel and are stamped on the reply.
"""

from __future__ import annotations

import json
from typing import Any

KINDS = ("json", "regex", "choice")

MAX_SCHEMA_BYTES = 65_536
MAX_PATTERN_CHARACTERS = 2_000
MAX_CHOICES = 1_000
MAX_TOOL_NAME_CHARACTERS = 128
MAX_CALLS = 16
"""Tool calls in one forced turn: a model that calls for ever is stopped here."""


def checked_output(values: Any) -> dict[str, Any]:
    """`values` if they ask for one kind of output.

    Parameters
    ----------
    values : dict
        ``{"json": SCHEMA}`` (a JSON schema, or True for any object), ``{"regex": PATTERN}`` or ``{"choice": [TEXT, …]}``.

    Raises
    ------
    ValueError
        What is wrong, and what is allowed.

    Examples
    --------
    >>> checked_output({"choice": ["yes", "no"]})
    {'choice': ['yes', 'no']}
    """
    if not isinstance(values, dict) or len(values) != 1 or (kind := next(iter(values))) not in KINDS:
        given = ", ".join(map(repr, values)) if isinstance(values, dict) else repr(values)[:80]
        raise ValueError(f"an output is asked for by exactly one of {', '.join(KINDS)}, not by {given or 'nothing'}")
    value = values[kind]
    match kind:
        case "json":
            _check_schema(value)
        case "regex":
            if not isinstance(value, str) or not 0 < len(value) <= MAX_PATTERN_CHARACTERS:
                raise ValueError(f"regex is a pattern of 1 to {MAX_PATTERN_CHARACTERS:,} characters")
        case "choice":
            if not isinstance(value, list | tuple) or not 0 < len(value) <= MAX_CHOICES:
                raise ValueError(f"choice is a list of 1 to {MAX_CHOICES:,} texts")
            if not all(isinstance(text, str) and text for text in value):
                raise ValueError("every choice is a text with at least one character")
            value = list(value)
    return {kind: value}


def checked_tool_choice(value: Any) -> str:
    """`value` if it is ``auto``, ``none``, ``required`` or what a tool may be called.

    Raises
    ------
    ValueError
        It is none of them.
    """
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TOOL_NAME_CHARACTERS:
        raise ValueError("tool_choice is 'auto', 'none', 'required' or the name of a declared tool")
    return value


def _check_schema(value: Any) -> None:
    if value is not True and not isinstance(value, dict):
        raise ValueError("json is a JSON schema (an object), or true for any object")
    try:
        size = len(json.dumps(value, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError) as problem:
        raise ValueError(f"the JSON schema is not JSON: {problem}") from None
    if size > MAX_SCHEMA_BYTES:
        raise ValueError(f"the JSON schema has {size:,} bytes, at most {MAX_SCHEMA_BYTES:,} are taken")
