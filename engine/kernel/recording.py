"""Writing what a seam sees of one request: rows staged for a step, written together, counted.

The tokens of one request in a step are neighbours, so the rows a step adds to an array along `t` lie together on disk: each is
written once, by one call. A row counts as covered when every part of it (layer and site) came exactly once in its step, and no
other step brought it again. The counts are on disk too (``<seam>.seen.npy``, one byte per row), so that what a dead engine left
behind can still be told from what it never wrote. Knows no vLLM.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..protocol.costs import Entries
from ..protocol.selectors import TokenRange
from .array_files import ArrayFile
from .batch_rows import Rows

BLOCK_VALUES = 1 << 22
"""Values of a step's tensor that are worked on at a time: 16 MB in float32, whatever the model's width and the step's length."""


CACHED_VALUES = 1 << 17
"""The same where several passes are made over a block on a processor: half a megabyte stays in its cache."""


def row_blocks(rows: int, width: int, values: int = BLOCK_VALUES) -> list[tuple[int, int]]:
    """Cut `rows` of so many values into blocks of about `values`."""
    step = max(16, values // max(1, width))
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]


class Selection:
    """Which tokens are recorded, and where.

    Parameters
    ----------
    ranges : sequence of TokenRange
        Sorted, apart.
    """

    def __init__(self, ranges: Any) -> None:
        self.ranges: tuple[TokenRange, ...] = tuple(ranges)
        self._starts = np.array([piece.start for piece in self.ranges])
        self._stops = np.array([piece.stop for piece in self.ranges])
        self._before = np.concatenate([[0], np.cumsum(self._stops - self._starts)])

    def __len__(self) -> int:
        return int(self._before[-1])

    def locate(self, start: int, stop: int) -> tuple[int, NDArray[np.int64]]:
        """Of tokens `start` to `stop`: row of the first selected one, and positions of all selected ones."""
        first = int(np.searchsorted(self._stops, start, side="right"))
        last = int(np.searchsorted(self._starts, stop, side="left"))
        pieces = [
            np.arange(max(start, self.ranges[i].start), min(stop, self.ranges[i].stop)) for i in range(first, last)
        ]  # fmt: skip
        found = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
        if not len(found):
            return 0, found
        return int(self._before[first] + found[0] - self._starts[first]), found


class TokenRecorder:
    """Arrays along `t` of one seam.

    Parameters
    ----------
    folder : Path
    seam : str
    arrays : dict
        The seam's entries; those along `t` are written here.
    selection : Selection
    layers : list of int
        Coordinate `l`.
    parts : int
        Sites per layer: each must come once per layer and step.
    writes : bool
        Only one rank writes; the others only take part.
    """

    def __init__(
        self, folder: Path, seam: str, arrays: Entries, selection: Selection, layers: list[int], *,
        parts: int = 1, writes: bool = True,
    ) -> None:  # fmt: skip
        self.seam, self.selection, self.layers, self.writes = seam, selection, layers, writes
        self._column = {layer: column for column, layer in enumerate(layers)}
        self._shapes = {name: (shape, np.dtype(dtype)) for name, (dims, shape, dtype) in arrays.items() if dims[0] == "t"}
        self._by_part = {name for name, (dims, _, _) in arrays.items() if dims[2:3] == ("site",)}
        self._files = {
            name: ArrayFile(folder / f"{name}.npy", shape, dtype.str, create=True) for name, (shape, dtype) in self._shapes.items()
        } if writes else {}  # fmt: skip
        self._counts = np.zeros(len(selection), np.uint8)
        self._seen_file = ArrayFile(folder / f"{seam}.seen.npy", self._counts.shape, "|u1", create=True) if writes else None
        self._seen = np.zeros((len(layers), parts), np.int64)
        self._stage: dict[str, np.ndarray] = {}
        self._at, self.rows = 0, np.empty(0, np.int64)

    def begin(self, rows: Rows) -> None:
        """A step brings these rows of the request."""
        self._at, positions = self.selection.locate(rows.t, rows.t + rows.stop - rows.start)
        self.rows = positions - rows.t + rows.start
        self._seen[:] = 0
        self._stage = {
            name: np.full((len(self.rows), *shape[1:]), np.nan if dtype.kind == "f" else 0, dtype)
            for name, (shape, dtype) in self._shapes.items()
        } if self.writes and len(self.rows) else {}  # fmt: skip

    def records(self, layer: int) -> bool:
        """Whether this step has rows to record, and `layer` is one of the layers."""
        return len(self.rows) > 0 and layer in self._column

    def take(self, tensor: Any) -> Any:
        """The selected rows of a step's tensor; a view where they lie together."""
        first, last = int(self.rows[0]), int(self.rows[-1])
        if last - first + 1 == len(self.rows):
            return tensor[first : last + 1]
        import torch

        return tensor[torch.from_numpy(self.rows).to(tensor.device)]

    def put(self, layer: int, part: int, /, **values: Any) -> None:
        """Stage arrays (t, …) of one layer and site by their names without the seam's; narrower last axes leave the rest NaN."""
        column = self._column[layer]
        self._seen[column, part] += 1
        for name, value in values.items():
            if (stage := self._stage.get(full := f"{self.seam}.{name}")) is None:
                continue
            target, value = stage[:, column, part] if full in self._by_part else stage[:, column], _numpy(value)
            if target.shape == value.shape:
                target[...] = value
            else:
                target[..., : value.shape[-1]] = value

    def end(self) -> None:
        """The step is over: write what it brought."""
        if not len(self.rows):
            return
        rows = slice(self._at, self._at + len(self.rows))
        if (self._seen == 1).all():
            self._counts[rows] = np.minimum(self._counts[rows], 254) + 1
        elif (self._seen > 1).any():
            self._counts[rows] = 255
        for name, stage in self._stage.items():
            self._files[name].write((self._at,), stage)
        if self._seen_file is not None:
            self._seen_file.write((self._at,), self._counts[rows])
        self._stage, self.rows = {}, np.empty(0, np.int64)

    def finish(self) -> tuple[dict[str, tuple[int, int]], list[str]]:
        """Close the files; per seam rows written once and rows asked for, and what is wrong, in words."""
        for file in [*self._files.values(), *([self._seen_file] if self._seen_file else [])]:
            file.close()
        if not self.writes:
            return {}, []
        asked, once = len(self._counts), int((self._counts == 1).sum())
        problems = []
        if missing := int((self._counts == 0).sum()):
            first = self._position(int((self._counts == 0).argmax()))
            problems.append(f"{self.seam}: {missing} of {asked} tokens were not seen by every layer (first: {first})")
        if twice := int((self._counts > 1).sum()):
            first = self._position(int((self._counts > 1).argmax()))
            problems.append(
                f"{self.seam}: {twice} tokens were computed more than once (first: {first}); "
                "the request was preempted, capture it again when the engine is less busy"
            )
        return {self.seam: (once, asked)}, problems

    def _position(self, row: int) -> int:
        for piece in self.selection.ranges:
            if row < piece.stop - piece.start:
                return piece.start + row
            row -= piece.stop - piece.start
        return -1


def _numpy(value: Any) -> np.ndarray:
    return value if isinstance(value, np.ndarray) else value.detach().cpu().numpy()
