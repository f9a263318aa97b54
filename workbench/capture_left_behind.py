"""A capture out of the folder in which an engine wrote it: what is left when the engine died, or was never asked for it.

What was written is read as it lies there. How much that is comes from the counts that the engine's workers keep beside the arrays
(``<seam>.seen.npy``, one byte per row of `t`; of attention, from its factors), not from the manifest, which a dead engine cannot
have brought up to date.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.protocol import CaptureManifest, ImageRule, Media, Rendered, span_from_json
from engine.protocol.spans import Span

from .errors import CaptureFileError

if TYPE_CHECKING:
    from .captures import Capture


def load_folder(folder: Path) -> Capture:
    """The capture in an engine's folder; partial, unless its manifest says otherwise.

    Raises
    ------
    CaptureFileError
        A file of it is missing or damaged.
    """
    from .captures import Capture
    from .lazy_arrays import folder_reader

    try:
        manifest = CaptureManifest.model_validate_json((folder / "manifest.json").read_bytes())
        values = json.loads((folder / "context.json").read_bytes())
        ids = np.load(folder / "token_ids.npy")
        spans = tuple(span_from_json(item) for item in values["spans"])
        rendered = Rendered(
            token_ids=ids, spans=spans or (_unknown(len(ids)),), media=tuple(Media(**item) for item in values["media"]),
            image_rule=ImageRule(**values["image_rule"]),
        )  # fmt: skip
        if not manifest.complete:
            manifest = _counted(folder, manifest)
        for name in manifest.arrays:
            np.load(folder / f"{name}.npy", mmap_mode="r")
    except (OSError, KeyError, TypeError, ValueError) as problem:
        raise CaptureFileError(f"{folder} is not a whole capture of an engine: {problem}", path=str(folder)) from problem
    return Capture.from_reader(manifest, folder_reader(folder), rendered)


def _counted(folder: Path, manifest: CaptureManifest) -> CaptureManifest:
    """The manifest with the coverage that the files have."""
    coverage = dict(manifest.coverage)
    for seam in manifest.layers:
        path = folder / f"{seam}.seen.npy"
        if path.is_file():
            seen = np.load(path, mmap_mode="r")
            coverage[seam] = (int((seen == 1).sum()), len(seen))
    if "attention" in manifest.layers:
        # A row's factor is written last, and is at least 1.
        factors = np.load(folder / "attention.scaling.npy", mmap_mode="r")
        coverage["attention"] = (int((factors > 0).sum()), factors.size)
    shares = [once / asked for once, asked in coverage.values()] or [0.0]
    return manifest.model_copy(update={"coverage": coverage, "covered_tokens": int(min(shares) * manifest.tokens)})


def _unknown(tokens: int) -> Span:
    return Span(start=0, stop=tokens, part=None, label="tokens", modality="framing", message=0)
