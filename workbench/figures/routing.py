"""The routing map on paper: layers × experts with the sinks set apart, and the strip of all tokens below.

The static twin of the widget: same numbers, same colours, no interaction. What is pooled is written on the figure. Beside another
capture it shows what this one has more. Figures are made without pyplot, so nothing global changes and nothing must be closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.protocol import Span

from ..palettes import MISSING_COLOUR, MODALITY_COLOURS, OKABE_ITO, diverging_bytes
from ..routing_differences import RoutingDifference
from ..routing_windows import Metric, RoutingWindows
from .axes import MUTED, bar, layer_ticks, quiet, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

    from ..captures import Capture

BUCKETS = 1_200
LABELS = {"entropy": "Entropy, bit", "sink": "Sink share"}


def routing_map(capture: Capture, *, against: Capture | None = None, metric: Metric = "sink", width_in: float = 9.0) -> Figure:
    """Load and strip in one figure.

    Parameters
    ----------
    capture : Capture
        With routing.
    against : Capture, optional
        Another capture of the same model: what `capture` has more is drawn, the strip only where both are of the same tokens.
    metric : {"entropy", "sink"}
        What colours the tokens.
    width_in : float
        Width in inches; the height follows from the number of layers.

    Raises
    ------
    SelectionError
        A capture has no routing, or the two are of different routers.
    """
    from .sheets import blank

    windows = RoutingWindows.of(capture)
    beside = None if against is None else RoutingDifference(capture, against)
    rows = len(windows.layers)
    heat_in, strip_in = _row_in(rows, 3.0), _row_in(rows, 2.2)
    name = f"Expert routing of {windows.tokens:,} tokens"
    if beside is not None:
        others = "the same" if beside.same_tokens else f"{len(beside.other):,} others"
        name += f": what it has more than the other capture, of {others}"
    figure = blank((width_in, heat_in + strip_in + 1.9), name)
    top, bottom = np.ravel(figure.subfigures(2, 1, height_ratios=[heat_in + 0.8, strip_in + 1.1]))  # pyright: ignore[reportArgumentType, reportCallIssue]
    axes = top.subplots(1, 2, width_ratios=[4, 1], sharey=True)
    found = windows.load()
    share, sinks = found["share"].values, found["sink"].values
    if beside is not None:
        theirs, _, their_sinks = beside.load([(0, windows.tokens)])
        share, sinks = share - theirs, sinks - their_sinks
    _load(axes[0], windows, share, signed=beside is not None)
    _sinks(axes[1], sinks, signed=beside is not None)
    band, strip = bottom.subplots(2, 1, height_ratios=[1, max(5.0, strip_in * 5)], sharex=True)
    _band(band, capture.spans, windows.tokens)
    if beside is None or beside.same_tokens:
        _strip(strip, windows, metric, beside)
    else:
        strip.text(0.5, 0.5, "The captures are of different tokens: only their loads can be compared.", fontsize=8, color=MUTED,
                   ha="center", va="center", transform=strip.transAxes)  # fmt: skip
        strip.set_axis_off()
        strip.set_xlim(-0.5, windows.tokens - 0.5)
    return figure


def _load(axes: Axes, windows: RoutingWindows, share: NDArray[Any], *, signed: bool) -> None:
    top = float(np.nanmax(np.abs(share * 100), initial=1e-6))
    image = axes.imshow(
        share * 100, cmap=_diverging() if signed else "cividis", vmin=-top if signed else 0, vmax=top, aspect="auto",
        interpolation="nearest", extent=(-0.5, windows.experts - 0.5, len(windows.layers) - 0.5, -0.5),
    )  # fmt: skip
    bar(axes, image, "% of the weight" + (", more" if signed else ""))
    axes.set_xlabel("Expert", color=MUTED, fontsize=8)
    layer_ticks(axes, windows.layers)
    title(axes, "Experts: what they have more than in the other capture" if signed else "Experts")


def _sinks(axes: Axes, sinks: NDArray[Any], *, signed: bool) -> None:
    """Stacked shares; beside each other where they have a sign."""
    share = sinks * 100
    count = share.shape[1]
    left = np.zeros(len(share))
    for s in range(count):
        colour = OKABE_ITO["blue"] if s % 2 == 0 else OKABE_ITO["sky"]
        rows, height = np.arange(len(share), dtype=float), 0.7
        if signed:
            height /= count
            rows += (s - (count - 1) / 2) * height
        axes.barh(rows, share[:, s], left=left, color=colour, height=height, label=f"sink {s}")
        if not signed:
            left += np.nan_to_num(share[:, s])
    if signed:
        top = float(np.nanmax(np.abs(share), initial=1e-6)) * 1.05
        axes.set_xlim(-top, top)
        axes.axvline(0, color=MUTED, linewidth=0.8)
    else:
        axes.set_xlim(0, 100)
    axes.set_xlabel("% of the weight" + (", more" if signed else ""), color=MUTED, fontsize=8)
    title(axes, "Sinks")
    # Bars with a sign may be anywhere: their legend goes above.
    place: dict[str, Any] = (
        {"bbox_to_anchor": (1.03, 0.97), "ncols": count, "columnspacing": 0.8, "handlelength": 1.0} if signed else {}
    )
    axes.legend(frameon=False, fontsize=7, loc="lower right", labelcolor=MUTED, **place)
    quiet(axes)


def _diverging() -> Colormap:
    from matplotlib.colors import ListedColormap

    return ListedColormap(np.frombuffer(diverging_bytes(), np.uint8).reshape(-1, 3) / 255)


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


def _strip(axes: Axes, windows: RoutingWindows, metric: Metric, beside: RoutingDifference | None) -> None:
    import matplotlib

    strip = (beside or windows).strip(metric, 0, windows.tokens, BUCKETS)
    low, high = (beside or windows).limits[metric]
    scale = 100 if metric == "sink" else 1
    colours = matplotlib.colormaps["cividis"] if beside is None else _diverging()
    image = axes.imshow(
        np.ma.masked_invalid(strip.values * scale), cmap=colours.with_extremes(bad=MISSING_COLOUR),
        vmin=low * scale, vmax=high * scale, aspect="auto", interpolation="nearest",
        extent=(strip.start - 0.5, strip.start + strip.width_tokens * strip.values.shape[1] - 0.5, len(windows.layers) - 0.5, -0.5),
    )  # fmt: skip
    unit = LABELS[metric] + (", %" if metric == "sink" else "")
    bar(axes, image, unit + ("" if beside is None else ", more"), extend="both")
    axes.set_xlim(-0.5, windows.tokens - 0.5)
    pooled = "one column per token" if strip.width_tokens == 1 else f"mean of {strip.width_tokens:,} tokens per column"
    axes.set_xlabel(f"Token ({pooled})", color=MUTED, fontsize=8)
    layer_ticks(axes, windows.layers)


def _row_in(rows: int, most: float) -> float:
    """Height of `rows` layers in inches."""
    return min(most, max(1.1, rows * 0.22))
