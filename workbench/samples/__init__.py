"""The bundled samples: a document, an image and a recording, made by ``make.py`` beside them. All of it is invented."""

from __future__ import annotations

from pathlib import Path

QUESTION = "Who is the harbour master of Lisbon?"
"""A question the sample document answers."""


def paths() -> dict[str, Path]:
    """Where the samples are: ``document``, ``image`` and ``audio``."""
    folder = Path(__file__).parent
    found = {"document": folder / "harbour.pdf", "image": folder / "chart.png", "audio": folder / "call.wav"}
    missing = [path.name for path in found.values() if not path.is_file()]
    if missing:
        raise FileNotFoundError(f"the samples {', '.join(missing)} are missing: run python -m workbench.samples.make, or reinstall")
    return found
