"""Recordings of any rate and channel count to 16 kHz mono float32, in one clip or, where they are long, in several.

soundfile decodes, soxr resamples, channels are averaged. Integers are scaled by their full range. A file is read in blocks, so that
what is held is its 16 kHz mono samples and little more. What is longer than one clip may be is cut at silences
(:mod:`workbench.readers.silences`).
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.protocol import Limits

from ..errors import MediaTooLarge, SourceError, SourceUnknown
from ..media import SAMPLE_RATE_HZ, audio_tokens, encode_wav
from ..parts import AudioPart, RecordingPart
from .sources import FOREIGN, REMEDY, Source, load

CLIP_TOKENS: int = Limits.model_fields["audio_clip_tokens"].default
MOST_TOKENS = 1 << 20
"""More than any context holds: such a recording is refused by its header."""
MAX_CHANNELS = 8
BLOCK_FRAMES = 1 << 18


def read(
    source: Any, *, rate_hz: int | None = None, name: str | None = None, start_s: float = 0.0, stop_s: float | None = None,
    split: bool = True,
) -> AudioPart | RecordingPart:  # fmt: skip
    """The part of a file, bytes or array; see :meth:`workbench.Context.add_audio`."""
    if isinstance(source, tuple) and len(source) == 2 and isinstance(source[1], np.ndarray):
        rate_hz, source = source
    if isinstance(source, np.ndarray):
        return _from_array(source, rate_hz, name or "audio", start_s, stop_s, split)
    if rate_hz is not None:
        raise SourceError("rate_hz is for arrays: a file says its own rate")
    return from_file(load(source, name=name, default="audio"), start_s=start_s, stop_s=stop_s, split=split)


def from_file(
    source: Source, *, start_s: float = 0.0, stop_s: float | None = None, split: bool = True
) -> AudioPart | RecordingPart:  # fmt: skip
    """The part of a file's bytes."""
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(source.data)) as file:
            if not file.frames:
                raise source.unreadable("a recording without samples")
            rate = file.samplerate
            first, last = _stretch(source.name, file.frames, rate, start_s, stop_s)
            _check_length(source.name, last - first, rate, split)
            if first:
                file.seek(first)
            mono = _resampled(_blocks(file, last - first), rate, source.name)
    except soundfile.LibsndfileError as problem:
        if (what := FOREIGN.get(source.suffix)) is not None:
            raise SourceUnknown(f"{source.name}: no reader for {source.suffix}: {REMEDY[what]}", path=source.path) from problem
        raise source.unreadable(f"not a recording that can be read ({problem.error_string}): {REMEDY['audio']}") from problem
    return _part(mono, source.name, first / rate, split, last - first, rate)


def _blocks(file: Any, frames: int) -> Iterator[NDArray[np.float32]]:
    while frames > 0:
        block = file.read(min(BLOCK_FRAMES, frames), dtype="float32", always_2d=True)
        if not len(block):
            # A header may promise more than the file holds; what is there is taken.
            return
        frames -= len(block)
        yield block


def _from_array(
    values: NDArray, rate_hz: int | None, name: str, start_s: float, stop_s: float | None, split: bool
) -> AudioPart | RecordingPart:  # fmt: skip
    if rate_hz is None or rate_hz <= 0:
        raise SourceError(f"{name}: an array of samples needs its rate in Hz (rate_hz=44100), not {rate_hz!r}")
    if values.ndim not in (1, 2) or not values.size:
        raise SourceError(f"{name}: samples have shape (frames,) or (frames, channels) and at least one frame, not {values.shape}")
    frames = _frames_first(values, name)
    first, last = _stretch(name, len(frames), rate_hz, start_s, stop_s)
    _check_length(name, last - first, rate_hz, split)
    blocks = (_to_float(frames[at : min(at + BLOCK_FRAMES, last)], name) for at in range(first, last, BLOCK_FRAMES))
    return _part(_resampled(blocks, rate_hz, name), name, first / rate_hz, split, last - first, rate_hz)


def _stretch(name: str, frames: int, rate_hz: int, start_s: float, stop_s: float | None) -> tuple[int, int]:
    """First and one past the last frame of what was asked for."""
    whole_s = frames / rate_hz
    end_s = whole_s if stop_s is None else stop_s
    if not 0 <= start_s < end_s or start_s >= whole_s:
        raise SourceError(
            f"{name}: no stretch from {start_s:g} s to {end_s:g} s in a recording of {whole_s:.2f} s", name=name, duration_s=whole_s
        )
    if end_s > whole_s + 0.5 / rate_hz:
        raise SourceError(f"{name}: it ends at {whole_s:.2f} s, before {end_s:g} s", name=name, duration_s=whole_s)
    first = round(start_s * rate_hz)
    return first, max(first + 1, min(frames, round(end_s * rate_hz)))


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


def _resampled(blocks: Iterable[NDArray[np.float32]], rate_hz: int, name: str) -> NDArray[np.float32]:
    """Mix down and resample. Blocks have shape (frames, channels)."""
    import soxr

    # The same samples as one call of soxr.resample, block by block.
    stream = None if rate_hz == SAMPLE_RATE_HZ else soxr.ResampleStream(rate_hz, SAMPLE_RATE_HZ, 1, dtype="float32")
    found: list[NDArray[np.float32]] = []
    for block in blocks:
        mono = _mixed_down(block)
        # What is no number in one channel is none in the mixture.
        if not np.isfinite(mono).all():
            raise SourceError(f"{name}: there are samples that are no numbers (NaN or infinite)", name=name)
        found.append(mono if stream is None else stream.resample_chunk(np.ascontiguousarray(mono)))
    if stream is not None:
        found.append(stream.resample_chunk(np.empty(0, dtype=np.float32), last=True))
    return np.concatenate(found) if found else np.empty(0, dtype=np.float32)


def _mixed_down(block: NDArray[np.float32]) -> NDArray[np.float32]:
    """Mean of the channels of a block of shape (frames, channels)."""
    channels = block.shape[1]
    if channels == 1:
        return block[:, 0]
    if channels == 2:
        # Rounded once, as the mean in float64 is; NumPy's mean over so short an axis costs as much as decoding.
        return (block[:, 0] + block[:, 1]) * np.float32(0.5)
    return block.mean(axis=1, dtype=np.float64).astype(np.float32)


def _part(
    mono: NDArray[np.float32], name: str, start_s: float, split: bool, frames: int, rate_hz: int
) -> AudioPart | RecordingPart:  # fmt: skip
    if not len(mono):
        raise SourceError(f"{name}: {frames} samples at {rate_hz:,} Hz are shorter than one at {SAMPLE_RATE_HZ:,} Hz", name=name)
    if audio_tokens(len(mono)) <= CLIP_TOKENS:
        return AudioPart(blob=encode_wav(mono), name=name, start_s=start_s)
    _check_length(name, len(mono), SAMPLE_RATE_HZ, split)
    from .silences import cuts

    found, notes = cuts(mono, CLIP_TOKENS, start_s)
    edges = [0, *found, len(mono)]
    clips = tuple(
        AudioPart(blob=encode_wav(mono[first:last]), name=name, start_s=start_s + first / SAMPLE_RATE_HZ)
        for first, last in pairwise(edges)
    )
    return RecordingPart(name=name, clips=clips, notes=notes)


def _check_length(name: str, frames: int, rate_hz: int, split: bool) -> None:
    needed, most = audio_tokens(ceil(frames * SAMPLE_RATE_HZ / rate_hz - 0.5)), MOST_TOKENS if split else CLIP_TOKENS
    if needed > most:
        what = f"{most:,} tokens, more than any context holds" if split else f"{most:,} tokens ({most / 20:g} s) per clip"
        raise MediaTooLarge(
            f"{name}: {frames / rate_hz:,.2f} s are {needed:,} audio tokens, over the limit of {what}: "
            f"{'take a stretch of it (start_s, stop_s)' if split else 'leave out split=False, or cut it into shorter clips'}",
            name=name, tokens=needed, limit_tokens=most,
        )  # fmt: skip
