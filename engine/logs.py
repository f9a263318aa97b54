"""An engine's log on this machine, by lines: the last ones, and those that are added.

Knows where no log is (:attr:`engine.Engine.log` does), and nothing of what is written in it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

LOOK_S = 0.3
"""Between two looks for more."""


def lines_of(path: Path, last: int, *, follow: bool = False) -> Iterator[str]:
    """The last lines of a file, and with `follow` every line that is added, for as long as the caller goes on.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "kernel.log"
    ...     _ = path.write_text("one\\ntwo\\nthree")
    ...     list(lines_of(path, 2))
    ['two', 'three']
    """
    with path.open("rb") as file:
        found, open_line = deque[bytes](maxlen=max(0, last)), b""
        for line in file:
            if follow and not line.endswith(b"\n"):
                open_line = line  # it is still being written
            else:
                found.append(line)
        yield from map(_text, found)
        while follow:
            if not (piece := file.read()):
                time.sleep(LOOK_S)
                continue
            *whole, open_line = (open_line + piece).split(b"\n")
            yield from map(_text, whole)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")
