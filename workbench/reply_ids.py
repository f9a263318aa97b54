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
    """Neighbouring ids of one kind; `closes` is 1 when the run ends a message."""

    kind: RunKind
    ids: NDArray[np.uint32]
    closes: int = 0


def runs(ids: NDArray[np.uint32], framing: FramingIds) -> list[Run]:
    """Split sampled ids into runs that join to exactly `ids`.

    A name between role and kind is framing; text that no kind announces (a model that breaks the format) is text all the same. A
    run of framing ids ends behind every ``end_message``, so that each message keeps its own.
    """
    kinds: dict[int, RunKind] = {
        framing.content_text: "text", framing.content_thinking: "thinking",
        framing.content_invoke_tool_json: "call", framing.content_invoke_tool_text: "call",
    }  # fmt: skip
    special = np.flatnonzero(ids >= first_special_id()).tolist()
    found: list[Run] = []
    state: RunKind | None = None
    frame_from = at = 0

    def close_frame(stop: int, closes: int = 0) -> None:
        nonlocal frame_from
        if stop > frame_from:
            found.append(Run("framing", ids[frame_from:stop], closes))
        frame_from = stop

    for position in [*special, len(ids)]:
        announced = position < len(ids) and int(ids[position]) in kinds
        if position > at and (state is not None or not announced):
            close_frame(at)
            found.append(Run(state or "text", ids[at:position]))
            frame_from = position
        if position < len(ids):
            state, at = kinds.get(int(ids[position])), position + 1
            if ids[position] == framing.end_message:
                close_frame(at, closes=1)
    close_frame(len(ids))
    return found


def missing_end(ids: NDArray[np.uint32], framing: FramingIds) -> tuple[int, ...]:
    """Framing ids that an unfinished turn (cut by `max_tokens`, or stopped before its end was reported) still needs."""
    if len(ids) and ids[-1] == framing.content_model_end_sampling:
        return ()
    closed = len(ids) > 0 and ids[-1] == framing.end_message
    return (framing.content_model_end_sampling,) if closed else (framing.end_message, framing.content_model_end_sampling)
