"""Children that measure: a process that reads one JSON object a line and answers each with one. Knows no bench."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..errors import BenchError


class Child:
    """A process that answers line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """Send one line, wait for one.

        Raises
        ------
        BenchError
            The child ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise BenchError("a process that is measured ended; what it said is above", job=job)
        return json.loads(line)


@contextmanager
def child(
    module: str, settings: dict[str, Any], environment: Mapping[str, str] | None = None
) -> Iterator[tuple[Child, dict[str, Any]]]:
    """``python -m module`` and what it answered to its settings; ended with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
        env=os.environ | dict(environment or {}),
    )  # fmt: skip
    try:
        found = Child(process)
        yield found, found.ask(settings)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def checkpoint(name: str) -> str:
    """Folder of a checkpoint that comes along (``demo``, ``demo-few``), made on first use; another name is a folder already."""
    if name not in ("demo", "demo-few", "demo-tp4"):
        return name
    import engine.demo

    return str(engine.demo.unpack() if name == "demo" else engine.demo.unpack_random(name))
