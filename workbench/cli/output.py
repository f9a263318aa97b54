"""Where a command's words go: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys
from typing import Any

from engine.errors import InklingError


class Console:
    """Output of one command.

    Parameters
    ----------
    json : bool
        Print one JSON object on standard output instead of text.
    """

    def __init__(self, *, json: bool = False) -> None:
        self.json = json

    def note(self, text: str) -> None:
        """Progress or a remark, on standard error."""
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def show(self, text: str, *, end: str = "\n") -> None:
        """A result for people; silent under ``--json``."""
        if not self.json:
            sys.stdout.write(text + end)
            sys.stdout.flush()

    def result(self, values: dict[str, Any]) -> None:
        """The result for programs: one JSON object; silent without ``--json``."""
        if self.json:
            sys.stdout.write(json.dumps(values, ensure_ascii=False) + "\n")
            sys.stdout.flush()

    def error(self, error: InklingError) -> None:
        """What went wrong: a sentence on standard error, and as an object under ``--json``."""
        self.note(f"inkling: {error.message}")
        self.result({"error": error.to_json()})
