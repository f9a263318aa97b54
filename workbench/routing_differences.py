"""One capture's routing beside another's: what it uses more, expert by expert, and token by token where the tokens are the same.

Loads are shares, so captures of any two contexts can be compared by them; a strip of differences needs the same tokens in both, as
two captures of one context under different interventions have. Nothing here draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .errors import SelectionError
from .routing_windows import Metric, RoutingWindows, Stat, Strip

if TYPE_CHECKING:
    from .captures import Capture

CLIPPED = 0.99
"""Quantile of the sizes at which the colour scale ends."""

OVERVIEW_BUCKETS = 1_024


@dataclass(frozen=True, eq=False)
class RoutingDifference:
    """`capture` beside `other`.

    Attributes
    ----------
    same_tokens : bool
        Whether both are of the same token ids.
    """

    capture: Capture
    other: Capture

    def __post_init__(self) -> None:
        one, two = RoutingWindows.of(self.capture), RoutingWindows.of(self.other)
        if not np.array_equal(one.layers, two.layers) or (one.experts, one.sinks) != (two.experts, two.sinks):
            raise SelectionError(
                f"these captures have different routers: layers {one.layers.tolist()} with {one.experts} experts, and "
                f"{two.layers.tolist()} with {two.experts}; compare captures of one model"
            )

    @cached_property
    def same_tokens(self) -> bool:
        return np.array_equal(self.capture.token_ids, self.other.token_ids)

    @cached_property
    def limits(self) -> dict[str, tuple[float, float]]:
        """Range of each metric's colour scale, zero in its middle, the same at every zoom."""
        one, two = RoutingWindows.of(self.capture), RoutingWindows.of(self.other)
        top = max(one.limits["expert"][1], two.limits["expert"][1])
        found = {"expert": (-top, top)}
        for metric in ("entropy", "sink"):
            size = 1.0
            if self.same_tokens:
                sizes = np.abs(self.strip(metric, 0, one.tokens, OVERVIEW_BUCKETS).values)
                held = sizes[~np.isnan(sizes)]
                size = float(np.quantile(held, CLIPPED)) if held.size else 0.0
            found[metric] = (-max(size, 1e-6), max(size, 1e-6))
        return found

    def strip(self, metric: Metric, start: int, stop: int, buckets: int, *, stat: Stat = "mean", **cell: Any) -> Strip:
        """As :meth:`RoutingWindows.strip`, this capture minus the other.

        Raises
        ------
        SelectionError
            The captures are of different tokens.
        """
        if not self.same_tokens:
            raise SelectionError(
                f"the captures are of different tokens ({len(self.capture):,} and {len(self.other):,}): "
                "only their loads can be compared"
            )
        one, two = (
            RoutingWindows.of(capture).strip(metric, start, stop, buckets, stat=stat, **cell)
            for capture in (self.capture, self.other)
        )
        return Strip(one.start, one.width_tokens, one.values - two.values)

    def load(self, pieces: Sequence[tuple[int, int]]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The other's load of the same tokens; of its whole context where the tokens are others. See :func:`load_of`."""
        windows = RoutingWindows.of(self.other)
        return load_of(windows, pieces if self.same_tokens else [(0, windows.tokens)])


def load_of(windows: RoutingWindows, pieces: Sequence[tuple[int, int]]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Load of several ranges of tokens together.

    Returns
    -------
    share, chosen : ndarray (l,e)
        Part of the weight; part of the tokens that chose the expert. NaN where no token was written.
    sink : ndarray (l,s)
    """
    loads = [windows.load(start, stop) for start, stop in pieces]
    tokens = np.sum([item["tokens"].values for item in loads], axis=0)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        share, sink = (
            np.sum([np.nan_to_num(item[name].values) * item["tokens"].values[:, None] for item in loads], axis=0)
            / np.where(tokens, tokens, np.nan)
            for name in ("share", "sink")
        )
        chosen = np.sum([item["count"].values for item in loads], axis=0) / np.where(tokens, tokens, np.nan)
    return share, chosen, sink
