"""Start-up, step by step, for whoever waits: one JSON line per step in a file beside the log.

The process that starts a kernel is another one and may end first, so it reads a file. The last line says ``ready`` or ``failed``.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from ..protocol.steps import STEPS


class Steps:
    """Writer of one start's steps."""

    def __init__(self, run: Path) -> None:
        self._path, self._began = run / STEPS, time.monotonic()

    def note(self, step: str, **values: Any) -> None:
        """Append a step: a short phrase, and values for programs."""
        line = json.dumps({"step": step, "at_s": round(time.monotonic() - self._began, 2)} | values)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
