"""One run of a bench: what it is given, what it collects, and the record that comes of it.

The record says on what machine, under what load, with which versions, options and seed it was made. It is written as JSON (every
single run) and as Markdown (for the docs). A timing here is a measurement, never a test.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import BenchError
from . import machine
from .measuring import FEWEST_PAIRS, Ratio, Series, Side, alternate, ratio

FORMAT = "inkling-bench"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a record.

    Attributes
    ----------
    kind : {"time", "rate", "ratio", "value"}
        ``time`` in seconds, ``rate`` in `unit` per second, ``ratio`` of paired runs, ``value`` in `unit`.
    median, smallest, largest : float
        Over the runs (a value has one).
    low, high : float or None
        95 % bootstrap interval of a ratio's median.
    aim : str
        What it should be; empty for none. `met` says whether the median is.
    runs : tuple of float
        Seconds of every run that counted, in order.
    """

    name: str
    kind: str
    unit: str
    median: float
    smallest: float
    largest: float
    low: float | None = None
    high: float | None = None
    aim: str = ""
    met: bool | None = None
    runs: tuple[float, ...] = ()
    note: str = ""


class Bench:
    """What a bench module is given: how often to measure, and where to put what it found.

    Parameters
    ----------
    name : str
    rounds : int
        Rounds that count, unless a measurement says otherwise.
    seed : int
        For everything random: inputs and the bootstrap.
    quick : bool
        Small inputs, to see that a bench works; a record made so says that it was.
    options : mapping
        The bench's own options, for the record.
    note : callable
        Is told what goes on.
    """

    def __init__(
        self, name: str, *, rounds: int = 7, seed: int = 0, quick: bool = False,
        options: Mapping[str, Any] | None = None, note: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        if rounds < FEWEST_PAIRS:
            raise BenchError(f"{rounds} rounds: it takes {FEWEST_PAIRS} or more for a ratio")
        self.name, self.rounds, self.seed, self.quick = name, rounds, seed, quick
        self.options, self.note = dict(options or {}), note
        self.rows: list[Row] = []
        self.remarks: list[str] = []
        self._began, self._load = datetime.now(UTC), machine.load()
        self._clock = time.perf_counter()

    def sized(self, args: argparse.Namespace, **small: Any) -> argparse.Namespace:
        """The bench's options; in a quick run with the `small` ones in their place, which the record then says."""
        if not self.quick:
            return args
        self.options |= small
        return argparse.Namespace(**vars(args) | small)

    def alternate(self, sides: Mapping[str, Side], *, rounds: int | None = None, warmup: int = 1) -> dict[str, Series]:
        """Run the sides in turns; see :func:`~workbench.benchmarks.measuring.alternate`."""
        self.note(f"{self.name}: {' / '.join(sides)}")
        return alternate(sides, rounds=rounds or self.rounds, warmup=warmup)

    def measure(self, side: str, run: Side, *, rounds: int | None = None, warmup: int = 1) -> Series:
        """Run one thing several times, for a time or a rate of its own (never for a ratio)."""
        return self.alternate({side: run}, rounds=rounds, warmup=warmup)[side]

    def time(self, name: str, series: Series, *, at_most_s: float | None = None, note: str = "") -> Row:
        """Add a time."""
        aim = {} if at_most_s is None else {"aim": f"≤ {at_most_s:g} s", "met": series.median_s <= at_most_s}
        return self._add(Row(
            name=name, kind="time", unit="s", median=series.median_s, smallest=series.min_s, largest=series.max_s,
            runs=series.runs_s, note=note, **aim,
        ))  # fmt: skip

    def rate(self, name: str, series: Series, *, amount: float, unit: str, at_least: float | None = None, note: str = "") -> Row:
        """Add a rate: `amount` of `unit` in each run."""
        median = amount / series.median_s
        aim = {} if at_least is None else {"aim": f"≥ {at_least:,g} {unit}/s", "met": median >= at_least}
        return self._add(Row(
            name=name, kind="rate", unit=f"{unit}/s", median=median, smallest=amount / series.max_s,
            largest=amount / series.min_s, runs=series.runs_s, note=note, **aim,
        ))  # fmt: skip

    def ratio(
        self, name: str, over: Series, under: Series, *, at_most: float | None = None, at_least: float | None = None, note: str = ""
    ) -> Ratio:
        """Add the ratio of two sides that were measured in turns.

        Raises
        ------
        BenchError
            They were not.
        """
        found = ratio(over, under, seed=self.seed)
        aim: dict[str, Any] = {}
        if at_most is not None:
            aim = {"aim": f"≤ {at_most:g}", "met": found.median <= at_most}
        elif at_least is not None:
            aim = {"aim": f"≥ {at_least:g}", "met": found.median >= at_least}
        self._add(Row(
            name=name, kind="ratio", unit=f"{over.side} / {under.side}", median=found.median, smallest=found.smallest,
            largest=found.largest, low=found.low, high=found.high, note=note, **aim,
        ))  # fmt: skip
        return found

    def value(self, name: str, value: float, *, unit: str, at_most: float | None = None, note: str = "") -> Row:
        """Add a number that is no time: bytes, tokens, a share."""
        aim = {} if at_most is None else {"aim": f"≤ {at_most:,g} {unit}", "met": value <= at_most}
        return self._add(
            Row(name=name, kind="value", unit=unit, median=value, smallest=value, largest=value, note=note, **aim)
        )  # fmt: skip

    def remark(self, text: str) -> None:
        """Say something the reader of the record must know."""
        self.remarks.append(text)

    def _add(self, row: Row) -> Row:
        self.rows.append(row)
        self.note(f"  {row.name}: {number(row.median)} {row.unit}" + (f" (aim {row.aim})" if row.aim else ""))
        return row

    def record(self) -> Record:
        """The record of everything that was added until now."""
        if not self.rows:
            raise BenchError(f"the bench {self.name} measured nothing")
        return Record(
            bench=self.name, rows=tuple(self.rows), seed=self.seed, rounds=self.rounds, quick=self.quick, options=self.options,
            remarks=tuple(self.remarks), began=self._began.isoformat(timespec="seconds"),
            took_s=round(time.perf_counter() - self._clock, 1), machine=machine.machine(), versions=machine.versions(),
            load_before=self._load, load_after=machine.load(),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a run of a bench found, and on what."""

    bench: str
    rows: tuple[Row, ...]
    seed: int
    rounds: int
    quick: bool
    options: dict[str, Any]
    remarks: tuple[str, ...]
    began: str
    took_s: float
    machine: dict[str, Any]
    versions: dict[str, str]
    load_before: list[float] | None
    load_after: list[float] | None
    format: str = field(default=FORMAT, init=False)
    version: int = field(default=VERSION, init=False)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return asdict(self)

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write ``<bench>.json`` and ``<bench>.md`` into `folder`, and return their paths.

        Raises
        ------
        BenchError
            They cannot be written.
        """
        from .markdown import page

        data, text = folder / f"{self.bench}.json", folder / f"{self.bench}.md"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            data.write_text(json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n", "utf-8")
            text.write_text(page(self), "utf-8")
        except OSError as problem:
            raise BenchError(f"{folder}: cannot be written ({problem.strerror or problem}): give another --out") from problem
        return data, text


def number(value: float) -> str:
    """A number with the digits that carry something.

    Examples
    --------
    >>> number(0.01234), number(1.5), number(1234.5), number(0)
    ('0.0123', '1.50', '1,234', '0')
    """
    if value == 0 or (float(value).is_integer() and abs(value) < 1000):
        return f"{value:g}"
    size = abs(value)
    return f"{value:,.0f}" if size >= 1000 else f"{value:.1f}" if size >= 100 else f"{value:.2f}" if size >= 1 else f"{value:.3g}"
