"""Attention rows on paper: where the weight goes, what the relative bias decides, and the profiles it is mixed from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..palettes import OKABE_ITO
from .axes import MUTED, bar, figure_of, layer_ticks, quiet, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..results import Result

STROKES = (("blue", "-"), ("vermilion", "--"), ("green", "-."), ("black", ":"))
GROUPS = 7
"""Groups with a colour of their own; the smaller ones are summed as "others"."""


def attention_by(result: Result, *, width_in: float = 9.0) -> Figure:
    """One bar per layer: the mean weight of each group, over queries and heads."""
    data: Any = result.data
    mean, layers = data["mean"].values, data["l"].values
    names = [str(name) for name in data["group"].values]
    order = np.argsort(-mean.sum(0), kind="stable")
    shown = sorted(order[:GROUPS].tolist()) if len(names) > GROUPS else list(range(len(names)))
    columns = [(names[index], mean[:, index]) for index in shown]
    if len(names) > GROUPS:
        columns.append((f"{len(names) - GROUPS} others", mean.sum(1) - mean[:, shown].sum(1)))
    figure, axes = figure_of(result, 1, 1, rows=len(layers), width_in=width_in)
    place, left = axes[0][0], np.zeros(len(layers))
    colours = [*OKABE_ITO.values(), MUTED]
    for index, (name, values) in enumerate(columns):
        place.barh(np.arange(len(layers)), values * 100, left=left, height=0.75, label=name, color=colours[index % len(colours)])
        left += np.nan_to_num(values) * 100
    place.invert_yaxis()
    place.set_xlim(0, 100)
    place.set_xlabel("% of the weight, mean over queries and heads", color=MUTED, fontsize=8)
    layer_ticks(place, layers)
    place.legend(frameon=False, fontsize=7, labelcolor=MUTED, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def bias_share(result: Result, *, width_in: float = 9.0) -> Figure:
    """Heat maps of layers × heads: the bias's share, the bits it moves, the mean distance."""
    data: Any = result.data
    layers = data["l"].values
    figure, axes = figure_of(result, 1, 3, rows=len(layers), width_in=width_in)
    panels = (
        ("share", "Bias's share of the logits", "share"),
        ("bits", "Moved by the bias", "bit"),
        ("distance", "Mean distance", "tokens"),
    )
    for place, (name, text, unit) in zip(axes[0], panels, strict=True):
        image = place.imshow(data[name].values, cmap="cividis", vmin=0, aspect="auto", interpolation="nearest")
        place.set_xlabel("Head", color=MUTED, fontsize=8)
        title(place, text)
        layer_ticks(place, layers, labelled=place is axes[0][0])
        bar(place, image, unit)
    return figure


def distance_profiles(result: Result, *, layer: int | None = None, width_in: float = 9.0) -> Figure:
    """Profiles by distance: of one token's heads if there are, else the bank; one panel per layer, or of `layer` alone."""
    data: Any = result.data
    name = "profile" if "profile" in data else "bank"
    layers = [int(item) for item in data["l"].values] if layer is None else [layer]
    layers = layers[:12]
    columns = min(3, len(layers))
    rows = -(-len(layers) // columns)
    figure, axes = figure_of(result, rows, columns, rows=8, width_in=width_in)
    for index, place in enumerate(axes.ravel()):
        if index >= len(layers):
            place.axis("off")
            continue
        values = data[name].sel(l=layers[index]).values
        reach = int((~np.isnan(values[0])).sum())
        _curves(place, values[:, :reach], "head" if name == "profile" else "")
        place.axhline(0, color=MUTED, linewidth=0.5)
        place.set_xlabel("Distance, tokens", color=MUTED, fontsize=8)
        title(place, f"Layer {layers[index]}: {'heads' if name == 'profile' else 'bank'}")
        quiet(place)
    return figure


def _curves(place: Axes, values: np.ndarray, noun: str) -> None:
    """Curves over distance; a few with a name are told apart by colour and stroke, and named."""
    if not noun or len(values) > len(STROKES):
        place.plot(values.T, linewidth=0.9)
        return
    for index, (curve, (colour, stroke)) in enumerate(zip(values, STROKES, strict=False)):
        place.plot(curve, linewidth=1.1, color=OKABE_ITO[colour], linestyle=stroke, label=f"{noun} {index}")
    place.legend(frameon=False, fontsize=7, labelcolor=MUTED)
