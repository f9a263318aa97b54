"""Level-of-detail pyramids: a per-token quantity at a million tokens, ready to be drawn at any zoom.

Level 0 has buckets of `base` tokens, each further level buckets `FACTOR` times as wide. Every bucket holds the sum, the number of
values, the largest value and the token that has it. Sums are float64 sums of the children, so every level has the same total; the
mean follows. NaN (never written) counts nowhere; a bucket without values has count 0 and a NaN mean.

Index letters: ``t`` token, ``l`` layer, ``b`` bucket.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FACTOR = 4
TOP_BUCKETS = 512
"""A level of at most this many buckets is the last: every view asks for more."""


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Buckets of `width` tokens; bucket `b` covers tokens ``b × width`` to ``(b+1) × width``.

    Attributes
    ----------
    total, count, largest, where : ndarray, shape (b, l)
        Sum (float64), number of values (int64), maximum (float32; -inf when empty) and the first token that has it (int64; -1).
    """

    width: int
    total: NDArray[np.float64]
    count: NDArray[np.int64]
    largest: NDArray[np.float32]
    where: NDArray[np.int64]

    @property
    def mean(self) -> NDArray[np.float32]:
        """Mean per bucket, NaN where it is empty."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.total / np.where(self.count, self.count, np.nan)).astype(np.float32)

    def merge(self, factor: int, start: int = 0, stop: int | None = None) -> Level:
        """Buckets `start` to `stop` of this level, `factor` of them in one; `start` must be a multiple of `factor`."""
        stop = len(self.total) if stop is None else stop
        if start % factor:
            raise ValueError(f"a merge by {factor} must start at a multiple of it, not at {start}")
        edges = np.arange(start, stop, factor)
        if not len(edges):
            return Level(self.width * factor, self.total[:0], self.count[:0], self.largest[:0], self.where[:0])
        edges -= start
        total, count = self.total[start:stop], self.count[start:stop]
        largest, where = self.largest[start:stop], self.where[start:stop]
        best = np.maximum.reduceat(largest, edges)
        # The first token that has the maximum: other buckets' candidates are masked out before the minimum.
        reach = np.repeat(best, np.diff(edges, append=len(largest)), axis=0)
        far = np.iinfo(np.int64).max
        first = np.minimum.reduceat(np.where((largest == reach) & (where >= 0), where, far), edges)
        return Level(
            self.width * factor,
            np.add.reduceat(total, edges),
            np.add.reduceat(count, edges),
            best,
            np.where(first == far, -1, first),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Pyramid:
    """All levels of one quantity, finest first."""

    tokens: int
    levels: tuple[Level, ...]

    @property
    def base(self) -> int:
        """Tokens per bucket of the finest level."""
        return self.levels[0].width

    def window(self, start: int, stop: int, buckets: int) -> tuple[int, Level]:
        """At most `buckets` + 1 buckets that cover tokens `start` to `stop`, from the coarsest level that is fine enough.

        Returns
        -------
        first : int
            Token at which the first bucket begins: `start` rounded down to a multiple of the bucket's width.
        level : Level
            The buckets; ``level.width`` tokens each.
        """
        wanted = -(-(stop - start) // buckets)
        level = max((lv for lv in self.levels if lv.width <= wanted), key=lambda lv: lv.width, default=self.levels[0])
        factor = max(1, -(-wanted // level.width))
        width = level.width * factor
        first = start - start % width
        # The last bucket is a whole one too, so that a bucket shows the same at every window that has it.
        end = min(-(-stop // width) * factor, len(level.total))
        return first, level.merge(factor, first // level.width, end)


def first_level(values: NDArray[np.float32], *, start: int = 0, width: int = 1) -> Level:
    """The buckets of `values` (t, l), whose first row is token `start` (a multiple of `width`)."""
    missing = np.isnan(values)
    level = Level(
        1,
        np.where(missing, 0.0, values).astype(np.float64),
        (~missing).astype(np.int64),
        np.where(missing, np.float32(-np.inf), values).astype(np.float32),
        np.where(missing, -1, np.arange(start, start + len(values))[:, None]),
    )
    return level if width == 1 else level.merge(width)


def build(pieces: Iterable[NDArray[np.float32]], *, base: int) -> Pyramid:
    """A pyramid of a quantity that comes in pieces (t, l), each but the last a multiple of `base` tokens long."""
    found, tokens = [], 0
    for piece in pieces:
        found.append(first_level(piece, start=tokens, width=base))
        tokens += len(piece)
    joined = [np.concatenate([getattr(level, name) for level in found]) for name in ("total", "count", "largest", "where")]
    levels = [Level(base, *joined)]
    while len(levels[-1].total) > TOP_BUCKETS:
        levels.append(levels[-1].merge(FACTOR))
    return Pyramid(tokens, tuple(levels))
