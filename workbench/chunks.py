"""The tokens of one part: ids, spans and media, with positions that count from the part's own beginning.

Made once and kept as long as the part lives: a context that changes elsewhere renders nothing of it again, and contexts that share
a part share its tokens. This module knows no context; :mod:`workbench.rendering` puts chunks in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from engine.protocol import AudioPlace, ImagePlace, ImageRule, Locator, Media, Modality, Span, TextPlace

from . import reply_ids, tokens
from .messages import Kind, Message, Piece, Role, messages_of
from .parts import ImagePart, Part, ReplyPart, WrittenReplyPart


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens of one entry; positions and message indices count from its own beginning."""

    ids: NDArray[np.uint32]
    spans: tuple[Span, ...]
    media: tuple[Media, ...]
    messages: int


_kept: WeakKeyDictionary[Part, dict[tuple, Chunk]] = WeakKeyDictionary()


def chunk_of(part: Part, role: Role, rule: ImageRule) -> Chunk:
    """The tokens of `part`; from memory when they were made before."""
    kept = _kept.setdefault(part, {})
    key = (part.name, role, rule)
    if key not in kept:
        if isinstance(part, ReplyPart):
            kept[key] = _reply(part)
        else:
            kept[key] = written(messages_of(part, role), rule, ends_turn=isinstance(part, WrittenReplyPart))
    return kept[key]


def opening() -> Chunk:
    """The bare model token, after which the model writes."""
    writer = _Writer()
    writer.frame("reply", tokens.framing_ids().message_model)
    return writer.chunk()


def written(messages: Iterable[Message], rule: ImageRule, *, ends_turn: bool = False) -> Chunk:
    """The tokens of messages, framing included."""
    ids, writer = tokens.framing_ids(), _Writer()
    roles = {"user": ids.message_user, "model": ids.message_model, "system": ids.message_system, "tool": ids.message_tool}
    kinds: dict[Kind, int] = {
        "text": ids.content_text, "image": ids.content_image, "audio": ids.content_audio_input,
        "thinking": ids.content_thinking, "xml": ids.content_xml, "tool_call": ids.content_invoke_tool_json,
    }  # fmt: skip
    for message in messages:
        author = tokens.encode(message.author).tolist() if message.author else []
        writer.frame(message.role, roles[message.role], *author, kinds[message.kind])
        if message.media is None:
            _text(writer, message)
            writer.frame("end", ids.end_message)
        else:
            _media(writer, message, rule)
            writer.frame("end", *((ids.audio_end,) if message.kind == "audio" else ()), ids.end_message)
        writer.message += 1
    if ends_turn:
        # The end of a turn stands outside every message; it counts as part of the last one.
        writer.message = max(writer.message - 1, 0)
        writer.frame("end of turn", ids.content_model_end_sampling)
        writer.message += 1
    return writer.chunk()


class _Writer:
    """Collects ids, spans and media of one chunk."""

    def __init__(self) -> None:
        self.ids: list[NDArray[np.uint32]] = []
        self.spans: list[Span] = []
        self.media: list[Media] = []
        self.at = 0
        self.message = 0

    def add(self, ids: NDArray[np.uint32]) -> None:
        """Append `ids`, whose spans are added by :meth:`span`."""
        self.ids.append(ids)

    def span(self, count: int, part: str | None, label: str, modality: Modality, locator: Locator | None = None) -> None:
        """Give the next `count` tokens their place."""
        if count:
            stop = self.at + count
            self.spans.append(
                Span(
                    start=self.at,
                    stop=stop,
                    part=part,
                    label=label,
                    modality=modality,
                    message=self.message,
                    locator=locator,
                )
            )
            self.at = stop

    def frame(self, label: str, *ids: int) -> None:
        """Append framing tokens, with a span that belongs to no part."""
        self.add(np.array(ids, dtype=np.uint32))
        self.span(len(ids), None, label, "framing")

    def chunk(self) -> Chunk:
        ids = np.concatenate(self.ids) if self.ids else np.empty(0, dtype=np.uint32)
        return Chunk(ids, tuple(self.spans), tuple(self.media), self.message)


def _media(writer: _Writer, message: Message, rule: ImageRule) -> None:
    slots, part = tokens.framing_ids().slots(), message.media
    if isinstance(part, ImagePart):
        grid = rule.grid(part.width_px, part.height_px)
        count, place, kind, blob = grid.tokens, ImagePlace(grid=grid, page=message.page), "image", part.id
    else:
        assert part is not None
        count, place = part.tokens, AudioPlace(start_s=part.start_s, stop_s=part.stop_s)
        kind, blob = "audio", part.blob_id
    writer.media.append(Media(kind=kind, blob=blob, start=writer.at, tokens=count))
    writer.add(np.full(count, slots[kind], dtype=np.uint32))
    writer.span(count, message.part, message.label, kind, place)


def _text(writer: _Writer, message: Message) -> None:
    """Encode the whole text at once, as every engine does, then give each token to the piece it begins in."""
    text = message.text
    ids = tokens.encode(text)
    writer.add(ids)
    if len(message.pieces) == 1:
        _piece(writer, message, message.pieces[0], len(ids), 0, len(text))
        return
    ranges = tokens.char_ranges(ids)
    edges = np.concatenate([[0], np.cumsum([len(piece.text) for piece in message.pieces])])
    cuts = np.searchsorted(ranges[:, 0], edges)
    cuts[-1] = len(ids)
    starts = ranges[np.minimum(cuts[:-1], len(ids) - 1), 0].tolist()
    stops = ranges[np.maximum(cuts[1:] - 1, 0), 1].tolist()
    for piece, begin, first, last, start, stop in zip(
        message.pieces, edges.tolist(), cuts.tolist(), cuts[1:].tolist(), starts, stops, strict=False
    ):
        if first < last:
            # A token across a border belongs to the piece it begins in; the places say what was really covered.
            _piece(writer, message, piece, last - first, start - begin, min(stop - begin, len(piece.text)))


def _piece(writer: _Writer, message: Message, piece: Piece, count: int, start: int, stop: int) -> None:
    if piece.mark:
        writer.span(count, message.part, piece.label, "framing")
    else:
        writer.span(count, message.part, piece.label, "text", TextPlace(start=start, stop=stop, page=piece.page))


def _reply(part: ReplyPart) -> Chunk:
    ids, writer = tokens.framing_ids(), _Writer()
    found, missing = reply_ids.runs(part.token_ids, ids), reply_ids.missing_end(part.token_ids, ids)
    messages = max(1, sum(run.closes for run in found) + (ids.end_message in missing))
    closed = 0
    writer.frame("model", ids.message_model)
    for run in found:
        writer.message = min(closed, messages - 1)
        writer.add(run.ids)
        if run.kind == "framing":
            writer.span(len(run.ids), None, "model", "framing")
        else:
            label = part.name if run.kind == "text" else run.kind
            stop = len(tokens.decode(run.ids))
            writer.span(len(run.ids), part.id, label, "text", TextPlace(start=0, stop=stop))
        closed += run.closes
    writer.message = messages - 1
    if missing:
        writer.frame("end of turn", *missing)
    writer.message = messages
    return writer.chunk()


def forget() -> None:
    """Drop every kept chunk: the next rendering is a cold one (benches and tests ask for it)."""
    _kept.clear()
