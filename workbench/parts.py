"""Parts: the pieces a context is made of. Immutable and content-addressed.

Two parts with equal content have equal ids (``sha256:…``), compare equal and share whatever is cached for them. A name is what a
reader calls a part; it belongs to the content only where it is shown to the model (documents). This module knows neither files
(``workbench.readers``) nor tokens (``workbench.rendering``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .media import SAMPLE_RATE_HZ, audio_tokens, content_id, wav_samples


class _Addressed:
    """Equality and hash by content id."""

    __slots__ = ()
    id: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Addressed) and type(self) is type(other) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)


def _id_of(kind: str, *values: Any) -> str:
    return content_id(json.dumps([kind, *values], ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode())


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, weakref_slot=True)
class TextPart(_Addressed):
    """Plain text, given to the model exactly as it is."""

    text: str
    name: str = "text"
    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", content_id(b"text" + self.text.encode()))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, weakref_slot=True)
class ImagePart(_Addressed):
    """A still image: canonical PNG bytes (RGB, 8 bit) and its size before any resize by the engine."""

    blob: bytes = field(repr=False)
    width_px: int
    height_px: int
    name: str = "image"
    notes: tuple[str, ...] = ()
    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", content_id(self.blob))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, weakref_slot=True)
class AudioPart(_Addressed):
    """A recording, or a stretch of one: canonical WAV bytes (float32, 16 kHz, mono).

    Attributes
    ----------
    start_s : float
        Where it begins in the recording it was cut from, in seconds; places count from there.
    blob_id : str
        ``sha256:`` of the bytes: what the engine is given.
    """

    blob: bytes = field(repr=False)
    name: str = "audio"
    notes: tuple[str, ...] = ()
    start_s: float = 0.0
    id: str = field(init=False)
    blob_id: str = field(init=False)

    def __post_init__(self) -> None:
        blob = content_id(self.blob)
        object.__setattr__(self, "blob_id", blob)
        object.__setattr__(self, "id", _id_of("audio", blob, self.start_s) if self.start_s else blob)

    @property
    def samples(self) -> int:
        """Samples at 16 kHz."""
        return wav_samples(self.blob)

    @property
    def duration_s(self) -> float:
        return self.samples / SAMPLE_RATE_HZ

    @property
    def stop_s(self) -> float:
        """Where it ends in the recording it was cut from."""
        return self.start_s + self.duration_s

    @property
    def tokens(self) -> int:
        """Audio tokens, one per started 50 ms."""
        return audio_tokens(self.samples)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, weakref_slot=True)
class RecordingPart(_Addressed):
    """A recording too long for one clip: its clips in order, cut at silences, with continuous time."""

    name: str
    clips: tuple[AudioPart, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", _id_of("recording", self.name, [clip.id for clip in self.clips]))

    @property
    def duration_s(self) -> float:
        return sum(clip.samples for clip in self.clips) / SAMPLE_RATE_HZ

    @property
    def tokens(self) -> int:
        """Audio tokens of all clips."""
        return sum(clip.tokens for clip in self.clips)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page, slide, sheet, cell or whole body of a document.

    Attributes
    ----------
    text : str
        What could be read; may be empty when there is an image, or when the page is blank.
    number : int or None
        Counted from 1; None for the one body of a document without pages.
    image : ImagePart or None
        The page as a picture, where the text alone would lose it, or as well.
    pictures : tuple of ImagePart
        Pictures that stand on it, in order. Its text says where: ``[image 3]`` is the document's third.
    title : str
        What a reader calls it: ``sheet Fees``, ``cell 4``. ``page`` and its number if empty.
    """

    text: str
    number: int | None = None
    image: ImagePart | None = None
    pictures: tuple[ImagePart, ...] = ()
    title: str = ""

    @property
    def label(self) -> str:
        """Its title, or ``page`` and its number; empty for a body without pages."""
        return self.title or ("" if self.number is None else f"page {self.number}")

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """The picture of the page, if any, then the pictures on it."""
        return ((self.image,) if self.image else ()) + self.pictures


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, weakref_slot=True)
class DocumentPart(_Addressed):
    """A document: its name and pages. `notes` say what a reader could not carry over."""

    name: str
    pages: tuple[Page, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", _id_of("document", self.name, [_page_values(page) for page in self.pages]))

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """All its images, in the order in which the model sees them."""
        return tuple(image for page in self.pages for image in page.images)


def _page_values(page: Page) -> list[Any]:
    # The text by its hash: writing a long one as JSON takes longer than hashing it.
    values: list[Any] = [page.number, content_id(page.text.encode()), page.image.id if page.image else None]
    return [*values, page.title, [image.id for image in page.pictures]] if page.title or page.pictures else values


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, weakref_slot=True)
class ReplyPart(_Addressed):
    """A model's answer, kept as the very token ids it sampled (framing included)."""

    token_ids: NDArray[np.uint32] = field(repr=False)
    name: str = "reply"
    id: str = field(init=False)

    def __post_init__(self) -> None:
        ids = np.array(self.token_ids, dtype=np.uint32)
        ids.setflags(write=False)
        object.__setattr__(self, "token_ids", ids)
        object.__setattr__(self, "id", content_id(b"reply" + ids.astype("<u4").tobytes()))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, weakref_slot=True)
class WrittenReplyPart(_Addressed):
    """An answer written by hand: thinking, text and tool calls (name, arguments)."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    name: str = "reply"
    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", _id_of("written-reply", self.text, self.reasoning, self.tool_calls))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, weakref_slot=True)
class ToolResultPart(_Addressed):
    """What the tool called `tool` returned, as text."""

    text: str
    tool: str
    name: str = "tool result"
    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", _id_of("tool-result", self.tool, self.text))


Part = TextPart | ImagePart | AudioPart | RecordingPart | DocumentPart | ReplyPart | WrittenReplyPart | ToolResultPart


def media_of(part: Part) -> tuple[ImagePart | AudioPart, ...]:
    """Images and clips of a part, in the order in which the model is given them."""
    match part:
        case ImagePart() | AudioPart():
            return (part,)
        case DocumentPart():
            return part.images
        case RecordingPart():
            return part.clips
        case _:
            return ()
