"""Canonical bytes of images and recordings: what is hashed, kept, uploaded and shown to the model.

An image is a PNG (RGB, 8 bit), a recording a WAV (float32, 16 kHz, mono). Both are functions of the pixels or samples alone: no
metadata, no time stamps, no compressor, so equal content has equal ``sha256:`` ids on every machine. The PNG's rows are filtered
(``up``) and stored: compressing takes far longer than decoding the picture did, and is left to those who keep or send it far.
This module does not read files: see ``workbench.readers``.

Source of the WAV layout: Microsoft's "Multiple Channel Audio Data and WAVE Files" (format tag 3 needs a fact chunk); written here
because libsndfile stamps the time of day into float files. Of the PNG layout: the W3C's PNG specification; RFC 1950 and 1951 for
stored blocks; written here because Pillow always tries every filter.
"""

from __future__ import annotations

import hashlib
import io
import struct
import zlib
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

SAMPLE_RATE_HZ = 16_000
AUDIO_HOP = 800
"""Samples per audio token (50 ms)."""

_PNG_UP = 2
_WAV_HEADER = struct.Struct("<4sI4s4sIHHIIHHH4sII4sI")


def content_id(data: bytes) -> str:
    """``sha256:`` and 64 hex digits."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def encode_png(image: Image) -> bytes:
    """Bytes of an RGB image as a PNG without compression."""
    if image.mode != "RGB":
        raise ValueError(f"a canonical image is RGB, not {image.mode}")
    pixels = np.frombuffer(image.tobytes(), dtype=np.uint8).reshape(image.height, image.width * 3)
    rows = np.empty((image.height, 1 + image.width * 3), dtype=np.uint8)
    rows[:, 0] = _PNG_UP
    rows[0, 1:] = pixels[0]
    np.subtract(pixels[1:], pixels[:-1], out=rows[1:, 1:])
    header = struct.pack(">IIBBBBB", image.width, image.height, 8, 2, 0, 0, 0)
    return b"".join(
        [b"\x89PNG\r\n\x1a\n", *_chunk(b"IHDR", header), *_chunk(b"IDAT", _stored(rows.tobytes())), *_chunk(b"IEND", b"")]
    )  # fmt: skip


def _chunk(kind: bytes, data: bytes) -> tuple[bytes, ...]:
    return struct.pack(">I", len(data)), kind, data, struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


def _stored(data: bytes) -> bytes:
    """A zlib stream of stored blocks."""
    most, size = 0xFFFF, len(data)
    pieces = [b"\x78\x01"]
    for at in range(0, size, most):
        piece = data[at : at + most]
        pieces += [struct.pack("<BHH", at + most >= size, len(piece), len(piece) ^ 0xFFFF), piece]
    return b"".join([*pieces, struct.pack(">I", zlib.adler32(data))])


def compressed_png(blob: bytes) -> bytes:
    """A canonical image's bytes as a small PNG, for sending far: other bytes, the same pixels."""
    out = io.BytesIO()
    decode_png(blob).save(out, format="PNG", compress_level=3)
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
    data = np.ascontiguousarray(samples, dtype="<f4").view(np.uint8).data
    frames, width = len(samples), 4
    header = _WAV_HEADER.pack(
        b"RIFF", _WAV_HEADER.size - 8 + len(data), b"WAVE",
        b"fmt ", 18, 3, 1, SAMPLE_RATE_HZ, SAMPLE_RATE_HZ * width, width, 8 * width, 0,
        b"fact", 4, frames,
        b"data", len(data),
    )  # fmt: skip
    return b"".join((header, data))


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
