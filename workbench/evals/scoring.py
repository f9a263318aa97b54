"""When an answer is right, and how sure a rate is.

The demo must write exactly what it was taught; other engines may say the value in their own words. Knows no engine and no files.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.protocol import Reply

if TYPE_CHECKING:
    from engine.demo.train.skills.items import Answer

Z_95 = 1.959963984540054
"""Half width of 95 % of a normal distribution, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Right answers of all cases."""

    right: int
    cases: int

    @property
    def share(self) -> float:
        """Right of all; not a number without cases."""
        return self.right / self.cases if self.cases else math.nan

    def interval(self) -> tuple[float, float]:
        """Wilson's score interval at 95 %; everything from 0 to 1 without cases.

        Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.

        Examples
        --------
        >>> [round(edge, 4) for edge in Rate(194, 200).interval()]
        [0.9361, 0.9862]
        """
        n = self.cases
        if not n:
            return 0.0, 1.0
        p, z = self.share, Z_95
        centre, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, (centre - half) / (1 + z * z / n)), min(1.0, (centre + half) / (1 + z * z / n))


def exactly(wanted: Answer, reply: Reply, *, thinks: bool) -> bool:
    """Whether the reply is the wanted one, word for word, with a thinking message exactly where the effort asks for one."""
    if bool(reply.reasoning.strip()) != thinks:
        return False
    if wanted.call is not None:
        return _called(wanted, reply) and not reply.text.strip()
    return not reply.tool_calls and reply.text == wanted.text


def loosely(wanted: Answer, reply: Reply) -> bool:
    """Whether the reply says the wanted value, however it puts it; a tool call must be the wanted one."""
    if wanted.call is not None:
        return _called(wanted, reply)
    if reply.tool_calls:
        return False
    value, said = wanted.value or value_of(wanted.text), _plain(reply.text)
    if wanted.spelled and re.fullmatch(r"[\d*#]+", value):
        # Digits may be set apart: "3 1 8", "3-1-8".
        return re.sub(r"[^\d*#]", "", said) == value
    return re.search(rf"(?<!\w){re.escape(_plain(value))}(?!\w)", said) is not None


def _called(wanted: Answer, reply: Reply) -> bool:
    assert wanted.call is not None
    name, arguments = wanted.call
    return [(call.name, call.arguments) for call in reply.tool_calls] == [(name, dict(arguments))]


def value_of(text: str) -> str:
    """What an answer states, without its frame.

    Examples
    --------
    >>> value_of("It is a red circle."), value_of("It is not stated."), value_of("Yes.")
    ('red circle', 'not stated', 'Yes')
    """
    return re.sub(r"^(It is )?(a |the |at )?", "", text).removesuffix(".")


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().casefold()
