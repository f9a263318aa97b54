"""What a view of the short convolutions asks at any zoom: how much they add, in which direction, and which tap brings it.

One pyramid per quantity and site, made when it is first asked for and kept beside a saved capture; a window of few tokens is
computed from the arrays. Tokens that the plan did not record are NaN. Nothing here draws. Legend: T tokens, L layers, B buckets.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .errors import SelectionError
from .overviews import Overviews, pack, unpack
from .routing_levels import Level, Pyramid, build, first_level
from .routing_windows import QUANTILE, SMALL_TOKENS, STATS, Stat, Strip
from .seam_analysis import BLOCK_TOKENS, variables_of

if TYPE_CHECKING:
    import xarray as xr

Metric = Literal["ratio", "cosine", "tap"]
METRICS: tuple[Metric, ...] = ("ratio", "cosine", "tap")
"""Norm of what is added over norm of the input; cosine between the two; the part of what is added that one tap brings."""

COARSE_BASE = 64
"""Tokens per bucket of a large capture's finest level: 66 layers at a million tokens take 30 MB."""

HELD = 6
"""Pyramids kept."""


class SconvWindows:
    """Windows of one capture's convolutions.

    Attributes
    ----------
    tokens : int
        Of the whole context, recorded or not.
    layers : ndarray of int
    sites : tuple of str
    taps : int
        0 when the plan kept norms alone.
    """

    def __init__(self, data: xr.Dataset, tokens: int, kept: Overviews | None = None) -> None:
        self.data, self.tokens, self._kept = data, tokens, kept or Overviews()
        self.layers: NDArray[np.int64] = np.asarray(data["l"].values)
        self.sites = tuple(str(site) for site in data["site"].values)
        self.taps = int(data.sizes["tap"]) if "by_tap" in data else 0
        self._positions: NDArray[np.int64] = np.asarray(data["t"].values)
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, str, int], tuple[Pyramid, tuple[float, float]]] = OrderedDict()

    def strip(self, metric: Any, site: str, start: int, stop: int, buckets: int, *, tap: int = 0, stat: Stat = "mean") -> Strip:
        """A quantity of one site over tokens `start` to `stop`, a row per layer.

        Parameters
        ----------
        metric : {"ratio", "cosine", "tap"}
        tap : int
            For ``tap``: 0 is the token itself, 1 the one before it.
        stat : {"mean", "max"}

        Raises
        ------
        SelectionError
        """
        key = self._key(metric, site, tap)
        start, stop = self.range(start, stop)
        if stat not in STATS or not 1 <= buckets <= 16_384:
            raise SelectionError(f"no strip of {stat!r} in {buckets} buckets: {', '.join(STATS)}, 1 to 16384 buckets")
        pyramid, _ = self._pyramid(key)
        width = -(-(stop - start) // buckets)
        if width >= pyramid.base:
            first, level = pyramid.window(start, stop, buckets)
        else:
            first = start - start % width
            level: Level = first_level(self.values(key, first, min(self.tokens, stop + (-stop) % width)), start=first)
            level = level if width == 1 else level.merge(width)
        shown = level.mean if stat == "mean" else np.where(level.count > 0, level.largest, np.float32(np.nan))
        return Strip(first, level.width, np.ascontiguousarray(shown.T, dtype=np.float32))

    def limits(self, metric: Any, site: str, tap: int = 0) -> tuple[float, float]:
        """Range of the colour scale, the same at every zoom: the widest 1 % and 99 % quantiles of any block of tokens."""
        return self._pyramid(self._key(metric, site, tap))[1]

    def values(self, key: tuple[str, str, int], start: int, stop: int) -> NDArray[np.float32]:
        """A quantity of every token, shape (t, l); NaN where it was not recorded."""
        metric, site, tap = key
        out = np.full((stop - start, len(self.layers)), np.nan, np.float32)
        low, high = np.searchsorted(self._positions, (start, stop))
        if high == low:
            return out
        rows = self.data.isel(t=slice(int(low), int(high)), site=self.sites.index(site))
        read = {name: rows[name].transpose("t", "l", ...).values for name in _NEEDED[metric]}
        with np.errstate(divide="ignore", invalid="ignore"):
            found = (
                read["cosine"] if metric == "cosine"
                else read["term"] / read["input"] if metric == "ratio"
                else read["by_tap"][..., self.taps - 1 - tap] / read["term"]
            )  # fmt: skip
        out[self._positions[low:high] - start] = np.where(np.isfinite(found), found, np.nan)
        return out

    def range(self, start: int, stop: int) -> tuple[int, int]:
        """The tokens, checked.

        Raises
        ------
        SelectionError
        """
        start, stop = int(start), int(stop)
        if not 0 <= start < stop <= self.tokens:
            raise SelectionError(f"there are no tokens {start} to {stop}: this capture has 0 to {self.tokens}")
        return start, stop

    def place(self, layer: int, site: str) -> dict[str, int]:
        """Indexers of one convolution.

        Raises
        ------
        SelectionError
        """
        found = np.flatnonzero(self.layers == int(layer))
        if not len(found) or site not in self.sites:
            raise SelectionError(
                f"no convolution at layer {layer}, site {site!r}: layers {self.layers[0]} to {self.layers[-1]}, "
                f"sites {', '.join(self.sites)}"
            )
        return {"l": int(found[0]), "site": self.sites.index(site)}

    def recorded(self, start: int, stop: int) -> slice:
        """Rows of the arrays that belong to tokens `start` to `stop`."""
        low, high = np.searchsorted(self._positions, (start, stop))
        return slice(int(low), int(high))

    def _key(self, metric: Any, site: str, tap: int) -> tuple[str, str, int]:
        if metric not in METRICS or site not in self.sites:
            raise SelectionError(f"no strip of {metric!r} at {site!r}: {', '.join(METRICS)}; sites {', '.join(self.sites)}")
        if metric != "tap":
            return metric, site, 0
        variables_of(self.data, "sconv", "by_tap")
        if not 0 <= int(tap) < self.taps:
            raise SelectionError(f"there is no tap {tap}: 0 (the token itself) to {self.taps - 1}")
        return metric, site, int(tap)

    def _pyramid(self, key: tuple[str, str, int]) -> tuple[Pyramid, tuple[float, float]]:
        with self._lock:  # pages ask from several threads: one walk is enough
            return self._made(key)

    def _made(self, key: tuple[str, str, int]) -> tuple[Pyramid, tuple[float, float]]:
        if key not in self._held:
            self._held[key] = unpack(self._kept.of("sconv-" + "-".join(map(str, key)), lambda: pack(*self._walked(key))))
            while len(self._held) > HELD:
                self._held.popitem(last=False)
        self._held.move_to_end(key)
        return self._held[key]

    def _walked(self, key: tuple[str, str, int]) -> tuple[Pyramid, tuple[float, float]]:
        """One walk over the capture."""
        ends: list[NDArray[np.floating]] = []
        made = build(self._pieces(key, ends), base=1 if self.tokens <= SMALL_TOKENS else COARSE_BASE)
        low, high = (min(end[0] for end in ends), max(end[1] for end in ends)) if ends else (0.0, 1.0)
        return made, (float(low), float(max(high, low + 1e-6)))

    def _pieces(self, key: tuple[str, str, int], ends: list[NDArray[np.floating]]) -> Iterator[NDArray[np.float32]]:
        for start in range(0, self.tokens, BLOCK_TOKENS):
            values = self.values(key, start, min(self.tokens, start + BLOCK_TOKENS))
            if not np.isnan(values).all():
                ends.append(np.nanquantile(values, (QUANTILE, 1 - QUANTILE)))
            yield values


_NEEDED = {"ratio": ("term", "input"), "cosine": ("cosine",), "tap": ("by_tap", "term")}
