"""A figure that a notebook shows by itself, without pyplot: no state, nothing to close, words for readers who do not see it.

from workbench.figures import sheet

figure, axes = sheet("What a token costs", columns=2)
axes[0].plot(…)
figure                                  # the last line of a cell
"""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

SHOWN_DPI = 100
"""Of the picture in a notebook: readable at a page's width, and some forty kilobytes."""


class Shown(Figure):
    """A matplotlib figure with a picture for notebooks, and a text alternative that says what it shows."""

    alt = ""

    def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
        from . import png

        return png(self, dpi=SHOWN_DPI), {"alt": self.alt}

    def __repr__(self) -> str:
        return f"Figure({self.alt})"


def blank(size_in: tuple[float, float], alt: str) -> Shown:
    """A white figure of this size; `alt` says in words what it shows."""
    figure = Shown(figsize=size_in, layout="constrained", facecolor="white")
    figure.alt = alt
    return figure
