"""The files of one start, in a folder of its own: settings, log, and the steps a kernel writes as it comes up and ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LOG, SETTINGS, STEPS = "kernel.log", "settings.json", "steps.jsonl"


def read_steps(path: Path) -> list[dict[str, Any]]:
    """Steps a kernel has written so far; a line that is not whole yet is left for later."""
    try:
        lines = path.read_text("utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line.endswith("\n")]
