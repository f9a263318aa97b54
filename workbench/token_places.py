"""From tokens back to their places in the source: the characters, the patch, the 50 ms; for one token or for a million at once.

Spans are exact for media; for text they give a range, and this module refines it to each token's own characters. It reads a
rendered context; only quoting needs the sources. The other way is :mod:`workbench.place_tokens`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.protocol import AUDIO_TOKENS_PER_S, AudioPlace, ImagePlace, Locator, Rendered, Span, TextPlace, span_at

from . import reply_ids, tokens
from .parts import DocumentPart, Part, ReplyPart, TextPart, ToolResultPart, WrittenReplyPart

if TYPE_CHECKING:
    from .rendering import Source

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Places:
    """Places of tokens, as columns of equal length; -1 (seconds: NaN) where a column says nothing of a token.

    Attributes
    ----------
    t : ndarray of int64, shape (n,)
        The tokens asked for.
    span : ndarray of int64, shape (n,)
        Index of the span that holds each.
    page : ndarray of int32, shape (n,)
        Page, slide, sheet or cell, from 1.
    chars : ndarray of int64, shape (n, 2)
        First and one past the last character, in the page's or the text's own characters.
    patch : ndarray of int32, shape (n, 2)
        Row and column, from 0.
    box_px : ndarray of int32, shape (n, 4)
        Left, top, right, bottom of the patch in the resized image; empty for its padding column.
    seconds : ndarray of float64, shape (n, 2)
    """

    t: NDArray[np.int64]
    span: NDArray[np.int64]
    page: NDArray[np.int32]
    chars: NDArray[np.int64]
    patch: NDArray[np.int32]
    box_px: NDArray[np.int32]
    seconds: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.t)


def places_of(rendered: Rendered, t: ArrayLike | None = None) -> Places:
    """Places of tokens `t`, in the order asked; of all without a choice.

    Cost: look-ups only, whole columns at a time.

    Raises
    ------
    IndexError
        A token outside the context.
    """
    size = len(rendered)
    wanted = np.arange(size) if t is None else np.atleast_1d(np.asarray(t, dtype=np.int64))
    if len(wanted) and (wanted.min() < 0 or wanted.max() >= size):
        raise IndexError(f"tokens {wanted.min()} to {wanted.max()} are not all inside this context of {size:,}")
    table = _SpanTable(rendered.spans)
    span = np.searchsorted(table.stop, wanted, side="right")
    offset = wanted - table.start[span]
    found = Places(
        t=wanted, span=span, page=table.page[span], chars=np.full((len(wanted), 2), NOWHERE, dtype=np.int64),
        patch=np.full((len(wanted), 2), NOWHERE, dtype=np.int32), box_px=np.full((len(wanted), 4), NOWHERE, dtype=np.int32),
        seconds=np.full((len(wanted), 2), np.nan),
    )  # fmt: skip
    _put_characters(found, rendered, table)
    _put_patches(found, table, offset)
    at = table.kind[span] == _AUDIO
    begin = table.seconds[span[at], 0] + offset[at] / AUDIO_TOKENS_PER_S
    found.seconds[at, 0] = begin
    found.seconds[at, 1] = np.minimum(begin + 1 / AUDIO_TOKENS_PER_S, table.seconds[span[at], 1])
    return found


_TEXT, _IMAGE, _AUDIO = 1, 2, 3


class _SpanTable:
    """The spans as columns."""

    def __init__(self, spans: Sequence[Span]) -> None:
        count = len(spans)
        self.start = np.fromiter((span.start for span in spans), np.int64, count)
        self.stop = np.fromiter((span.stop for span in spans), np.int64, count)
        self.kind = np.zeros(count, dtype=np.int8)
        self.page = np.full(count, NOWHERE, dtype=np.int32)
        self.chars = np.full((count, 2), NOWHERE, dtype=np.int64)
        self.grid = np.ones((count, 4), dtype=np.int32)
        self.seconds = np.full((count, 2), np.nan)
        for index, span in enumerate(spans):
            match span.locator:
                case TextPlace(start=start, stop=stop, page=page):
                    self.kind[index], self.chars[index] = _TEXT, (start, stop)
                case ImagePlace(grid=grid, page=page):
                    self.kind[index] = _IMAGE
                    self.grid[index] = grid.cols, grid.width_px, grid.height_px, grid.patch_px
                case AudioPlace(start_s=start_s, stop_s=stop_s):
                    self.kind[index], self.seconds[index], page = _AUDIO, (start_s, stop_s), None
                case _:
                    page = None
            if page is not None:
                self.page[index] = page


def _put_characters(found: Places, rendered: Rendered, table: _SpanTable) -> None:
    at = np.flatnonzero(table.kind[found.span] == _TEXT)
    if not len(at):
        return
    # Framing and slots count too: only differences inside one span are used.
    leads, inside = tokens.char_counts(rendered.token_ids)
    stops = np.cumsum(leads)
    starts = stops - leads - inside
    t, span = found.t[at], found.span[at]
    shift = table.chars[span, 0] - starts[table.start[span]]
    # A last token that runs over into the next piece of its message ends, here, with this piece.
    found.chars[at, 0] = np.minimum(starts[t] + shift, table.chars[span, 1])
    found.chars[at, 1] = np.minimum(stops[t] + shift, table.chars[span, 1])


def _put_patches(found: Places, table: _SpanTable, offset: NDArray[np.int64]) -> None:
    at = np.flatnonzero(table.kind[found.span] == _IMAGE)
    cols, width, height, side = table.grid[found.span[at]].T
    row, col = np.divmod(offset[at], cols)
    left, top = np.minimum(col * side, width), np.minimum(row * side, height)
    found.patch[at] = np.stack([row, col], axis=1)
    found.box_px[at] = np.stack([left, top, np.minimum(left + side, width), np.minimum(top + side, height)], axis=1)


def locate(rendered: Rendered, t: int) -> Locator | None:
    """Where token `t` comes from: its patch, its 50 ms, or its characters; None for framing.

    Raises
    ------
    IndexError
        `t` lies outside the context.
    """
    span = span_at(rendered.spans, t)
    if isinstance(span.locator, TextPlace):
        start, stop = text_places(rendered, span)[t - span.start].tolist()
        return replace(span.locator, start=start, stop=stop)
    return span.place(t)


def text_places(rendered: Rendered, span: Span) -> NDArray[np.int64]:
    """Character range in the source of every token of a text span.

    Returns
    -------
    ndarray of int64, shape (t, 2)
        First and one past the last character. Cost: look-ups for the span's tokens.
    """
    if not isinstance(span.locator, TextPlace):
        raise ValueError(f"not a text span: {span.label} ({span.modality})")
    ranges = tokens.char_ranges(rendered.token_ids[span.start : span.stop])
    _, inside = tokens.char_counts(rendered.token_ids[span.start : span.start + 1])
    # A first token that begins inside a character: the span's own start counts that character.
    ranges = ranges + span.locator.start + (int(inside[0]) if len(inside) else 0)
    if len(ranges) and inside[0]:
        ranges[0, 0] = span.locator.start
    return np.minimum(ranges, span.locator.stop)


def quotes(source: Source, rendered: Rendered, t: ArrayLike) -> list[str]:
    """The source's own characters behind each token: what it says there. Empty for framing, patches and sound.

    Parameters
    ----------
    source : Context
        The context that was rendered: its parts hold the texts.
    t : array-like of int
    """
    places = places_of(rendered, t)
    texts = _Texts(source)
    found: list[str] = []
    for span, page, (start, stop) in zip(places.span.tolist(), places.page.tolist(), places.chars.tolist(), strict=True):
        found.append(texts.of(rendered.spans[span], page)[start:stop] if start != NOWHERE else "")
    return found


class _Texts:
    """The texts that spans count characters of."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._parts: dict[str, Part] = {part.id: part for _, part in source.entries}

    def of(self, span: Span, page: int) -> str:
        match self._parts.get(span.part or ""):
            case TextPart(text=text) | ToolResultPart(text=text):
                return text
            case DocumentPart(pages=pages):
                return next((found.text for found in pages if (found.number or NOWHERE) == page), "")
            case WrittenReplyPart() as reply:
                return reply.reasoning if span.label == "thinking" else _written(reply, span.label)
            case ReplyPart() as reply:
                return _sampled(reply, span)
            case _:
                return (self._source.system or "") if span.part == "system" else ""


def _written(reply: WrittenReplyPart, label: str) -> str:
    from .messages import messages_of

    return next((message.text for message in messages_of(reply, "model") if message.label == label), reply.text)


def _sampled(reply: ReplyPart, span: Span) -> str:
    """The run of a sampled reply that has this span's length and kind."""
    assert isinstance(span.locator, TextPlace)
    for run in reply_ids.runs(reply.token_ids, tokens.framing_ids()):
        if run.kind != "framing" and len(run.ids) == len(span) and (run.kind == "text") == (span.label == reply.name):
            text = tokens.decode(run.ids)
            if len(text) == span.locator.stop:
                return text
    return ""
