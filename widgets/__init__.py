"""Widgets for notebooks: one folder each, Python next to its ES module.

``from widgets import RoutingMap``; names are loaded on first use, because notebook libraries are heavy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._linking import link
    from .attention_view.widget import AttentionView
    from .chat.widget import Chat
    from .composer.widget import Composer
    from .engine_status.widget import EngineStatus
    from .routing_map.widget import RoutingMap
    from .sconv_view.widget import SconvView
    from .span_table.widget import SpanTable

__all__ = ["AttentionView", "Chat", "Composer", "EngineStatus", "RoutingMap", "SconvView", "SpanTable", "link"]

_PLACES = {
    "AttentionView": ".attention_view.widget", "Chat": ".chat.widget", "Composer": ".composer.widget",
    "EngineStatus": ".engine_status.widget", "RoutingMap": ".routing_map.widget", "SconvView": ".sconv_view.widget",
    "SpanTable": ".span_table.widget", "link": "._linking",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name], __name__), name)
    raise AttributeError(f"module 'widgets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
