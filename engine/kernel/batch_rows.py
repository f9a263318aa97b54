"""Rows of the running step that are one request's: where they lie in the batch, and at which positions.

From the runner's own batch (vLLM 0.32: ``InputBatch.query_start_loc_np`` and ``positions``), so chunked prompts, cached prefixes,
preemption, padding and drafts under verification need no thought. Whoever observes or changes a step finds its rows here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows `start` to `stop` of a step are one request's tokens `t`, `t` + 1, …; `index` is its place in the batch."""

    index: int
    start: int
    stop: int
    t: int

    @property
    def part(self) -> slice:
        """The rows, of any tensor whose first axis is the step's tokens."""
        return slice(self.start, self.stop)


def rows_of(batch: Any, index: int) -> Rows:
    """Rows of the request at place `index` of a step's batch."""
    start, stop = int(batch.query_start_loc_np[index]), int(batch.query_start_loc_np[index + 1])
    return Rows(index, start, stop, int(batch.positions[start]))
