"""What the analyses of all seams share: which tokens belong together, walking in blocks, and what a reader must be told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .errors import SelectionError
from .routing import By, group_tokens

if TYPE_CHECKING:
    import xarray as xr

    from .captures import Capture

BLOCK_TOKENS = 16_384
CORRELATION = "It shows where it looked, not why it answered so: interventions show cause."


def notes_of(capture: Capture, *more: str) -> tuple[str, ...]:
    """Sentences that belong below every result of `capture`."""
    found = list(more)
    if capture.provenance.get("random_weights"):
        found.append("The checkpoint has random weights: this shows the machinery, not a trained model.")
    if not capture.complete:
        found.append(f"Partial: about {capture.manifest.covered_tokens:,} of {len(capture):,} tokens were recorded.")
    return tuple(found)


def groups_of(capture: Capture, positions: NDArray[np.int64], by: By | None) -> tuple[list[str], NDArray[np.int64]]:
    """Names of the groups, and the group of each position; one group of all without `by`.

    Raises
    ------
    SelectionError
        Not a grouping.
    """
    if by is None:
        return ["all"], np.zeros(len(positions), np.int64)
    names, groups = group_tokens(capture.spans, by)
    return names, groups[positions]


def token_blocks(data: xr.Dataset) -> Iterator[tuple[slice, xr.Dataset]]:
    """Walk a dataset along `t`, read block by block."""
    for start in range(0, data.sizes["t"], BLOCK_TOKENS):
        rows = slice(start, start + BLOCK_TOKENS)
        yield rows, data.isel(t=rows).load()


def position_of(data: xr.Dataset, dim: str, value: int | str, what: str) -> int:
    """Index of a layer, head, token or site along a dimension.

    Raises
    ------
    SelectionError
        It was not recorded; the message says what was.
    """
    there = data[dim].values if dim in data.coords else np.arange(data.sizes[dim])
    found = np.flatnonzero(there == value)
    if not len(found):
        raise SelectionError(f"{what} {value} was not recorded: there are {listed(there)}")
    return int(found[0])


def listed(values: Any) -> str:
    """Numbers for a reader, shortened."""
    values = np.asarray(values)
    if len(values) > 8 and int(values[-1] - values[0]) == len(values) - 1:
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values[:12])) + (", …" if len(values) > 12 else "")


def variables_of(data: xr.Dataset, seam: str, *names: str) -> None:
    """Refuse when a dataset lacks variables that its plan could have recorded.

    Raises
    ------
    SelectionError
    """
    if missing := [name for name in names if name not in data]:
        raise SelectionError(f"this capture has no {seam}.{missing[0]}: its plan kept {', '.join(map(str, data.data_vars))}")
