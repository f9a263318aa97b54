"""Figures of the one-line routing analyses: heat maps of layers against groups or experts, and bars.

Colours are cividis and Okabe-Ito's, readable without colour vision; every figure says what its numbers are of. Source of the
numbers: :mod:`workbench.routing_analysis`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..palettes import MISSING_COLOUR, OKABE_ITO
from . import drawable
from .axes import INK, MUTED, bar, layer_ticks, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..results import Result

MOST_GROUPS = 12
"""Groups drawn one by one; the table has all."""


def load(result: Result, *, width_in: float = 8.0) -> Figure:
    """Share of the weight, layers × experts, one panel per group."""
    data = result.data["share"] * 100
    by = group_of(data)
    panels = [("", data)] if by is None else [(str(name), data.sel({by: name})) for name in data[by].values[:MOST_GROUPS]]
    figure, axes = new(result, len(panels), width_in, 0.5 + 0.16 * data.sizes["l"])
    top = float(np.nanmax(data.values, initial=1e-9))
    for axis, (name, values) in zip(axes, panels, strict=True):
        heat(axis, values.transpose("l", "e").values, values["l"].values, "Expert", "% of the weight", name, top=top)
    return figure


def by_group(result: Result, *, width_in: float = 8.0) -> Figure:
    """Sink mass, entropy and balance, layers × groups, side by side."""
    data = result.data
    by = group_of(data["sink_mass"])
    figure, axes = new(result, 3, width_in, 0.8 + 0.16 * data.sizes["l"], columns=3)
    shown = (("sink_mass", "sinks, % of the weight", 100), ("entropy_bits", "entropy, bit", 1), ("balance", "balance, 0 to 1", 1))
    for axis, (name, label, scale) in zip(axes, shown, strict=True):
        groups = data[by].values[:MOST_GROUPS]
        values = data[name].isel({by: slice(MOST_GROUPS)}).transpose("l", by).values * scale
        heat(axis, values, data["l"].values, "", label, "", ticks=groups)
    return figure


def sinks(result: Result, *, width_in: float = 8.0) -> Figure:
    """Bars of the sinks' shares by layer, one panel per group."""
    data = result.data["sink"] * 100
    by = group_of(data)
    panels = [("", data)] if by is None else [(str(name), data.sel({by: name})) for name in data[by].values[:MOST_GROUPS]]
    figure, axes = new(result, len(panels), width_in, 0.6 + 0.16 * data.sizes["l"])
    colours = [OKABE_ITO[name] for name in ("blue", "sky", "orange", "yellow")]
    for axis, (name, values) in zip(axes, panels, strict=True):
        left = np.zeros(values.sizes["l"])
        for s in range(values.sizes["s"]):
            share = values.isel(s=s).values
            axis.barh(np.arange(len(share)), share, left=left, height=0.75, color=colours[s % 4], label=f"sink {s}")
            left += np.nan_to_num(share)
        axis.set_xlim(0, 100)
        axis.invert_yaxis()
        finish(axis, values["l"].values, "% of the weight", name)
    axes[0].legend(frameon=False, fontsize=7, labelcolor=MUTED)
    return figure


def entropy(result: Result, *, width_in: float = 6.0) -> Figure:
    """Entropy, layers × groups."""
    return _single(result, "entropy_bits", "entropy, bit", width_in)


def balance(result: Result, *, width_in: float = 6.0) -> Figure:
    """Balance, layers × groups, or one bar per layer."""
    return _single(result, "balance", "balance: 1 is all experts alike", width_in)


def margin(result: Result, *, width_in: float = 6.0) -> Figure:
    """Margin, layers × groups."""
    return _single(result, "margin", "margin of the score", width_in)


def coactivation(result: Result, *, width_in: float = 5.0) -> Figure:
    """Pairs of experts: how much more often than by chance, on a logarithmic scale."""
    data = result.data
    figure, (axis,) = new(result, 1, width_in, width_in * 0.8)
    with np.errstate(divide="ignore"):
        values = np.log2(data["lift"].values)
    values[~np.isfinite(values)] = np.nan
    most = float(np.nanmax(np.abs(values), initial=1e-6))
    image = axis.imshow(np.ma.masked_invalid(values), cmap=_cmap("PuOr"), vmin=-most, vmax=most, interpolation="nearest")
    bar(axis, image, "log2 of times as often as by chance")
    axis.set_xlabel("Expert", fontsize=8, color=MUTED)
    axis.set_ylabel("Expert", fontsize=8, color=MUTED)
    quiet(axis)
    return figure


def _single(result: Result, name: str, label: str, width_in: float) -> Figure:
    data = result.data[name]
    by = group_of(data)
    figure, (axis,) = new(result, 1, width_in, 0.9 + 0.18 * data.sizes["l"])
    if by is None:
        axis.barh(np.arange(data.sizes["l"]), data.values, height=0.75, color=OKABE_ITO["blue"])
        axis.invert_yaxis()
        finish(axis, data["l"].values, label, "")
    else:
        values = data.isel({by: slice(MOST_GROUPS)}).transpose("l", by).values
        heat(axis, values, data["l"].values, "", label, "", ticks=data[by].values[:MOST_GROUPS])
    return figure


def group_of(data: Any) -> str | None:
    """The dimension that groups, if there is one."""
    return next((str(dim) for dim in data.dims if dim in ("modality", "part", "span")), None)


def new(result: Result, panels: int, width_in: float, height_in: float, columns: int = 2) -> tuple[Figure, list[Axes]]:
    """A figure with the result's title, its notes below, and so many panels."""
    from .sheets import blank

    columns = min(columns, panels)
    rows = -(-panels // columns)
    figure = blank((width_in, min(height_in, 5.0) * rows + 0.7), result.title)
    figure.suptitle(drawable(result.title), x=0.01, ha="left", fontsize=10, color=INK)
    figure.supxlabel("\n".join(result.notes), x=0.01, ha="left", fontsize=6.5, color=MUTED)
    axes = list(np.ravel(figure.subplots(rows, columns, squeeze=False)))
    for extra in axes[panels:]:
        extra.remove()
    return figure, axes[:panels]


def heat(
    axis: Axes, values: np.ndarray, layers: np.ndarray, across: str, label: str, title: str, *, ticks: Any = None,
    top: float | None = None,
) -> None:  # fmt: skip
    """Layers × columns as a heat map; what was never seen is grey."""
    image = axis.imshow(
        np.ma.masked_invalid(values), cmap=_cmap("cividis"), aspect="auto", interpolation="nearest", vmin=0, vmax=top
    )
    bar(axis, image, label)
    if ticks is not None:
        names = [drawable(str(name), most=18) for name in ticks]
        axis.set_xticks(np.arange(len(names)), names, rotation=35, ha="right")
    axis.set_xlabel(across, fontsize=8, color=MUTED)
    layer_ticks(axis, layers)
    axis.set_title(drawable(title, most=60), loc="left", fontsize=8, color=INK)


def finish(axis: Axes, layers: np.ndarray, label: str, title: str) -> None:
    """Labels of a panel of horizontal bars."""
    layer_ticks(axis, layers)
    axis.set_xlabel(label, fontsize=8, color=MUTED)
    axis.set_title(drawable(title, most=60), loc="left", fontsize=8, color=INK)


def _cmap(name: str) -> Any:
    import matplotlib

    return matplotlib.colormaps[name].with_extremes(bad=MISSING_COLOUR)
