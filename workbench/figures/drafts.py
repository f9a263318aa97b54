"""Draft heads on paper: how often each is right, and how many drafts the steps of a context accept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..palettes import OKABE_ITO
from .axes import MUTED, figure_of, quiet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..results import Result

GROUPS = 7


def drafts_by(result: Result, *, width_in: float = 7.0) -> Figure:
    """One line per group (the largest seven): share accepted by depth, and dashed the share that is right by itself."""
    data: Any = result.data
    depth, colours = data["depth"].values, list(OKABE_ITO.values())
    largest = np.argsort(-data["tokens"].values.sum(1), kind="stable")[:GROUPS]
    figure, axes = figure_of(result, 1, 1, rows=14, width_in=width_in)
    place = axes[0][0]
    for number, index in enumerate(sorted(largest.tolist())):
        colour, name = colours[number % len(colours)], str(data["group"].values[index])
        place.plot(depth, data["accepted"].values[index] * 100, color=colour, marker="o", markersize=4, label=name)
        place.plot(depth, data["right"].values[index] * 100, color=colour, linestyle="--", linewidth=0.9)
    place.set_xticks(depth)
    place.set_ylim(0, 100)
    place.set_xlabel("Draft head", color=MUTED, fontsize=8)
    place.set_ylabel("% accepted; dashed: right", color=MUTED, fontsize=8)
    place.legend(frameon=False, fontsize=7, labelcolor=MUTED)
    quiet(place)
    return figure


def draft_steps(result: Result, *, width_in: float = 7.0) -> Figure:
    """How many steps accept none, one, two … drafts."""
    accepted = result.data["accepted"].values
    count = np.bincount(accepted) if len(accepted) else np.zeros(1, np.int64)
    figure, axes = figure_of(result, 1, 1, rows=12, width_in=width_in)
    place = axes[0][0]
    place.bar(np.arange(len(count)), count, width=0.7, color=OKABE_ITO["blue"])
    place.set_xticks(np.arange(len(count)))
    place.set_xlabel("Drafts accepted", color=MUTED, fontsize=8)
    place.set_ylabel("Steps", color=MUTED, fontsize=8)
    quiet(place)
    return figure
