"""Short convolutions on paper: one heat map of layers × taps per site, with the numbers where there is room for them.

Shares of both signs need a colour scale with two dark ends, which are one in grey print: the numbers tell them apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..palettes import OKABE_ITO
from .axes import MUTED, bar, figure_of, layer_ticks, quiet, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..results import Result


NUMBERED_LAYERS = 24
"""Beyond so many, numbers would not be readable."""


def sconv_taps(result: Result, *, group: str | None = None, width_in: float = 9.0) -> Figure:
    """Share of each tap per layer and site; `group` picks one of several groups."""
    data: Any = result.data.sel(group=group) if group else result.data.isel(group=0)
    sites, layers, taps = [str(site) for site in data["site"].values], data["l"].values, data["tap"].values
    figure, axes = figure_of(result, 1, len(sites), rows=len(layers), width_in=width_in)
    reach = float(np.nanmax(np.abs(data["share"].values))) or 1.0
    for place, site in zip(axes[0], sites, strict=True):
        image = place.imshow(
            data["share"].sel(site=site).values, cmap="PuOr_r", vmin=-reach, vmax=reach, aspect="auto", interpolation="nearest"
        )
        if len(layers) <= NUMBERED_LAYERS:
            _numbers(place, data["share"].sel(site=site).values, reach)
        place.set_xticks(range(len(taps)), [str(tap) for tap in taps])
        place.set_xlabel("Tap", color=MUTED, fontsize=8)
        title(place, site)
        layer_ticks(place, layers, labelled=place is axes[0][0])
    bar(axes[0][-1], image, "share of the term's norm")
    return figure


def sconv_channels(result: Result, *, width_in: float = 9.0) -> Figure:
    """Taps × channels, coloured by the tap's share; below, how large each channel's term is beside its input."""
    data: Any = result.data
    figure, axes = figure_of(result, 2, 1, rows=8, width_in=width_in)
    share, taps = data["share"].values.T, data["tap"].values
    reach = min(2.0, float(np.nanmax(np.abs(share), initial=1e-9)))
    above, below = axes[0][0], axes[1][0]
    image = above.imshow(share, cmap="RdBu_r", vmin=-reach, vmax=reach, aspect="auto", interpolation="nearest")
    above.set_yticks(range(len(taps)), [str(tap) for tap in taps])
    above.set_ylabel("Tap", color=MUTED, fontsize=8)
    quiet(above)
    bar(above, image, "share of the term", extend="both")
    channels = data["c"].values
    below.plot(channels, data["input"].values, color=MUTED, linewidth=0.8, label="input")
    below.plot(channels, data["term"].values, color=OKABE_ITO["blue"], linewidth=0.8, label="term")
    below.set_xlabel("Channel", color=MUTED, fontsize=8)
    below.set_ylabel("Root mean square", color=MUTED, fontsize=8)
    below.legend(frameon=False, fontsize=7, labelcolor=MUTED)
    quiet(below)
    return figure


def _numbers(place: Axes, values: np.ndarray, reach: float) -> None:
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if abs(value) > 0.7 * reach else "black"
        place.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
