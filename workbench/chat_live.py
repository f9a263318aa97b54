"""The answer under way, as a page shows it: waiting, reading the prompt with the time left, then the words as they come.

Built of the engine's events, one after the other; JSON values out. Knows no conversation, no thread and no page.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from engine.protocol import Done, PrefillProgress, Reasoning, Text, ToolCall

if TYPE_CHECKING:
    from engine.protocol import Event, Reply

SEEN_S = 0.2
"""A speed is told after the prompt was read for so long."""


class LiveAnswer:
    """What has come of one answer.

    Attributes
    ----------
    state : dict
        ``phase`` (waiting, reading, thinking, writing), ``text``, ``reasoning``; while the prompt is read also ``done_tokens``,
        ``total_tokens`` and ``left_s``, the seconds left at the speed seen, or None.
    """

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"phase": "waiting", "text": "", "reasoning": ""}
        self._read_from: tuple[int, float] | None = None

    def take(self, event: Event) -> Reply | None:
        """Take one event in; the last one gives the reply."""
        state = self.state
        match event:
            case PrefillProgress(done_tokens=done, total_tokens=total, waiting=waiting):
                if not waiting and self._read_from is None:
                    self._read_from = (done, time.monotonic())
                left_s = None if waiting else self._left_s(done, total)
                phase = "waiting" if waiting else "reading"
                self.state = state | {"phase": phase, "done_tokens": done, "total_tokens": total, "left_s": left_s}
            case Text(text=text):
                self.state = state | {"phase": "writing", "text": state["text"] + text}
            case Reasoning(text=text):
                self.state = state | {"phase": "thinking", "reasoning": state["reasoning"] + text}
            case ToolCall(name=name):
                self.state = state | {"phase": "writing", "text": state["text"] + f"[calls {name}]"}
            case Done(reply=reply):
                return reply
        return None

    def left(self, *, broken: bool = False) -> dict[str, Any]:
        """What had come, as a turn that is none: stopped by the reader, or `broken` off by the engine."""
        kept = {name: self.state[name] for name in ("text", "reasoning")}
        return {"id": "stopped", "role": "stopped", "broken": broken, **kept}

    def _left_s(self, done: int, total: int) -> float | None:
        if self._read_from is None:
            return None
        read, passed = done - self._read_from[0], time.monotonic() - self._read_from[1]
        return round((total - done) * passed / read, 1) if read > 0 and passed > SEEN_S else None
