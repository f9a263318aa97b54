"""Static figures by matplotlib: for reports, papers, and wherever no widget runs. No state is kept and no window is opened."""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .sheets import Shown

__all__ = ["drawable", "png", "sheet", "svg"]


def sheet(
    title: str, *, rows: int = 1, columns: int = 1, width_in: float = 9.0, height_in: float = 3.2, **options: Any
) -> tuple[Shown, list[Any]]:
    """An empty figure in the project's style, which a notebook shows when it ends a cell, and its axes in reading order.

    Parameters
    ----------
    title : str
        Above the figure, and its text alternative.
    **options
        As ``Figure.subplots`` takes them: ``sharey``, ``width_ratios``, …
    """
    from .axes import INK, quiet
    from .sheets import blank

    figure = blank((width_in, height_in), title)
    figure.suptitle(drawable(title), fontsize=10, color=INK, x=0.01, ha="left")
    axes = list(figure.subplots(rows, columns, squeeze=False, **options).ravel())
    for axis in axes:
        quiet(axis)
    return figure, axes


def png(figure: Figure, *, dpi: int = 144) -> bytes:
    """The figure as PNG bytes."""
    return _written(figure, "png", dpi=dpi)


def svg(figure: Figure) -> bytes:
    """The figure as SVG bytes, text as text."""
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        return _written(figure, "svg")


def drawable(text: str, *, most: int = 200) -> str:
    """Any text as a figure can show it: one line, cut to `most` characters, no mathematics, a box for what the font lacks."""
    line = " ".join(text.split())
    line = line if len(line) <= most else line[: most - 1] + "…"
    known = _glyphs()
    return "".join(char if ord(char) in known else "▯" for char in line).replace("$", r"\$")


@cache
def _glyphs() -> frozenset[int]:
    """Code points of the font that figures are set in."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return frozenset(get_font(findfont(FontProperties())).get_charmap())


def _written(figure: Figure, kind: str, *, dpi: int = 72) -> bytes:
    file = io.BytesIO()
    # No creation date: the same capture gives the same bytes.
    figure.savefig(file, format=kind, dpi=dpi, metadata={"Software": None} if kind == "png" else {"Date": None})
    return file.getvalue()
