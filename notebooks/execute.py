"""Run the tutorials from a clean kernel and save them with their outputs.

    python notebooks/execute.py            # all of them
    python notebooks/execute.py 01         # those whose name begins so

Each runs in an empty folder, on the engine that is running or on one it starts; the engine stays. What is saved says nothing about
the machine: no times, no progress lines, and no path or address in an output (that is an error).
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
LIMIT_BYTES = 2_000_000
"""Of a saved notebook, outputs included: it is read in a browser and kept in git."""

CELL_TIMEOUT_S = 600
"""The first cell may start an engine, on a busy machine."""

MACHINE = re.compile(
    r"(?:/(?:home|root|tmp|work|Users|var|opt)/[\w.-]+|\b127\.0\.0\.1:\d+|localhost:\d+|[?&]token=|\b0x[0-9a-f]{8,})"
)
"""Paths, addresses, tokens and object addresses: true on one machine only."""


def run(path: Path) -> nbformat.NotebookNode:
    """Execute a notebook in a fresh kernel and return it with outputs and widget state; a failing cell raises."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        place = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=CELL_TIMEOUT_S, kernel_name="python3", resources=place, record_timing=False)
        client.execute()
    return notebook


def tidy(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Take out what differs between machines and runs without telling anything: progress lines and versions."""
    notebook.metadata.pop("language_info", None)
    for cell in code_cells(notebook):
        cell.outputs = [item for item in cell.outputs if item.get("name") != "stderr"]
        cell.metadata.pop("execution", None)
    return notebook


def problems(notebook: nbformat.NotebookNode) -> list[str]:
    """What keeps a notebook from being saved: machine traces in outputs, or its size."""
    found = []
    for number, cell in enumerate(code_cells(notebook), 1):
        for text in _texts(cell.outputs):
            found += [f"code cell {number} shows {match[0]!r}" for match in MACHINE.finditer(text)]
    size = len(nbformat.writes(notebook).encode())
    return found + ([f"{size:,} bytes, allowed are {LIMIT_BYTES:,}"] if size > LIMIT_BYTES else [])


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The cells that run."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _texts(outputs: list[nbformat.NotebookNode]) -> list[str]:
    """Everything readable in outputs; pictures are base64 and say nothing."""
    found = []
    for item in outputs:
        data = item.get("data", {"text/plain": item.get("text", "")})
        found += [
            value if isinstance(value, str) else json.dumps(value) for kind, value in data.items() if not kind.startswith("image/p")
        ]
    return found


def main(wanted: list[str]) -> int:
    """Execute, check and save; 1 when one cannot be saved."""
    chosen = [path for path in sorted(FOLDER.glob("*.ipynb")) if not wanted or any(path.name.startswith(name) for name in wanted)]
    failed = 0
    for path in chosen:
        notebook = tidy(run(path))
        if found := problems(notebook):
            failed += 1
            sys.stderr.write(f"{path.name}: not saved: {'; '.join(found)}\n")
            continue
        nbformat.write(notebook, path)
        sys.stderr.write(f"{path.name}: {path.stat().st_size / 1e3:,.0f} kB\n")
    if not chosen:
        sys.stderr.write(f"no notebook begins with {' or '.join(wanted)}\n")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
