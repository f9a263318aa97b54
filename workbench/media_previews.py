"""Pictures and recordings small enough to travel to a page: thumbnails, and the outline of a waveform. Knows no page."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from .media import decode_png, decode_wav

THUMBNAIL_PX = 480
"""Longer side of a thumbnail."""


def thumbnail(blob: bytes, *, most_px: int = THUMBNAIL_PX) -> bytes:
    """A canonical image's bytes as a small PNG whose longer side is at most `most_px`.

    Examples
    --------
    >>> from PIL import Image
    >>> from workbench.media import encode_png
    >>> small = thumbnail(encode_png(Image.new("RGB", (960, 240))))
    >>> Image.open(io.BytesIO(small)).size
    (480, 120)
    """
    image = decode_png(blob)
    image.thumbnail((most_px, most_px))
    out = io.BytesIO()
    image.save(out, format="PNG", compress_level=6)
    return out.getvalue()


def peaks(blob: bytes, columns: int) -> NDArray[np.float32]:
    """Lowest and highest sample of `columns` equal stretches of a canonical recording, shape (2, n); fewer where it is shorter.

    Examples
    --------
    >>> from workbench.media import encode_wav
    >>> peaks(encode_wav(np.array([0, 0.5, -1, 0.25], np.float32)), 2).tolist()
    [[0.0, -1.0], [0.5, 0.25]]
    """
    samples = decode_wav(blob)
    if not len(samples):
        return np.zeros((2, 0), "<f4")
    starts = np.linspace(0, len(samples), min(columns, len(samples)), endpoint=False).astype(np.int64)
    return np.stack([np.minimum.reduceat(samples, starts), np.maximum.reduceat(samples, starts)]).astype("<f4")
