"""SpanTable: every span of a context with its place and its tokens, in a notebook.

Shares its selection with the other widgets (``widgets.link``). ``esm`` and ``css`` give other hosts the same module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _esm

if TYPE_CHECKING:
    from .widget import SpanTable

__all__ = ["SpanTable", "css", "esm"]


def esm() -> str:
    """The widget's ES module: ``export default { render }``."""
    return _esm.esm("span_table")


def css() -> str:
    """The widget's style sheet."""
    return _esm.css("span_table")


def __getattr__(name: str) -> Any:
    """The widget class needs notebook libraries; it is made when it is first asked for."""
    if name == "SpanTable":
        from .widget import SpanTable

        return SpanTable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
