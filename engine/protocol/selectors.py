"""Token selectors: words, positions, ranges and spans, as sorted ranges of a context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import CaptureRefused


@dataclass(frozen=True, slots=True, order=True)
class TokenRange:
    """Tokens `start` (included) to `stop` (excluded)."""

    start: int
    stop: int


def token_ranges(selector: Any, tokens: int, *, reply_tokens: int = 0, what: str = "tokens") -> tuple[TokenRange, ...]:
    """A token selector as sorted ranges that do not touch.

    Parameters
    ----------
    selector : Tokens
    tokens, reply_tokens : int
        Length of the context, and how many of its last tokens are the reply's.

    Raises
    ------
    CaptureRefused
        Nothing selected, a token outside, or ``"reply"`` without one.

    Examples
    --------
    >>> token_ranges((3, 4, range(8, 10)), 10)
    (TokenRange(start=3, stop=5), TokenRange(start=8, stop=10))
    """
    if isinstance(selector, str):
        if selector == "reply" and not reply_tokens:
            raise CaptureRefused('tokens "reply" need a reply: capture(reply) has one, a context has none')
        starts = {"all": 0, "last": tokens - 1, "reply": tokens - reply_tokens}
        return (TokenRange(starts[selector], tokens),)
    ordered = sorted(pieces(selector))
    found: list[TokenRange] = []
    for start, stop in ordered:
        if start < 0 or stop > tokens:
            raise CaptureRefused(
                f"{what} selects token {start if start < 0 else max(start, stop - 1)}; there are tokens 0 to {tokens - 1}",
                tokens=tokens,
            )
        if found and start <= found[-1].stop:
            found[-1] = TokenRange(found[-1].start, max(stop, found[-1].stop))
        elif stop > start:
            found.append(TokenRange(start, stop))
    if not found:
        raise CaptureRefused(f"{what} selects no token")
    return tuple(found)


def pieces(selector: Any) -> list[tuple[int, int]]:
    """Start and stop of everything a selector that is no word names, as it stands."""
    if isinstance(selector, int):
        return [(selector, selector + 1)]
    if isinstance(selector, range):
        if selector.step != 1:
            return [(t, t + 1) for t in selector]
        return [(selector.start, selector.stop)]
    if hasattr(selector, "start") and hasattr(selector, "stop"):
        return [(int(selector.start or 0), int(selector.stop))]
    return [piece for item in selector for piece in pieces(item)]
