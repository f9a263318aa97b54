"""What was computed once of a saved capture, kept beside it: so that it opens at once the next time.

One file for each thing in the capture's ``overview`` folder, written whole or not at all, and stamped with the identity of the
capture and a version, so that a file of another capture or an older program is passed over. Where the folder cannot be written
nothing is kept, and nothing is wrong. Knows no seam.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .routing_levels import Level, Pyramid

if TYPE_CHECKING:
    from .captures import Capture

VERSION = 1
_PARTS = ("total", "count", "largest", "where")

Arrays = dict[str, NDArray]


class Overviews:
    """Kept things of one capture; of one that is not on disk, nothing is kept."""

    def __init__(self, capture: Capture | None = None) -> None:
        self._folder: Path | None = None
        if capture is not None and (path := capture._made.get("path")) is not None:
            self._folder = Path(path) / "overview"
            stamp = f"{VERSION}\n{capture.manifest.model_dump_json()}\n{capture.rendered.id}"
            self._identity = hashlib.sha256(stamp.encode()).hexdigest()

    def of(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """The arrays called `name`: as they were kept, or made now and kept."""
        found = self._read(name)
        if found is None:
            found = make()
            self._write(name, found)
        return found

    def _read(self, name: str) -> Arrays | None:
        if self._folder is None:
            return None
        try:
            with np.load(self._folder / f"{name}.npz", allow_pickle=False) as file:
                if str(file["identity"]) != self._identity:
                    return None
                return {key: file[key] for key in file.files if key != "identity"}
        except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
            return None

    def _write(self, name: str, arrays: Arrays) -> None:
        if self._folder is None:
            return
        with contextlib.suppress(OSError):  # a folder that only others may write to
            self._folder.mkdir(exist_ok=True)
            content: dict[str, Any] = {"identity": np.array(self._identity), **arrays}
            handle, scratch = tempfile.mkstemp(prefix=f".{name}.", dir=self._folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    np.savez(file, **content)
                os.replace(scratch, self._folder / f"{name}.npz")
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(scratch)
                raise


def pack(pyramid: Pyramid, limits: tuple[float, float]) -> Arrays:
    """A pyramid and the ends of its colour scale as arrays."""
    found: Arrays = {
        "limits": np.asarray(limits), "tokens": np.asarray(pyramid.tokens),
        "widths": np.asarray([level.width for level in pyramid.levels]),
    }  # fmt: skip
    for number, level in enumerate(pyramid.levels):
        found |= {f"{part}_{number}": getattr(level, part) for part in _PARTS}
    return found


def unpack(arrays: Arrays) -> tuple[Pyramid, tuple[float, float]]:
    """What was packed."""
    levels = tuple(
        Level(int(width), *(arrays[f"{part}_{number}"] for part in _PARTS)) for number, width in enumerate(arrays["widths"])
    )
    low, high = arrays["limits"]
    return Pyramid(int(arrays["tokens"]), levels), (float(low), float(high))
