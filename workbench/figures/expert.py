"""Figures of one expert: who uses it, and its favourite places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..palettes import OKABE_ITO
from . import drawable
from .axes import INK, MUTED, quiet
from .routing_analysis import group_of, new

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..results import Result

MOST_BARS = 20


def by(result: Result, *, width_in: float = 6.0) -> Figure:
    """Mean share per group, the largest first."""
    data = result.data
    name = group_of(data["share"])
    share = np.nan_to_num(data["share"].values * 100)
    order = np.argsort(-share, kind="stable")[:MOST_BARS]
    labels = [f"{drawable(str(data[name].values[i]), most=60)}  ({int(data['tokens'].values[i]):,} tokens)" for i in order]
    return _bars(result, labels, share[order], "% of the weight, mean", width_in)


def favourites(result: Result, *, width_in: float = 8.0) -> Figure:
    """The favourites with their shares; text as text, patches and sound by their place."""
    data = result.data
    labels = []
    for rank in range(data.sizes["rank"]):
        item = data.isel(rank=rank)
        label = drawable(str(item["label"].item()), most=40)
        if "text" in data:
            label = f"{label}: {drawable(str(item['text'].item()), most=90)}"
        elif "row" in data:
            label = f"{label}: row {item['row'].item()}, column {item['col'].item()}"
        elif "start_s" in data:
            label = f"{label}: {item['start_s'].item():.2f} to {item['stop_s'].item():.2f} s"
        labels.append(label)
    return _bars(result, labels, data["share"].values * 100, "% of the weight, mean of the window", width_in)


def _bars(result: Result, labels: list[str], values: np.ndarray, label: str, width_in: float) -> Figure:
    figure, (axis,) = new(result, 1, width_in, 0.7 + 0.26 * max(1, len(labels)))
    axis.barh(np.arange(len(labels)), values, height=0.35, color=OKABE_ITO["blue"])
    for row, text in enumerate(labels):
        axis.text(0, row - 0.32, text, fontsize=7, color=INK, va="bottom", clip_on=True)
    axis.set_yticks([])
    axis.set_ylim(len(labels) - 0.5, -0.85)
    axis.set_xlabel(label, fontsize=8, color=MUTED)
    quiet(axis)
    return figure
