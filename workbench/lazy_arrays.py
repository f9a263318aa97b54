"""Arrays that are read by the slice when they are asked for, as xarray sees them.

What backs one is a function that reads a block: of a file, or of an engine somewhere else. Nothing is kept: who needs a block twice
keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xarray.backends.common import BackendArray
from xarray.core import indexing

ReadBlock = Callable[[str, tuple[slice, ...]], NDArray[Any]]
"""``read(name, where)``: a block of one array; `where` has a slice with step 1 for every dimension."""


class LazyArray(BackendArray):
    """One array.

    Parameters
    ----------
    read : callable
    name : str
    shape, dtype
    """

    def __init__(self, read: ReadBlock, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        self._read, self._name, self.shape, self.dtype = read, name, tuple(shape), np.dtype(dtype)

    def __getitem__(self, key: Any) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._block)

    def _block(self, key: tuple[Any, ...]) -> NDArray[Any]:
        where, then = [], []
        for item, size in zip(key, self.shape, strict=True):
            if isinstance(item, slice):
                picked = range(size)[item]
                low, high = sorted((picked[0], picked[-1])) if len(picked) else (0, -1)
                where.append(slice(low, high + 1))
                then.append(slice(None, None, picked.step if len(picked) else 1))
            else:
                at = int(item) % size
                where.append(slice(at, at + 1))
                then.append(0)
        block = self._read(self._name, tuple(where))
        return block[tuple(then)]


def lazy(read: ReadBlock, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """What to give xarray as a variable's data."""
    return indexing.LazilyIndexedArray(LazyArray(read, name, shape, dtype))


def folder_reader(folder: Path) -> ReadBlock:
    """Blocks of the ``.npy`` files of a folder, by name."""

    def read(name: str, where: tuple[slice, ...]) -> NDArray[Any]:
        # Mapped and copied: what is returned does not keep the file open.
        return np.array(np.load(folder / f"{name}.npy", mmap_mode="r")[where])

    return read
