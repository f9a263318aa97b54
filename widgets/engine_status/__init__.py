"""EngineStatus: what the running engine is doing, in a notebook; its log, and the way to stop it.

``esm`` and ``css`` give other hosts the same module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _esm

if TYPE_CHECKING:
    from .widget import EngineStatus

__all__ = ["EngineStatus", "css", "esm"]


def esm() -> str:
    """The widget's ES module: ``export default { render }``."""
    return _esm.esm("engine_status")


def css() -> str:
    """The widget's style sheet."""
    return _esm.css("engine_status")


def __getattr__(name: str) -> Any:
    """The widget class needs notebook libraries; it is made when it is first asked for."""
    if name == "EngineStatus":
        from .widget import EngineStatus

        return EngineStatus
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
