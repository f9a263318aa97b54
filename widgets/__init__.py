"""Widgets for notebooks: one folder each, Python next to its ES module.

``from widgets import RoutingMap``; names are loaded on first use, because notebook libraries are heavy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._linking import link
    from .chat.widget import Chat
    from .engine_status.widget import EngineStatus
    from .routing_map.widget import RoutingMap
    from .span_table.widget import SpanTable

__all__ = ["Chat", "EngineStatus", "RoutingMap", "SpanTable", "link"]

_PLACES = {
    "Chat": ".chat.widget",
    "EngineStatus": ".engine_status.widget", "RoutingMap": ".routing_map.widget", "SpanTable": ".span_table.widget",
    "link": "._linking",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name], __name__), name)
    raise AttributeError(f"module 'widgets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
