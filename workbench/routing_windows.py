"""What a view of routing asks, answered at any zoom: strips of tokens and loads of ranges, from one pass over a capture.

Made once per capture (:meth:`RoutingWindows.of`), then a window of a million tokens is answered from pyramids and block sums, and
a window of few tokens from the arrays themselves. Holds about 100 bytes per 16 tokens and layer, whatever the number of experts,
plus 6 bytes per expert and layer for every 4,096 tokens. Nothing here draws or knows a notebook.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .errors import SelectionError
from .routing import (
    accumulate,
    blocks,
    check_cell,
    check_range,
    entropy_bits,
    expert_share,
    load,
    load_dataset,
    per_token,
    sink_mass,
)  # fmt: skip
from .routing_levels import Level, Pyramid, build, first_level

if TYPE_CHECKING:
    import xarray as xr

    from .captures import Capture

Metric = Literal["entropy", "sink", "expert"]
Stat = Literal["mean", "max"]
METRICS: tuple[Metric, ...] = ("entropy", "sink", "expert")
STATS: tuple[Stat, ...] = ("mean", "max")

LOAD_TOKENS = 4_096
"""Tokens per block of the load sums; a divisor of the blocks a capture is read in."""

QUANTILE = 0.01
"""Part of the values at either end that a colour scale may clip, so that a few odd tokens do not flatten the rest."""

SMALL_TOKENS = 65_536
"""Up to this many tokens the pyramid starts at single tokens."""

COARSE_BASE = 16
"""Tokens per bucket of the finest level above that; finer windows are computed from the arrays."""


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """A quantity over a window of tokens, bucketed.

    Attributes
    ----------
    start, width_tokens : int
        First token, and tokens per bucket (1: exact per-token values).
    values : ndarray of float32, shape (l, b)
        NaN where nothing was written.
    """

    start: int
    width_tokens: int
    values: NDArray[np.float32]


class RoutingWindows:
    """Overview and windows of one capture's routing.

    Attributes
    ----------
    layers : ndarray of int
        The model's index of each row.
    limits : dict of str to (float, float)
        Fixed range of each metric's colour scale, so that a colour means the same at every zoom: entropy (bits) and sink mass
        between their 1 % and 99 % quantiles (the widest of any block of tokens), expert share from 0 to the largest.
    """

    def __init__(self, routing: xr.Dataset) -> None:
        self._describe(routing)
        base = 1 if self.tokens <= SMALL_TOKENS else COARSE_BASE
        self._counts: list[NDArray[np.uint16]] = []
        self._sums: list[tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]] = []
        self._quantiles: list[np.ndarray] = []
        self._share = 0.0
        both = build(self._pass(), base=base)
        n_l = len(self.layers)
        self.pyramids: dict[str, Pyramid] = {
            name: Pyramid(both.tokens, tuple(_columns(level, part) for level in both.levels))
            for name, part in (("entropy", slice(0, n_l)), ("sink", slice(n_l, 2 * n_l)))
        }
        ends = np.asarray(self._quantiles) if self._quantiles else np.array([[[0.0, 0.0], [1.0, 1.0]]])  # (block, end, metric)
        low, high = ends[:, 0].min(0), ends[:, 1].max(0)
        self.limits = {name: (float(low[i]), float(max(high[i], low[i] + 1e-6))) for i, name in enumerate(("entropy", "sink"))}
        self.limits["expert"] = (0.0, self._share or 1.0)

    def _describe(self, routing: xr.Dataset) -> None:
        self.routing = routing
        self.tokens = routing.sizes["t"]
        self.layers: NDArray[np.int64] = routing["l"].values
        self.experts = int(routing.attrs["experts"])
        self.top_k, self.sinks = routing.sizes["k"], routing.sizes["s"]

    @classmethod
    def of(cls, capture: Capture) -> RoutingWindows:
        """The windows of `capture`, made on first use (or read, where they were saved beside it) and kept with it.

        Raises
        ------
        SelectionError
            Its routing is of some tokens only: a window is a range of all.
        """
        if capture.routing.sizes["t"] != len(capture):
            raise SelectionError(
                f"this capture has routing of {capture.routing.sizes['t']:,} of {len(capture):,} tokens, a map shows all of them: "
                "capture with CapturePlan(routing=True), or use the analyses (cap.routing_by, cap.expert)"
            )
        if "windows" not in capture._made:
            from .routing_store import load as stored

            saved = stored(capture._made["path"], capture.routing) if "path" in capture._made else None
            capture._made["windows"] = saved or cls(capture.routing)
        return capture._made["windows"]

    @classmethod
    def restored(
        cls, routing: xr.Dataset, *, pyramids: dict[str, Pyramid], counts: list[NDArray[np.uint16]], sums: list[Any],
        limits: dict[str, tuple[float, float]],
    ) -> RoutingWindows:  # fmt: skip
        """Windows from what an earlier pass over the same routing found (:mod:`workbench.routing_store`)."""
        windows = cls.__new__(cls)
        windows._describe(routing)
        windows.pyramids, windows._counts, windows._sums, windows.limits = pyramids, counts, sums, limits
        return windows

    def strip(
        self, metric: Metric, start: int, stop: int, buckets: int, *, stat: Stat = "mean", layer: int | None = None,
        expert: int | None = None,
    ) -> Strip:  # fmt: skip
        """A quantity over tokens `start` to `stop`, in at most `buckets` + 1 buckets.

        Parameters
        ----------
        metric : {"entropy", "sink", "expert"}
            ``expert`` is the share of one expert of one layer, and has one row.
        stat : {"mean", "max"}
            What a bucket of several tokens shows.

        Raises
        ------
        SelectionError
            An unknown metric, layer or expert, or a range outside the capture.
        """
        start, stop = check_range(self.routing, start, stop)
        if metric not in METRICS or stat not in STATS or not 1 <= buckets <= 16_384:
            raise SelectionError(
                f"no strip of {metric!r}, {stat!r}, {buckets} buckets: metrics {METRICS}, {STATS}, 1 to 16384 buckets"
            )
        if metric == "expert":
            if layer is None or expert is None:
                raise SelectionError("a strip of one expert needs its layer and number")
            first, level = self._expert_level(layer, expert, start, stop, buckets)
        else:
            first, level = self._level(metric, start, stop, buckets)
        values = level.mean if stat == "mean" else np.where(level.count > 0, level.largest, np.float32(np.nan))
        return Strip(first, level.width, np.ascontiguousarray(values.T, dtype=np.float32))

    def load(self, start: int = 0, stop: int | None = None) -> xr.Dataset:
        """As :func:`workbench.routing.load`, from block sums: cost does not grow with the range."""
        start, stop = check_range(self.routing, start, stop)
        first, last = -(-start // LOAD_TOKENS), stop // LOAD_TOKENS
        if last <= first:
            return load(self.routing, start=start, stop=stop)
        sizes = (1, len(self.layers), self.experts, self.sinks)
        sums: list[Any] = [np.sum(self._counts[first:last], axis=0, dtype=np.int64)]
        sums += [np.sum([item[i] for item in self._sums[first:last]], axis=0, dtype=np.float64) for i in range(3)]
        for low, high in ((start, first * LOAD_TOKENS), (last * LOAD_TOKENS, stop)):
            for block in blocks(self.routing, low, high) if low < high else ():
                more = accumulate(block, np.zeros(len(block.expert), np.int64), sizes)
                sums = [held + new[0] for held, new in zip(sums, more, strict=True)]
        count, share, sink, tokens = sums
        arrays = (count[None], share[None], sink[None], np.asarray(tokens, np.int64)[None])
        return load_dataset(*arrays, self.routing, ["all"]).isel(group=0, drop=True)

    def mean(self, metric: Literal["entropy", "sink"], start: int, stop: int) -> tuple[float, int]:
        """Exact mean over the tokens and layers of a range, and of how many values; NaN and 0 where none was written."""
        start, stop = check_range(self.routing, start, stop)
        level = self.pyramids[metric].levels[0]
        first, last = -(-start // level.width), stop // level.width
        pieces = [(start, stop)]
        total, count = 0.0, 0
        if last > first:
            total, count = float(level.total[first:last].sum()), int(level.count[first:last].sum())
            pieces = [(start, first * level.width), (last * level.width, stop)]
        for low, high in pieces:
            if low < high:
                values = per_token(self.routing, low, high)[{"entropy": "entropy", "sink": "sink_mass"}[metric]].values
                total, count = total + float(np.nansum(values, dtype=np.float64)), count + int((~np.isnan(values)).sum())
        return (total / count if count else float("nan")), count

    def _pass(self) -> Iterator[NDArray[np.float32]]:
        """One walk over the capture: yields entropy beside sink mass (t, 2l) and keeps load sums and limits."""
        for block in blocks(self.routing):
            groups = np.arange(len(block.expert)) // LOAD_TOKENS
            n_g = int(groups[-1]) + 1
            count, share, sink, tokens = accumulate(block, groups, (n_g, len(self.layers), self.experts, self.sinks))
            self._counts += list(count.astype(np.uint16))
            self._sums += list(zip(share.astype(np.float32), sink.astype(np.float32), tokens, strict=True))
            entropy, mass = entropy_bits(block.weight), sink_mass(block)
            if not np.isnan(mass).all():
                ends = [np.nanquantile(values, (QUANTILE, 1 - QUANTILE)) for values in (entropy, mass)]
                self._quantiles.append(np.stack(ends, axis=1))
                self._share = max(self._share, float(np.nanmax(block.weight.max(-1) / block.total)))
            yield np.concatenate([entropy, mass], axis=1)

    def _level(self, metric: str, start: int, stop: int, buckets: int) -> tuple[int, Level]:
        pyramid = self.pyramids[metric]
        width = -(-(stop - start) // buckets)
        if width >= pyramid.base:
            return pyramid.window(start, stop, buckets)
        first = start - start % width
        name = {"entropy": "entropy", "sink": "sink_mass"}[metric]
        values = per_token(self.routing, first, min(self.tokens, stop + (-stop) % width))[name].values
        return first, _shifted(first_level(values, start=first), width)

    def _expert_level(self, layer: int, expert: int, start: int, stop: int, buckets: int) -> tuple[int, Level]:
        check_cell(self.routing, layer, expert)
        width = -(-(stop - start) // buckets)
        first = start - start % width
        values = expert_share(self.routing, layer, expert, first, min(self.tokens, stop + (-stop) % width))
        return first, _shifted(first_level(values[:, None], start=first), width)


def _shifted(level: Level, width: int) -> Level:
    """Buckets of `width` tokens from single-token ones that already begin at a bucket's first token."""
    return level if width == 1 else level.merge(width)


def _columns(level: Level, part: slice) -> Level:
    arrays = {name: getattr(level, name)[:, part] for name in ("total", "count", "largest", "where")}
    return dataclasses.replace(level, **arrays)
