"""Short convolutions on paper: one heat map of layers × taps per site."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .axes import MUTED, bar, figure_of, layer_ticks, title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..results import Result


def sconv_taps(result: Result, *, group: str | None = None, width_in: float = 9.0) -> Figure:
    """Share of each tap per layer and site; `group` picks one of several groups."""
    data: Any = result.data.sel(group=group) if group else result.data.isel(group=0)
    sites, layers, taps = [str(site) for site in data["site"].values], data["l"].values, data["tap"].values
    figure, axes = figure_of(result, 1, len(sites), rows=len(layers), width_in=width_in)
    reach = float(np.nanmax(np.abs(data["share"].values))) or 1.0
    for place, site in zip(axes[0], sites, strict=True):
        image = place.imshow(
            data["share"].sel(site=site).values, cmap="RdBu_r", vmin=-reach, vmax=reach, aspect="auto", interpolation="nearest"
        )
        place.set_xticks(range(len(taps)), [str(tap) for tap in taps])
        place.set_xlabel("Tap", color=MUTED, fontsize=8)
        title(place, site)
        layer_ticks(place, layers, labelled=place is axes[0][0])
    bar(axes[0][-1], image, "share of the term's norm")
    return figure
