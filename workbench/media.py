"""Canonical bytes of images and recordings: what is hashed, kept, uploaded and shown to the model.

An image is a PNG (RGB, 8 bit), a recording a WAV (float32, 16 kHz, mono). Both are functions of the pixels or samples alone: no
metadata, no time stamps, so equal content has equal ``sha256:`` ids. (PNG bytes also depend on Pillow's compressor; ids are
compared between machines that run the same pins.) This module does not read files: see ``workbench.readers``.

Source of the WAV layout: Microsoft's "Multiple Channel Audio Data and WAVE Files" (format tag 3 needs a fact chunk); written here
because libsndfile stamps the time of day into float files.
"""

from __future__ import annotations

import hashlib
import io
import struct
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

SAMPLE_RATE_HZ = 16_000
AUDIO_HOP = 800
"""Samples per audio token (50 ms)."""

_WAV_HEADER = struct.Struct("<4sI4s4sIHHIIHHH4sII4sI")


def content_id(data: bytes) -> str:
    """``sha256:`` and 64 hex digits."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def encode_png(image: Image) -> bytes:
    """Bytes of an RGB image as PNG; level 3 is half the size of level 0 at a tenth of level 9's time."""
    if image.mode != "RGB":
        raise ValueError(f"a canonical image is RGB, not {image.mode}")
    out = io.BytesIO()
    # A fresh image carries no text chunks, colour profile or EXIF into the file.
    clean = image.copy()
    clean.info = {}
    clean.save(out, format="PNG", compress_level=3)
    return out.getvalue()


def decode_png(blob: bytes) -> Image:
    """The RGB image of canonical bytes."""
    from PIL import Image

    return Image.open(io.BytesIO(blob)).convert("RGB")


def encode_wav(samples: NDArray[np.float32]) -> bytes:
    """Mono float32 samples at 16 kHz as WAV.

    Parameters
    ----------
    samples : ndarray of float32, shape (n,)
    """
    data = np.ascontiguousarray(samples, dtype="<f4").tobytes()
    frames, width = len(samples), 4
    header = _WAV_HEADER.pack(
        b"RIFF", _WAV_HEADER.size - 8 + len(data), b"WAVE",
        b"fmt ", 18, 3, 1, SAMPLE_RATE_HZ, SAMPLE_RATE_HZ * width, width, 8 * width, 0,
        b"fact", 4, frames,
        b"data", len(data),
    )  # fmt: skip
    return header + data


def decode_wav(blob: bytes) -> NDArray[np.float32]:
    """The samples of bytes that :func:`encode_wav` wrote."""
    return np.frombuffer(blob, dtype="<f4", offset=_WAV_HEADER.size).astype(np.float32)


def wav_samples(blob: bytes) -> int:
    """Number of samples in bytes that :func:`encode_wav` wrote."""
    return (len(blob) - _WAV_HEADER.size) // 4


def audio_tokens(samples: int) -> int:
    """Audio tokens of a 16 kHz recording: one per started 50 ms.

    Examples
    --------
    >>> [audio_tokens(n) for n in (1, 800, 801, 16_000, 16_001)]
    [1, 1, 2, 20, 21]
    """
    return ceil(samples / AUDIO_HOP)
