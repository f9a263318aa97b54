"""Spans: token ranges with their place in the source.

The span table partitions the rendered token ids: spans are sorted, touch, and cover every token once. Framing tokens have
spans too (locator None), so every view and attribution can be keyed by span. Token positions `t` are absolute in the rendered
context. This module does not know how text is tokenised; :meth:`Span.place` is exact for media, and for text it gives the span's
own range (character ranges per token need the tokenizer: ``workbench.rendering``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from .images import PatchGrid

Modality = Literal["text", "image", "audio", "framing"]

AUDIO_TOKENS_PER_S = 20
"""Inkling's dMel rate: one token per 50 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPlace:
    """Characters `start` to `stop` of a text (for a document: of page `page`, counted from 1; None where it has no pages)."""

    start: int
    stop: int
    page: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlace:
    """An image's patch grid; one patch of it once `row` and `col` are set (both counted from 0)."""

    grid: PatchGrid
    row: int | None = None
    col: int | None = None
    page: int | None = None

    @property
    def box_px(self) -> tuple[int, int, int, int] | None:
        """Pixel box of the patch in the resized image, or None for the whole grid."""
        return None if self.row is None or self.col is None else self.grid.box_px(self.row, self.col)


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioPlace:
    """`start_s` to `stop_s` of a recording, in seconds from its beginning."""

    start_s: float
    stop_s: float


Locator = TextPlace | ImagePlace | AudioPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Tokens `start` (included) to `stop` (excluded) of a rendered context and where they come from.

    Attributes
    ----------
    part : str or None
        Id of the part (``sha256:…`` or a label such as ``system``); None for framing that belongs to no part.
    label : str
        What a reader calls it: file name and page, ``question``, ``role``, ``effort``.
    modality : {"text", "image", "audio", "framing"}
    message : int
        Index of the message in the rendered context, from 0.
    locator : Locator or None
        Place in the source; None for framing.
    """

    start: int
    stop: int
    part: str | None
    label: str
    modality: Modality
    message: int
    locator: Locator | None = None

    def __len__(self) -> int:
        return self.stop - self.start

    def place(self, t: int) -> Locator | None:
        """Where token `t` of this span comes from: the patch, the 50 ms, or the text range.

        Raises
        ------
        IndexError
            `t` lies outside the span.
        """
        if not self.start <= t < self.stop:
            raise IndexError(f"token {t} is outside this span ({self.start} to {self.stop})")
        offset = t - self.start
        match self.locator:
            case ImagePlace(grid=grid, page=page):
                return ImagePlace(grid=grid, row=offset // grid.cols, col=offset % grid.cols, page=page)
            case AudioPlace(start_s=start_s, stop_s=stop_s):
                begin = start_s + offset / AUDIO_TOKENS_PER_S
                return AudioPlace(start_s=begin, stop_s=min(begin + 1 / AUDIO_TOKENS_PER_S, stop_s))
            case place:
                return place


def check_partition(spans: Sequence[Span], tokens: int) -> None:
    """Raise ValueError unless `spans` are sorted, non-empty, touch, and cover 0 to `tokens` exactly."""
    at = 0
    for span in spans:
        if span.start != at or span.stop <= span.start:
            raise ValueError(f"spans do not partition the tokens: expected one starting at {at}, got {span}")
        at = span.stop
    if at != tokens:
        raise ValueError(f"spans cover {at} tokens of {tokens}")


def span_at(spans: Sequence[Span], t: int) -> Span:
    """The span that holds token `t` (binary search).

    Raises
    ------
    IndexError
        No span holds it.
    """
    low, high = 0, len(spans)
    while low < high:
        middle = (low + high) // 2
        if spans[middle].stop <= t:
            low = middle + 1
        else:
            high = middle
    if low == len(spans) or t < spans[low].start:
        raise IndexError(f"no span holds token {t}")
    return spans[low]


def tokens_by_modality(spans: Iterable[Span]) -> dict[str, int]:
    """Tokens per modality, framing apart."""
    counts: dict[str, int] = {"text": 0, "image": 0, "audio": 0, "framing": 0}
    for span in spans:
        counts[span.modality] += len(span)
    return counts
