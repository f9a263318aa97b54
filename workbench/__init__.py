"""Compose, count, converse, capture, analyse: the workbench for Inkling.

Imports neither vLLM nor Jupyter, and heavy libraries only when they are used. ``import workbench`` is light: names below are
loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.protocol import AttentionPlan, CapturePlan, Rendered, Reply, Span

    from .budgets import Budget
    from .captures import Capture
    from .causes import attribute, compare
    from .contexts import Context
    from .conversations import Conversation

__all__ = [
    "AttentionPlan", "Budget", "Capture", "CapturePlan", "Context", "Conversation", "Rendered", "Reply", "Span", "attribute",
    "compare",
]  # fmt: skip

_HOMES = {
    "AttentionPlan": "engine.protocol",
    "Budget": "workbench.budgets",
    "Capture": "workbench.captures",
    "CapturePlan": "engine.protocol",
    "Context": "workbench.contexts",
    "Conversation": "workbench.conversations",
    "Rendered": "engine.protocol",
    "Reply": "engine.protocol",
    "Span": "engine.protocol",
    "attribute": "workbench.causes",
    "compare": "workbench.causes",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
