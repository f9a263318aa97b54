"""Reading a model's sampled ids back: which are framing, which are text, thinking or a call, and what an unfinished turn lacks.

By token id, never by matching text, so control spellings that the model wrote as text stay text. The ids follow the bare model
token the prompt ended with. This module decides nothing about tool calls' contents (see ``engine.protocol.ToolCall``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.protocol import FramingIds

from .tokens import first_special_id

RunKind = Literal["framing", "text", "thinking", "call"]


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring ids of one kind; `closes` is 1 when the run ends a message, and `author` names who wrote a content run."""

    kind: RunKind
    ids: NDArray[np.uint32]
    closes: int = 0
    author: NDArray[np.uint32] | None = None


def runs(ids: NDArray[np.uint32], framing: FramingIds) -> list[Run]:
    """Split sampled ids into runs that join to exactly `ids`; names between role and kind count as framing.

    A run of framing ids ends behind every ``end_message``, so that each message keeps its own.
    """
    kinds: dict[int, RunKind] = {
        framing.content_text: "text", framing.content_thinking: "thinking",
        framing.content_invoke_tool_json: "call", framing.content_invoke_tool_text: "call",
    }  # fmt: skip
    special = np.flatnonzero(ids >= first_special_id())
    found: list[Run] = []
    state: RunKind = "framing"
    frame_from = at = 0
    author = ids[:0]

    def close_frame(stop: int, closes: int = 0) -> None:
        nonlocal frame_from
        if stop > frame_from:
            found.append(Run("framing", ids[frame_from:stop], closes))
        frame_from = stop

    for position in [*special.tolist(), len(ids)]:
        if position > at:
            if state == "framing":
                author = ids[at:position]
            else:
                close_frame(at)
                found.append(Run(state, ids[at:position], 0, author))
                frame_from = position
        if position == len(ids):
            break
        token = int(ids[position])
        at = position + 1
        state = kinds.get(token, "framing")
        if token == framing.message_model:
            author = ids[:0]
        if token == framing.end_message:
            close_frame(at, closes=1)
            author = ids[:0]
    close_frame(len(ids))
    return found


def missing_end(ids: NDArray[np.uint32], framing: FramingIds) -> tuple[int, ...]:
    """Framing ids that an unfinished turn (cut by `max_tokens`, or stopped before its end was reported) still needs."""
    if len(ids) and ids[-1] == framing.content_model_end_sampling:
        return ()
    closed = len(ids) > 0 and ids[-1] == framing.end_message
    return (framing.content_model_end_sampling,) if closed else (framing.end_message, framing.content_model_end_sampling)
