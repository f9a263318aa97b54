"""The logit lens on paper: layers × ranks, each cell the token it would say, coloured by its probability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .axes import MUTED, bar, figure_of, layer_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..results import Result


def lens(result: Result, *, width_in: float = 9.0) -> Figure:
    """One row per layer."""
    data: Any = result.data
    probability, text, layers = np.exp(data["logprob"].values), data["text"].values, data["l"].values
    figure, axes = figure_of(result, 1, 1, rows=len(layers), width_in=width_in)
    place = axes[0][0]
    image = place.imshow(probability, cmap="cividis", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for row in range(len(layers)):
        for rank in range(text.shape[1]):
            colour = "black" if probability[row, rank] > 0.6 else "white"
            shown = "".join(letter if letter.isprintable() else "·" for letter in str(text[row, rank]))
            place.text(rank, row, shown.replace("$", r"\$")[:18], ha="center", va="center", fontsize=7, color=colour)
    place.set_xticks(range(text.shape[1]), [str(rank + 1) for rank in range(text.shape[1])])
    place.set_xlabel("Rank", color=MUTED, fontsize=8)
    layer_ticks(place, layers)
    bar(place, image, "probability")
    return figure
