"""Timing in turns, and what may be said of it: paired ratios with their uncertainty.

On a machine that others use too, two runs minutes apart differ by more than most effects. Sides that are to be compared are
therefore run in turns, in rounds of one run each, and compared round by round. The median of the rounds' ratios is reported with
a bootstrap interval. Knows no bench and no file.

Source of the interval: Efron & Tibshirani, An Introduction to the Bootstrap (1993), percentile method, resampling whole pairs.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import BenchError

Side = Callable[[], "float | None"]
"""One run of one side. It returns seconds that it measured itself, or None to be timed from outside."""

FEWEST_PAIRS = 3
RESAMPLES = 10_000
_turns = itertools.count()


@dataclass(frozen=True, slots=True)
class Series:
    """Runs of one side: seconds of each, and the turn in which it ran (one count for the whole process)."""

    side: str
    runs_s: tuple[float, ...]
    turns: tuple[int, ...]

    @property
    def min_s(self) -> float:
        return min(self.runs_s)

    @property
    def median_s(self) -> float:
        return float(np.median(self.runs_s))

    @property
    def max_s(self) -> float:
        return max(self.runs_s)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Median of `over` / `under`, round by round, with the bootstrap interval of that median.

    Attributes
    ----------
    low, high : float
        Ends of the `confidence` interval.
    smallest, largest : float
        Extreme rounds.
    """

    over: str
    under: str
    median: float
    low: float
    high: float
    smallest: float
    largest: float
    pairs: int
    confidence: float = 0.95


def alternate(sides: Mapping[str, Side], *, rounds: int, warmup: int = 1) -> dict[str, Series]:
    """Run every side once per round, beginning each round with another one.

    Parameters
    ----------
    sides : mapping of str to callable
        What to run, by name.
    rounds : int
        Runs of each side that count.
    warmup : int
        Rounds before those, thrown away.
    """
    if rounds < 1 or not sides:
        raise BenchError(f"nothing to measure: {len(sides)} sides in {rounds} rounds")
    names = list(sides)
    runs: dict[str, list[tuple[int, float]]] = {name: [] for name in names}
    for index in range(warmup + rounds):
        first = index % len(names)
        for name in names[first:] + names[:first]:
            turn, took = next(_turns), timed(sides[name])
            if index >= warmup:
                runs[name].append((turn, took))
    return {name: Series(name, tuple(s for _, s in found), tuple(t for t, _ in found)) for name, found in runs.items()}


def timed(side: Side) -> float:
    """Seconds of one run: what the side says it took, else by the clock."""
    begin = time.perf_counter()
    told = side()
    took = time.perf_counter() - begin
    return took if told is None else float(told)


def ratio(over: Series, under: Series, *, seed: int = 0, confidence: float = 0.95) -> Ratio:
    """`over` / `under` of runs that alternated.

    Raises
    ------
    BenchError
        The two were not run in turns, or in fewer than three rounds: such a ratio would compare moments, not programs.
    """
    _check_turns(over, under)
    values = np.array(over.runs_s) / np.array(under.runs_s)
    low, high = median_interval(values, seed=seed, confidence=confidence)
    return Ratio(
        over=over.side, under=under.side, median=float(np.median(values)), low=low, high=high,
        smallest=float(values.min()), largest=float(values.max()), pairs=len(values), confidence=confidence,
    )  # fmt: skip


def _check_turns(over: Series, under: Series) -> None:
    what = f"no ratio of {over.side!r} over {under.side!r}"
    pairs = min(len(over.runs_s), len(under.runs_s))
    if len(over.runs_s) != len(under.runs_s) or pairs < FEWEST_PAIRS:
        raise BenchError(f"{what}: {len(over.runs_s)} and {len(under.runs_s)} runs; it takes equally many, {FEWEST_PAIRS} or more")
    # In order of time, every two neighbours must be one run of each.
    in_time = sorted([(turn, 0) for turn in over.turns] + [(turn, 1) for turn in under.turns])
    if any({one[1], other[1]} != {0, 1} for one, other in zip(in_time[::2], in_time[1::2], strict=True)):
        raise BenchError(f"{what}: their runs did not alternate; measure both in one call of alternate()")


def median_interval(values: np.ndarray, *, seed: int, confidence: float = 0.95) -> tuple[float, float]:
    """Percentile bootstrap interval of the median of `values`, shape (n,)."""
    draws = np.random.default_rng(seed).integers(0, len(values), (RESAMPLES, len(values)))
    medians = np.median(np.asarray(values, dtype=float)[draws], axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return float(low), float(high)
