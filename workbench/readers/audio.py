"""Recordings of any rate and channel count to 16 kHz mono float32.

soundfile decodes, soxr resamples, channels are averaged. Integers are scaled by their full range. A clip over the model's limit is
refused by its header, before it is decoded.
"""

from __future__ import annotations

import io
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.protocol import Limits

from ..errors import MediaTooLarge, SourceError, SourceUnknown
from ..media import SAMPLE_RATE_HZ, audio_tokens, encode_wav
from ..parts import AudioPart
from .sources import FOREIGN, REMEDY, Source, load

CLIP_TOKENS: int = Limits.model_fields["audio_clip_tokens"].default
MAX_CHANNELS = 8


def read(source: Any, *, rate_hz: int | None = None, name: str | None = None) -> AudioPart:
    """The audio part of a file, bytes or array; see :meth:`workbench.Context.add_audio`."""
    if isinstance(source, tuple) and len(source) == 2 and isinstance(source[1], np.ndarray):
        rate_hz, source = source
    if isinstance(source, np.ndarray):
        return _from_array(source, rate_hz, name or "audio")
    if rate_hz is not None:
        raise SourceError("rate_hz is for arrays: a file says its own rate")
    return _from_file(load(source, name=name, default="audio"))


def _from_file(source: Source) -> AudioPart:
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(source.data)) as file:
            if not file.frames:
                raise source.unreadable("a recording without samples")
            _check_length(source.name, file.frames, file.samplerate)
            samples = np.asarray(file.read(dtype="float32", always_2d=True), dtype=np.float32)
            rate = file.samplerate
    except soundfile.LibsndfileError as problem:
        if (what := FOREIGN.get(source.suffix)) is not None:
            raise SourceUnknown(f"{source.name}: no reader for {source.suffix}: {REMEDY[what]}", path=source.path) from problem
        raise source.unreadable(f"not a recording that can be read ({problem.error_string}): {REMEDY['audio']}") from problem
    return _part(samples, rate, source.name)


def _from_array(values: NDArray, rate_hz: int | None, name: str) -> AudioPart:
    if rate_hz is None or rate_hz <= 0:
        raise SourceError(f"{name}: an array of samples needs its rate in Hz (rate_hz=44100), not {rate_hz!r}")
    if values.ndim not in (1, 2) or not values.size:
        raise SourceError(f"{name}: samples have shape (frames,) or (frames, channels) and at least one frame, not {values.shape}")
    return _part(_to_float(_frames_first(values, name), name), rate_hz, name)


def _frames_first(values: NDArray, name: str) -> NDArray:
    """Shape (frames, channels). Channels first is turned round; where both axes could be channels it is refused."""
    if values.ndim == 1:
        return values[:, None]
    few = [size <= MAX_CHANNELS for size in values.shape]
    if few == [True, False]:
        return values.T
    if few != [False, True]:
        raise SourceError(
            f"{name}: shape {values.shape} does not tell frames from channels (of which there are at most {MAX_CHANNELS}): "
            "mix it down to shape (frames,)"
        )
    return values


def _to_float(values: NDArray, name: str) -> NDArray[np.float32]:
    if values.dtype.kind == "i":
        return (values / float(-np.iinfo(values.dtype).min)).astype(np.float32)
    if values.dtype == np.uint8:
        # 8-bit WAV: 128 is silence.
        return ((values.astype(np.float32) - 128) / 128).astype(np.float32)
    if values.dtype.kind == "f":
        return values.astype(np.float32)
    raise SourceError(f"{name}: {values.dtype} values are no samples: give signed integers, uint8 or floats from -1 to 1")


def _part(samples: NDArray[np.float32], rate_hz: int, name: str) -> AudioPart:
    """Mix down, resample, check. `samples` has shape (frames, channels)."""
    if not np.isfinite(samples).all():
        raise SourceError(f"{name}: there are samples that are no numbers (NaN or infinite)", name=name)
    mono = samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1, dtype=np.float64).astype(np.float32)
    if rate_hz != SAMPLE_RATE_HZ:
        import soxr

        mono = soxr.resample(mono, rate_hz, SAMPLE_RATE_HZ)
    if not len(mono):
        raise SourceError(
            f"{name}: {len(samples)} samples at {rate_hz:,} Hz are shorter than one at {SAMPLE_RATE_HZ:,} Hz", name=name
        )
    _check_length(name, len(mono), SAMPLE_RATE_HZ)
    return AudioPart(blob=encode_wav(mono), name=name)


def _check_length(name: str, frames: int, rate_hz: int) -> None:
    needed = audio_tokens(ceil(frames * SAMPLE_RATE_HZ / rate_hz - 0.5))
    if needed > CLIP_TOKENS:
        raise MediaTooLarge(
            f"{name}: {frames / rate_hz:,.2f} s are {needed:,} audio tokens, over the limit of {CLIP_TOKENS:,} tokens "
            f"({CLIP_TOKENS / 20:g} s) per clip: cut it into shorter clips",
            name=name, tokens=needed, limit_tokens=CLIP_TOKENS,
        )  # fmt: skip
