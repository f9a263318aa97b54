"""Remove what engines left on disk: blobs, contexts, captures and logs that nobody used for a while.

Contexts and blobs are caches of what clients hold: a client whose context was cleaned away sends it again. Captures of an engine
that runs are its own and stay, and so does the log of every engine that runs. What a context still names is kept with it, however
old it is.
"""

from __future__ import annotations

import json
import shutil
import struct
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import discovery
from .errors import BadRequest
from .protocol import places


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What went, and what is left."""

    files: int
    bytes: int
    kept_bytes: int

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON values."""
        return asdict(self)


def clean(*, older_than_s: float, home: Path | None = None, dry_run: bool = False) -> Cleaned:
    """Remove what was not read or written for `older_than_s` seconds.

    Parameters
    ----------
    home : Path, optional
        Default: where this user's engines keep things.

    Raises
    ------
    BadRequest
        A negative age.
    """
    if older_than_s < 0:
        raise BadRequest(f"an age of {older_than_s:.0f} s: give 0 (everything that is not in use) or more")
    home = home or places.engine_home()
    running = {found.nonce for found in discovery.running() if found.local}
    before = time.time() - older_than_s
    contexts = [path for path in (home / "contexts").glob("*.iwc") if _used(path) < before]
    kept = {blob for path in (home / "contexts").glob("*.iwc") if path not in contexts for blob in named_blobs(path)}
    blobs = [path for path in (home / "blobs").glob("*") if path.is_file() and path.name not in kept and _used(path) < before]
    folders = [
        path for kind in ("captures", "runs") for path in (home / kind).glob("*")
        if path.is_dir() and path.name not in running and _used(path) < before
    ]  # fmt: skip
    files = [*contexts, *blobs, *(path for folder in folders for path in folder.rglob("*") if path.is_file())]
    total = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
    size = sum(path.stat().st_size for path in files)
    if not dry_run:
        for path in (*contexts, *blobs):
            path.unlink(missing_ok=True)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    return Cleaned(files=len(files), bytes=size, kept_bytes=total - size)


def named_blobs(path: Path) -> set[str]:
    """Names of the blobs a stored context needs, from its header alone; empty for a file that is none."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
            header = json.loads(file.read(struct.unpack("<I", start[4:])[0]))
        return {str(item["blob"]).removeprefix("sha256:") for item in header["media"]}
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return set()


def _used(path: Path) -> float:
    """When a file, or the newest in a folder, was last read or written."""
    # Looking into a folder counts as reading it, so only a folder's writing says something.
    return max(one.stat().st_mtime if one.is_dir() else max(one.stat().st_mtime, one.stat().st_atime) for one in _whole(path))


def _whole(path: Path) -> list[Path]:
    return [path, *path.rglob("*")] if path.is_dir() else [path]
