"""Thinking effort by name or number: one value, checked once.

The chat format carries a number with at most two decimals; 0.99 is its ceiling. An unknown name is an error here, because a
prompt without an effort line is another prompt (vLLM's renderer drops unknown names silently).
"""

from __future__ import annotations

import math
from numbers import Real

from engine.protocol import EFFORTS, MAX_EFFORT

from .errors import EffortError

_ALLOWED = f"allowed are {', '.join(EFFORTS)}, or a number from 0 to {MAX_EFFORT}"


def resolve_effort(value: str | float) -> float:
    """The effort as the number the prompt carries, rounded to two decimals.

    Raises
    ------
    EffortError
        An unknown name, a truth value, or a number outside 0 to 0.99.

    Examples
    --------
    >>> resolve_effort("high"), resolve_effort(0.1 + 0.2), resolve_effort("max")
    (0.9, 0.3, 0.99)
    """
    if isinstance(value, str):
        if value not in EFFORTS:
            raise EffortError(f"unknown thinking effort {value!r}: {_ALLOWED}", effort=value)
        return EFFORTS[value]
    # True is a number to Python and nonsense here; Real covers NumPy's scalars.
    if isinstance(value, bool) or not isinstance(value, Real):
        raise EffortError(f"a thinking effort cannot be {value!r} ({type(value).__name__}): {_ALLOWED}", effort=repr(value))
    number = float(value)
    if not math.isfinite(number) or not 0.0 <= number <= MAX_EFFORT:
        raise EffortError(f"thinking effort {value!r} is out of range: {_ALLOWED}", effort=repr(value))
    return abs(round(number, 2))


def effort_text(effort: float) -> str:
    """The words of the effort message.

    Examples
    --------
    >>> effort_text(0.0), effort_text(0.7), effort_text(0.99)
    ('Thinking effort level: 0.0', 'Thinking effort level: 0.7', 'Thinking effort level: 0.99')
    """
    shown = f"{effort:.2f}".rstrip("0")
    return f"Thinking effort level: {shown + '0' if shown.endswith('.') else shown}"
