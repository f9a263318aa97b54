"""The text of a widget's ES module and style sheet, as hosts take them: one module, relative imports inlined."""

from __future__ import annotations

from functools import cache

from workbench.esm import inline, style, widget_folder


@cache
def esm(name: str) -> str:
    """The widget `name`'s module with everything it imports."""
    return inline(widget_folder(name) / "index.js")


@cache
def css(name: str) -> str:
    """The widget `name`'s style sheet, the shared rules first; every rule lies under a root class."""
    return style(name)
