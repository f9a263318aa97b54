"""Arrays on disk that several processes write in pieces, without ever mapping or holding them whole.

One ``.npy`` file per array, made once at full length; the filesystem keeps what was never written as holes, which read as zeros.
Pieces are contiguous in C order and written with one call each, so memory stays flat however long a capture is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np


class ArrayFile:
    """One array, open for writing.

    Parameters
    ----------
    path : Path
    shape : tuple of int
    dtype : str
    create : bool
        Make it; otherwise another process did.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: str, *, create: bool) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        if create:
            with path.open("wb") as file:
                header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": self.shape}
                np.lib.format.write_array_header_1_0(file, header)
                self._offset = file.tell()
                file.truncate(self._offset + int(np.prod(shape, dtype=np.int64)) * self.dtype.itemsize)
        else:
            with path.open("rb") as file:
                np.lib.format.read_magic(file)
                np.lib.format.read_array_header_1_0(file)
                self._offset = file.tell()
        self._descriptor = os.open(path, os.O_WRONLY)

    def write(self, at: tuple[int, ...], values: Any) -> None:
        """Write `values` from the cell `at` on; missing indices are 0. They must lie together in C order."""
        values = np.ascontiguousarray(values, dtype=self.dtype)
        index = (*at, *(0 for _ in self.shape[len(at) :]))
        cell = int(np.ravel_multi_index(index, self.shape)) if values.size else 0
        data, place = memoryview(values).cast("B") if values.size else b"", self._offset + cell * self.dtype.itemsize
        while data:
            done = os.pwrite(self._descriptor, data, place)
            data, place = data[done:], place + done

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
