"""Where things lie on this machine: the cache, and the folder in which running engines make themselves known.

Knows no engine and no Jupyter: Jupyter's runtime folder is worked out by its own rules when Jupyter is not installed, so that a
kernel environment without it and a notebook with it look in the same place.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs

CACHE_ENV, RUNTIME_ENV = "INKLING_CACHE", "JUPYTER_RUNTIME_DIR"


def cache_folder() -> Path:
    """Checkpoints, blobs, contexts, captures and logs: ``INKLING_CACHE``, or the user's cache folder."""
    chosen = os.environ.get(CACHE_ENV)
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("inkling-workbench")


def engine_home() -> Path:
    """Folder of everything engines keep: ``blobs/``, ``contexts/``, ``captures/``, ``runs/``."""
    return cache_folder() / "engine"


def runtime_folder() -> Path:
    """Jupyter's runtime folder: ``JUPYTER_RUNTIME_DIR``, or what Jupyter takes."""
    if chosen := os.environ.get(RUNTIME_ENV):
        return Path(chosen)
    try:
        from jupyter_core.paths import jupyter_runtime_dir
    except ImportError:
        return _data_folder() / "runtime"
    return Path(jupyter_runtime_dir())


def _data_folder() -> Path:
    """Jupyter's data folder by its documented rules (``jupyter --paths``)."""
    if chosen := os.environ.get("JUPYTER_DATA_DIR"):
        return Path(chosen)
    if os.environ.get("JUPYTER_PLATFORM_DIRS", "").lower() in ("1", "true", "yes", "on"):
        return platformdirs.user_data_path("jupyter", appauthor=False)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Jupyter"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "jupyter"
