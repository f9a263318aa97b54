"""How much may lie in a folder of the engine's, and what goes when it is full: what nobody used for longest.

Contexts and blobs are copies of what clients hold, so the oldest give way to a new one; what was used in the last minutes may
belong to a request that waits, and stays. Only when that is not enough is the new one refused, by the limit's name. Use is the
file's time of change, which readers move. Several kernels may share a folder: it is counted anew whenever it looks full.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from ..errors import QuotaFull

KEPT_S = 900.0
"""What was used so lately is not removed."""


class Quota:
    """Room in one folder.

    Parameters
    ----------
    folder : Path
    limit_bytes : int
    limit : str
        The limit's name in the engine's info.
    """

    def __init__(self, folder: Path, limit_bytes: int, *, limit: str) -> None:
        self._folder, self.limit_bytes, self._limit = folder, limit_bytes, limit
        self._used: int | None = None

    def make_room(self, size_bytes: int) -> None:
        """Make sure that a file of that size fits, and count it.

        Raises
        ------
        QuotaFull
            It cannot.
        """
        if self._used is None or self._used + size_bytes > self.limit_bytes:
            self._used = self._make_room(size_bytes)
        self._used += size_bytes

    def _make_room(self, size_bytes: int) -> int:
        files = sorted(self._files(), key=lambda item: item[0])
        used, before = sum(size for _, size, _ in files), time.time() - KEPT_S
        for at, size, path in files:
            if used + size_bytes <= self.limit_bytes:
                break
            if at < before:
                path.unlink(missing_ok=True)
                used -= size
        if used + size_bytes > self.limit_bytes:
            raise QuotaFull(
                f"{size_bytes:,} bytes more do not fit: {used:,} of {self.limit_bytes:,} ({self._limit}) are taken by what was "
                f"used in the last {KEPT_S / 60:.0f} minutes: try again later, or raise the limit in the recipe ([limits])",
                limit=self._limit, limit_bytes=self.limit_bytes, used_bytes=used,
            )  # fmt: skip
        return used

    def _files(self) -> list[tuple[float, int, Path]]:
        found = []
        for path in self._folder.iterdir():
            if path.name.startswith("."):
                continue  # on its way in
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        return found


def used_now(path: Path) -> None:
    """Note that a file was used; nothing where it is gone."""
    with contextlib.suppress(OSError):
        os.utime(path)
