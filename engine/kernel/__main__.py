"""``python -m engine.kernel SETTINGS``: run a kernel; `SETTINGS` is a file of :class:`engine.protocol.presence.KernelSettings`."""

from __future__ import annotations

import sys
from pathlib import Path

from ..errors import InklingError
from ..protocol import exits
from ..protocol.presence import KernelSettings
from .launcher import serve


def main(argv: list[str]) -> int:
    """Run until told to stop; the exit status says how it ended (:mod:`engine.protocol.exits`)."""
    if len(argv) != 1:
        sys.stderr.write("usage: python -m engine.kernel SETTINGS.json (inkling engine start writes it)\n")
        return 2
    settings = KernelSettings.model_validate_json(Path(argv[0]).read_text("utf-8"))
    try:
        return serve(settings)
    except InklingError as problem:
        sys.stderr.write(f"engine: {problem.message}\n")
        return exits.FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
