"""Chat: talk over a context in a notebook, branch it, and look inside an answer.

``esm`` and ``css`` give other hosts the same module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _esm

if TYPE_CHECKING:
    from .widget import Chat

__all__ = ["Chat", "css", "esm"]


def esm() -> str:
    """The widget's ES module: ``export default { render }``."""
    return _esm.esm("chat")


def css() -> str:
    """The widget's style sheet."""
    return _esm.css("chat")


def __getattr__(name: str) -> Any:
    """The widget class needs notebook libraries; it is made when it is first asked for."""
    if name == "Chat":
        from .widget import Chat

        return Chat
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
