"""What a chat body for ``/v1`` says of thinking, brought to the one form that vLLM's renderer keeps.

vLLM takes efforts by name in one field and by number in another, drops one that it does not know (and with it the prompt's effort
line), and passes over the switches by which other models turn thinking off. Here both spellings give the same prompt, and what
would be dropped is refused. Bodies that say nothing of it are not touched. Pure: JSON values in, JSON values out.
"""

from __future__ import annotations

import math
from typing import Any

from ..errors import BadRequest
from ..protocol import EFFORTS, MAX_EFFORT

PATHS = ("/v1/chat/completions", "/v1/responses")

_ALLOWED = f"{', '.join(EFFORTS)}, or a number from 0 to {MAX_EFFORT}"

OBJECTS = ("structured_outputs", "response_format", "kv_transfer_params", "stream_options", "chat_template_kwargs")
"""Fields of vLLM's bodies that it looks into before it checks what they are: something else would be answered as its own fault."""

_SWITCHES = ("thinking", "enable_thinking")
"""Keywords of other models' chat templates."""


def check_objects(values: dict[str, Any]) -> None:
    """Raise BadRequest where a field that has to be an object is something else."""
    wrong = next((name for name in OBJECTS if not isinstance(values.get(name), dict | None)), None)
    if wrong:
        raise BadRequest(f"{wrong} is {str(values[wrong])[:40]}: it has to be an object", field=wrong)


def with_effort(values: dict[str, Any]) -> dict[str, Any]:
    """A body whose thinking effort is where vLLM's renderer reads it; `values` itself when nothing has to change.

    Raises
    ------
    BadRequest
        An effort that is none, two that differ, a switch that would be passed over, or a budget of no thinking at all.

    Examples
    --------
    >>> with_effort({"reasoning_effort": 0.7})
    {'chat_template_kwargs': {'reasoning_effort': 0.7}}
    >>> with_effort({"reasoning_effort": "high"})
    {'reasoning_effort': 'high'}
    """
    keywords = values.get("chat_template_kwargs")
    keywords = keywords if isinstance(keywords, dict) else {}
    for name in _SWITCHES:
        if name in keywords:
            raise BadRequest(f"chat_template_kwargs.{name} has no meaning for Inkling: use reasoning_effort ({_ALLOWED})")
    if values.get("thinking_token_budget") == 0:
        raise BadRequest("thinking_token_budget 0 makes Inkling open empty thinking over and over: use reasoning_effort 'none'")
    places = _efforts(values)
    given = {place: effort_of(value, place) for place, value in places.items()}
    if len(set(given.values())) > 1:
        raise BadRequest(f"the request names two thinking efforts, {' and '.join(given)}: leave one out")
    if not given or (len(given) == 1 and isinstance(values.get("reasoning_effort"), str)):
        return values
    changed = {key: value for key, value in values.items() if key != "reasoning_effort"}
    if isinstance(reasoning := changed.get("reasoning"), dict):
        changed["reasoning"] = {key: value for key, value in reasoning.items() if key != "effort"}
    return changed | {"chat_template_kwargs": keywords | {"reasoning_effort": next(iter(given.values()))}}


def effort_of(value: Any, place: str) -> float:
    """An effort as a number, rounded as the prompt has it.

    Raises
    ------
    BadRequest
        It is none.
    """
    if isinstance(value, str) and value in EFFORTS:
        return EFFORTS[value]
    if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and 0 <= value <= MAX_EFFORT):
        raise BadRequest(f"{place} is {value!r}: allowed are {_ALLOWED}", effort=repr(value)[:40])
    return abs(round(float(value), 2))


def _efforts(values: dict[str, Any]) -> dict[str, Any]:
    """Every effort a body names, by the field it stands in."""
    found = {"reasoning_effort": values.get("reasoning_effort")}
    for outer, name in (("reasoning", "effort"), ("chat_template_kwargs", "reasoning_effort")):
        inner = values.get(outer)
        found[f"{outer}.{name}"] = inner.get(name) if isinstance(inner, dict) else None
    return {place: value for place, value in found.items() if value is not None}
