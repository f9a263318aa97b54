"""What the figures of all seams share: quiet axes, layer ticks, colour bars, the note at the foot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..results import Result
    from .sheets import Shown

INK, MUTED = "#1f2328", "#57606a"


def figure_of(result: Result, rows_of_axes: int, columns: int, *, rows: int, width_in: float) -> tuple[Shown, Any]:
    """A figure with the result's title and notes, and its axes (row, column); its height follows from `rows` of data."""
    from .sheets import blank

    height = min(6.0, max(1.6, rows * 0.22)) * rows_of_axes + 1.0 + 0.18 * len(result.notes)
    figure = blank((width_in, height), result.title)
    figure.suptitle(result.title, fontsize=10, color=INK, x=0.01, ha="left")
    axes = figure.subplots(rows_of_axes, columns, squeeze=False)
    if result.notes:
        figure.supxlabel("\n".join(result.notes), fontsize=7, color=MUTED, x=0.01, ha="left")
    return figure, axes


def quiet(axes: Axes) -> None:
    """No frame, small ticks."""
    axes.tick_params(labelsize=8, colors=MUTED, length=2)
    for spine in axes.spines.values():
        spine.set_visible(False)


def title(axes: Axes, text: str) -> None:
    """A title at the left."""
    axes.set_title(text, loc="left", fontsize=9, color=INK)


def layer_ticks(axes: Axes, layers: np.ndarray, *, labelled: bool = True) -> None:
    """At most twelve layers named along the vertical axis."""
    step = -(-len(layers) // 12)
    axes.set_yticks(np.arange(0, len(layers), step), [str(layer) for layer in layers[::step]] if labelled else [])
    if labelled:
        axes.set_ylabel("Layer", color=MUTED, fontsize=8)
    quiet(axes)


def bar(axes: Axes, image: Any, label: str, *, extend: str = "neither") -> None:
    """A colour bar beside `axes`; `extend` as matplotlib's, for limits that values go beyond."""
    found = axes.figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02, extend=extend)
    found.set_label(label, fontsize=8, color=MUTED)
    found.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    found.ax.tick_params(labelsize=7, colors=MUTED, length=2)
