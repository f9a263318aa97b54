"""What a prompt begins with, read back from its token ids: the tools it declares, and its thinking effort.

What was shown to the model is what can be forced; nothing a client says beside the ids is believed. A prompt begins with its system
messages: one by ``tool_declare`` with the declarations as JSON, the system text, and a line for the effort; whoever rendered it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..protocol import FramingIds
from .token_bytes import TokenBytes
from .turn_grammar import DeclaredTool

AUTHOR = b"tool_declare"

_EFFORT = re.compile(rb"Thinking effort level: (\d+(?:\.\d+)?)")

_MOST_NAME_TOKENS = 8
_MOST_EFFORT_TOKENS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptHead:
    """A prompt's declarations; `effort` is None where none is named."""

    tools: tuple[DeclaredTool, ...] = ()
    effort: float | None = None


def read_head(token_ids: NDArray[np.uint32], framing: FramingIds, table: TokenBytes) -> PromptHead:
    """What the leading system messages of a prompt declare; nothing of those that are not as described.

    Parameters
    ----------
    token_ids : ndarray of uint32, shape (t,)
    """
    tools: tuple[DeclaredTool, ...] = ()
    effort = None
    for author, kind, payload in _system_messages(token_ids, framing):
        if kind == framing.content_xml and _bytes(author, table) == AUTHOR:
            tools = _tools(_bytes(payload, table))
        elif kind == framing.content_text and (found := _EFFORT.fullmatch(_bytes(payload[:_MOST_EFFORT_TOKENS], table))):
            effort = float(found[1])
    return PromptHead(tools=tools, effort=effort)


def _system_messages(ids: NDArray[np.uint32], framing: FramingIds) -> Iterator[tuple[NDArray[np.uint32], int, NDArray[np.uint32]]]:
    """Author, kind and payload of every message before the first that is not the system's."""
    at = 0
    while at < len(ids) and int(ids[at]) == framing.message_system:
        kinds = np.flatnonzero(np.isin(ids[at + 1 : at + 2 + _MOST_NAME_TOKENS], (framing.content_xml, framing.content_text)))
        ends = np.flatnonzero(ids[at:] == framing.end_message)
        if not len(kinds) or not len(ends):
            return
        kind, end = at + 1 + int(kinds[0]), at + int(ends[0])
        yield ids[at + 1 : kind], int(ids[kind]), ids[kind + 1 : end]
        at = end + 1


def _bytes(ids: NDArray[np.uint32], table: TokenBytes) -> bytes:
    return b"".join(table[int(token)] for token in ids)


def _tools(text: bytes) -> tuple[DeclaredTool, ...]:
    try:
        return tuple(_tool(item) for item in json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ()


def _tool(item: dict) -> DeclaredTool:
    function = item.get("function", item)
    name, parameters = function["name"], function.get("parameters") or {}
    if not isinstance(name, str) or not isinstance(parameters, dict):
        raise TypeError("not a declaration")
    return DeclaredTool(name=name, parameters=parameters)
