"""Static figures by matplotlib: for reports, papers, and wherever no widget runs. No state is kept and no window is opened."""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["drawable", "png", "svg"]


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
