"""The short convolutions on paper: kernels as small multiples by site and layer, and what one site adds along the tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..palettes import MISSING_COLOUR, OKABE_ITO
from ..sconv_views import SITE_WORDS, kernel_quantiles
from ..seam_analysis import notes_of
from .axes import INK, MUTED, bar, layer_ticks, quiet, title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..sconv_views import SconvSubject

BUCKETS = 900
MOST_LAYERS = 24
"""Layers with a chart of their own; of more, evenly spaced ones are drawn."""


def sconv_view(subject: SconvSubject, *, site: str, width_in: float = 9.0) -> Figure:
    """What the widget shows first, without its gestures."""
    import matplotlib
    from matplotlib.figure import Figure

    windows = subject.windows
    chosen = np.unique(np.linspace(0, len(windows.layers) - 1, min(MOST_LAYERS, len(windows.layers))).round().astype(int))
    rows = min(3.2, max(1.3, len(windows.layers) * 0.22))
    figure = Figure(figsize=(width_in, 0.6 * len(windows.sites) + rows + 1.4), layout="constrained", facecolor="white")
    figure.suptitle(
        "Short convolutions: weights by tap (median, half and 80 % of the channels)", fontsize=10, color=INK, x=0.01, ha="left"
    )
    parts: Any = figure.subfigures(2, 1, height_ratios=(0.6 * len(windows.sites) + 0.2, rows + 0.5))
    upper, lower = parts
    quantiles = kernel_quantiles(subject.capture)
    axes = upper.subplots(len(windows.sites), len(chosen), squeeze=False, sharey="row")
    taps = np.arange(0, -quantiles.shape[2], -1)
    for s, name in enumerate(windows.sites):
        for column, layer in enumerate(chosen):
            place = axes[s][column]
            q = quantiles[layer, s]
            place.fill_between(taps, q[:, 0], q[:, 4], color=OKABE_ITO["blue"], alpha=0.18, linewidth=0)
            place.fill_between(taps, q[:, 1], q[:, 3], color=OKABE_ITO["blue"], alpha=0.32, linewidth=0)
            place.plot(taps, q[:, 2], color=OKABE_ITO["blue"], linewidth=1)
            place.axhline(0, color=MUTED, linewidth=0.4)
            quiet(place)
            place.tick_params(labelsize=6)
            place.set_xticks([])
            if s == 0:
                place.set_title(f"{windows.layers[layer]}", fontsize=7, color=MUTED)
        axes[s][0].set_ylabel(SITE_WORDS.get(name, name), fontsize=7, color=MUTED, rotation=0, ha="right", va="center")
    place = lower.subplots(1, 1)
    found = windows.strip("ratio", site, 0, windows.tokens, BUCKETS)
    low, high = windows.limits("ratio", site)
    image = place.imshow(
        np.ma.masked_invalid(found.values), cmap=matplotlib.colormaps["cividis"].with_extremes(bad=MISSING_COLOUR),
        vmin=low, vmax=high, aspect="auto", interpolation="nearest",
        extent=(found.start - 0.5, found.start + found.width_tokens * found.values.shape[1] - 0.5, len(windows.layers) - 0.5, -0.5),
    )  # fmt: skip
    bar(place, image, "times the input", extend="both")
    place.set_xlim(-0.5, windows.tokens - 0.5)
    place.set_xlabel("Token", color=MUTED, fontsize=8)
    title(place, f"{SITE_WORDS.get(site, site)}: what it adds, times its input")
    layer_ticks(place, windows.layers)
    figure.supxlabel("\n".join(notes_of(subject.capture)), fontsize=7, color=MUTED, x=0.01, ha="left")
    return figure
