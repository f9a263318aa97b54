"""The routing map on paper: layers × experts with the sinks set apart, and the strip of all tokens below.

The static twin of the widget: same numbers, same colours, no interaction. What is pooled is written on the figure. Figures are made
without pyplot, so nothing global changes and nothing must be closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.protocol import Span

from ..palettes import MISSING_COLOUR, MODALITY_COLOURS, OKABE_ITO
from ..routing_windows import Metric, RoutingWindows
from .axes import MUTED, bar, layer_ticks, quiet, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..captures import Capture

BUCKETS = 1_200
LABELS = {"entropy": "Entropy, bit", "sink": "Sink share"}


def routing_map(capture: Capture, *, metric: Metric = "sink", width_in: float = 9.0) -> Figure:
    """Load and strip in one figure.

    Parameters
    ----------
    capture : Capture
        With routing.
    metric : {"entropy", "sink"}
        What colours the tokens.
    width_in : float
        Width in inches; the height follows from the number of layers.

    Raises
    ------
    SelectionError
        The capture has no routing.
    """
    from .sheets import blank

    windows = RoutingWindows.of(capture)
    rows = len(windows.layers)
    heat_in, strip_in = _row_in(rows, 3.0), _row_in(rows, 2.2)
    figure = blank((width_in, heat_in + strip_in + 1.9), f"Expert routing of {windows.tokens:,} tokens")
    top, bottom = np.ravel(figure.subfigures(2, 1, height_ratios=[heat_in + 0.8, strip_in + 1.1]))  # pyright: ignore[reportArgumentType, reportCallIssue]
    axes = top.subplots(1, 2, width_ratios=[4, 1], sharey=True)
    _load(axes[0], windows)
    _sinks(axes[1], windows)
    band, strip = bottom.subplots(2, 1, height_ratios=[1, max(5.0, strip_in * 5)], sharex=True)
    _band(band, capture.spans, windows.tokens)
    _strip(strip, windows, metric)
    return figure


def _load(axes: Axes, windows: RoutingWindows) -> None:
    found = windows.load()
    image = axes.imshow(
        found["share"].values * 100, cmap="cividis", vmin=0, aspect="auto", interpolation="nearest",
        extent=(-0.5, windows.experts - 0.5, len(windows.layers) - 0.5, -0.5),
    )  # fmt: skip
    bar(axes, image, "% of the weight")
    axes.set_xlabel("Expert", color=MUTED, fontsize=8)
    layer_ticks(axes, windows.layers)
    title(axes, "Experts")


def _sinks(axes: Axes, windows: RoutingWindows) -> None:
    share = windows.load()["sink"].values * 100
    left = np.zeros(len(share))
    for s in range(share.shape[1]):
        colour = OKABE_ITO["blue"] if s % 2 == 0 else OKABE_ITO["sky"]
        axes.barh(np.arange(len(share)), share[:, s], left=left, color=colour, height=0.7, label=f"sink {s}")
        left += np.nan_to_num(share[:, s])
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of the weight", color=MUTED, fontsize=8)
    title(axes, "Sinks")
    axes.legend(frameon=False, fontsize=7, loc="lower right", labelcolor=MUTED)
    quiet(axes)


def _band(axes: Axes, spans: tuple[Span, ...], tokens: int) -> None:
    """Coloured runs of one modality, with the names of parts wide enough to carry one."""
    from ..routing_views import bands

    for band in bands(spans):
        axes.axvspan(band.start - 0.5, band.stop - 0.5, color=MODALITY_COLOURS[band.modality], linewidth=0)
        room = int((band.stop - band.start) / tokens * 110)  # characters of 7 pt text over the figure's width
        if room >= 4 and band.modality != "framing":
            label = band.label if len(band.label) <= room else band.label[: room - 1] + "…"
            axes.text(band.start, 1.25, label, fontsize=7, color=MUTED, transform=axes.get_xaxis_transform())
    axes.set_yticks([])
    axes.tick_params(bottom=False, labelbottom=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _strip(axes: Axes, windows: RoutingWindows, metric: Metric) -> None:
    import matplotlib

    strip = windows.strip(metric, 0, windows.tokens, BUCKETS)
    low, high = windows.limits[metric]
    values = strip.values if metric != "sink" else strip.values * 100
    scale = 100 if metric == "sink" else 1
    image = axes.imshow(
        np.ma.masked_invalid(values), cmap=matplotlib.colormaps["cividis"].with_extremes(bad=MISSING_COLOUR),
        vmin=low * scale, vmax=high * scale, aspect="auto", interpolation="nearest",
        extent=(strip.start - 0.5, strip.start + strip.width_tokens * values.shape[1] - 0.5, len(windows.layers) - 0.5, -0.5),
    )  # fmt: skip
    bar(axes, image, LABELS[metric] + (", %" if metric == "sink" else ""), extend="both")
    axes.set_xlim(-0.5, windows.tokens - 0.5)
    pooled = "one column per token" if strip.width_tokens == 1 else f"mean of {strip.width_tokens:,} tokens per column"
    axes.set_xlabel(f"Token ({pooled})", color=MUTED, fontsize=8)
    layer_ticks(axes, windows.layers)


def _row_in(rows: int, most: float) -> float:
    """Height of `rows` layers in inches."""
    return min(most, max(1.1, rows * 0.22))
