"""Widgets for notebooks: one folder each, Python next to its ES module.

``from widgets import RoutingMap``; names are loaded on first use, because notebook libraries are heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .routing_map.widget import RoutingMap

__all__ = ["RoutingMap"]


def __getattr__(name: str) -> Any:
    if name == "RoutingMap":
        from .routing_map.widget import RoutingMap

        return RoutingMap
    raise AttributeError(f"module 'widgets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
