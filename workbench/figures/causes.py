"""Figures of comparisons and attributions: bars of what was lost, token by token and part by part.

Losses are vermilion, gains blue. Source of the numbers: :mod:`workbench.causes`, :mod:`workbench.comparisons`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..palettes import OKABE_ITO
from . import drawable
from .axes import INK, MUTED, quiet
from .routing_analysis import finish, heat, new

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..results import Result

LOSS, GAIN = OKABE_ITO["vermilion"], OKABE_ITO["blue"]
MOST_BARS, MOST_TOKENS = 24, 60


def attribution(result: Result, *, width_in: float = 8.0) -> Figure:
    """What the answer loses without each part, the largest first."""
    data = result.data
    by = str(data["drop"].dims[0])
    order = np.argsort(-data["drop"].values, kind="stable")[:MOST_BARS]
    values = data["drop"].values[order]
    figure, (axis,) = new(result, 1, width_in, 0.7 + 0.28 * len(order))
    axis.barh(np.arange(len(order)), values, height=0.7, color=np.where(values >= 0, LOSS, GAIN))
    names = [f"{drawable(str(data[by].values[i]), most=40)} ({int(data['tokens'].values[i]):,} tokens)" for i in order]
    axis.set_yticks(np.arange(len(order)), names)
    axis.invert_yaxis()
    axis.axvline(0, color=MUTED, linewidth=0.8)
    axis.set_xlabel("log-probability lost when masked, nats", fontsize=8, color=MUTED)
    quiet(axis)
    return figure


def scores(result: Result, *, width_in: float = 8.0) -> Figure:
    """Change of every token's log-probability, with the tokens below."""
    data = result.data.isel(t=slice(MOST_TOKENS))
    shift = data["shift"].values
    figure, (axis,) = new(result, 1, width_in, 2.6)
    axis.bar(np.arange(len(shift)), shift, color=np.where(shift < 0, LOSS, GAIN), width=0.8)
    axis.axhline(0, color=MUTED, linewidth=0.8)
    texts = [drawable(str(text), most=14) for text in data["text"].values]
    axis.set_xticks(np.arange(len(texts)), texts, rotation=60, ha="right")
    axis.set_ylabel("nats", fontsize=8, color=MUTED)
    if result.data.sizes["t"] > MOST_TOKENS:
        axis.set_title(f"the first {MOST_TOKENS} of {result.data.sizes['t']:,} tokens", loc="left", fontsize=8, color=INK)
    quiet(axis)
    return figure


def overlap(result: Result, *, width_in: float = 6.0) -> Figure:
    """Routing alike in both, by layer: experts and weight."""
    data = result.data
    figure, axes = new(result, 2, width_in, 0.8 + 0.18 * data.sizes["l"])
    shown = (("overlap", "chosen experts alike, %"), ("weight", "weight alike, %"))
    for axis, (name, label) in zip(axes, shown, strict=True):
        axis.barh(np.arange(data.sizes["l"]), data[name].values * 100, height=0.75, color=GAIN)
        axis.set_xlim(0, 100)
        axis.invert_yaxis()
        finish(axis, data["l"].values, label, "")
    return figure


def shift(result: Result, *, width_in: float = 6.0) -> Figure:
    """Attention that went elsewhere, layers × heads, mean over the captured rows."""
    values = result.data["shift"].mean("q").transpose("l", "h")
    figure, (axis,) = new(result, 1, width_in, 0.8 + 0.18 * values.sizes["l"])
    heat(axis, values.values * 100, values["l"].values, "Head", "% of the weight moved, mean of the rows", "")
    return figure
