"""Cutting a part in two and joining two: the places of both halves go on counting as the whole's did.

A document is cut between pages, a recording between samples, text between characters. What has no inside (an image, a model's
sampled turn) is not cut. Parts are values: both functions make new ones.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from .errors import MessageError
from .media import SAMPLE_RATE_HZ, decode_wav, encode_wav
from .parts import AudioPart, DocumentPart, Part, RecordingPart, TextPart, ToolResultPart


def split_part(part: Part, at: float) -> tuple[Part, Part]:
    """The two halves of a part.

    Parameters
    ----------
    part : Part
    at : int or float
        A document: the number of the page that begins the second half. Text: a character. A clip: seconds, on its own time line.
        A recording of several clips: the number of the clip that begins the second half, from 1.

    Raises
    ------
    MessageError
        Not inside the part, or a part that cannot be cut.
    """
    match part:
        case TextPart() | ToolResultPart():
            _inside(part, at, 1, len(part.text) - 1, "character")
            return replace(part, text=part.text[: int(at)]), replace(part, text=part.text[int(at) :])
        case DocumentPart():
            numbers = [page.number for page in part.pages]
            if at not in numbers[1:]:
                have = f"pages {numbers[1]} to {numbers[-1]}" if len(numbers) > 1 else "one page only"
                raise MessageError(f"{part.name} cannot be split at page {at:g}: it has {have}")
            cut = numbers.index(int(at))
            return replace(part, pages=part.pages[:cut], notes=part.notes), replace(part, pages=part.pages[cut:], notes=())
        case AudioPart():
            sample = round((at - part.start_s) * SAMPLE_RATE_HZ)
            _inside(part, sample, 1, part.samples - 1, "sample")
            samples = decode_wav(part.blob)
            begins = part.start_s + sample / SAMPLE_RATE_HZ
            return (
                replace(part, blob=encode_wav(samples[:sample])),
                replace(part, blob=encode_wav(samples[sample:]), start_s=begins, notes=()),
            )
        case RecordingPart():
            _inside(part, at, 2, len(part.clips), "clip")
            cut = int(at) - 1
            return _recording(part, part.clips[:cut]), _recording(part, part.clips[cut:])
        case _:
            raise MessageError(f"{part.name}: a {type(part).__name__} cannot be split")


def merge_parts(one: Part, other: Part, joint: str = "") -> Part:
    """One part of two neighbours of the same kind.

    Parameters
    ----------
    joint : str
        Text between two texts.

    Raises
    ------
    MessageError
        Parts that do not continue one another.
    """
    match one, other:
        case TextPart(), TextPart():
            return replace(one, text=one.text + joint + other.text)
        case DocumentPart(), DocumentPart() if one.name == other.name:
            numbers = [page.number for page in (*one.pages, *other.pages)]
            if None not in numbers and len(set(numbers)) == len(numbers):
                return replace(one, pages=one.pages + other.pages, notes=tuple(dict.fromkeys(one.notes + other.notes)))
            raise MessageError(f"{one.name}: both halves have a page of the same number, or none: they cannot be merged")
        case (AudioPart() | RecordingPart(), AudioPart() | RecordingPart()):
            return _joined(one, other)
        case _:
            raise MessageError(f"{one.name} and {other.name} cannot be merged: give two texts, or neighbours cut from one source")


def _joined(one: AudioPart | RecordingPart, other: AudioPart | RecordingPart) -> AudioPart | RecordingPart:
    clips = [clip for part in (one, other) for clip in ((part,) if isinstance(part, AudioPart) else part.clips)]
    if one.name != other.name or any(abs(a.stop_s - b.start_s) > 0.5 / SAMPLE_RATE_HZ for a, b in pairwise(clips)):
        raise MessageError(f"{one.name} and {other.name} do not follow one another in one recording: they cannot be merged")
    from .readers.audio import CLIP_TOKENS

    whole = replace(clips[0], blob=encode_wav(np.concatenate([decode_wav(clip.blob) for clip in clips])))
    return whole if whole.tokens <= CLIP_TOKENS else RecordingPart(name=one.name, clips=tuple(clips), notes=one.notes)


def _recording(part: RecordingPart, clips: tuple[AudioPart, ...]) -> AudioPart | RecordingPart:
    return replace(clips[0], name=part.name) if len(clips) == 1 else replace(part, clips=clips)


def _inside(part: Part, at: float, low: int, high: int, unit: str) -> None:
    if not low <= at <= high:
        raise MessageError(f"{part.name} cannot be split at {unit} {at:g}: {low} to {high}" if high >= low else
                           f"{part.name} is too short to be split")  # fmt: skip
