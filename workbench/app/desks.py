"""Every browser's desk: found by the browser's own cookie, opened from disk, dropped from memory when nobody came for a while.

A browser gets an unguessable name when it signs in and keeps it for a month; the folder is called by a hash of it, so that reading
the disk gives nobody another's desk. Tabs of one browser share a desk; two browsers share nothing. Folders that were not touched
for a month are removed when the app starts.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from pathlib import Path

from engine.protocol.places import cache_folder

from .desk import Desk

KEPT_DAYS = 30
IDLE_S = 3600.0
"""A desk that nobody looked at for so long is dropped from memory; its folder stays."""


def desks_folder() -> Path:
    """Where desks are kept: ``app/`` in the user's cache."""
    return cache_folder() / "app"


class Desks:
    """The desks of an app.

    Parameters
    ----------
    folder : Path
        What they are kept in; made when the first one is.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, Desk] = {}
        self._lock = threading.Lock()
        self._clean()

    def of(self, browser: str) -> Desk:
        """The desk of the browser called so; an empty one, kept nowhere, without a name."""
        if not browser:
            return Desk()
        name = hashlib.sha256(browser.encode()).hexdigest()[:32]
        with self._lock:
            desk = self._open.get(name)
            if desk is None:
                desk = self._open[name] = Desk(self._folder / name)
            desk.touched_at = time.monotonic()
            for other, idle in [(key, item) for key, item in self._open.items() if time.monotonic() - item.touched_at > IDLE_S]:
                if other != name and not idle.busy:
                    del self._open[other]
        return desk

    def close(self) -> None:
        """End every running answer: the app goes."""
        for desk in list(self._open.values()):
            desk.stop()

    def _clean(self) -> None:
        oldest = time.time() - KEPT_DAYS * 86_400
        for path in self._folder.glob("*/"):
            if max((item.stat().st_mtime for item in path.glob("*")), default=path.stat().st_mtime) < oldest:
                shutil.rmtree(path, ignore_errors=True)
