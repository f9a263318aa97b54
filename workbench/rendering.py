"""From a context to token ids and spans: exactly what the model is given.

Framing tokens by name, text by the official tokenizer, one placeholder per image patch and audio frame. Order: tool declarations,
leading system text, thinking effort, then the parts; last the bare model token, after which the model writes. The span table
partitions the ids. A part's tokens are made once and kept as long as the part lives; adding a part re-renders nothing else.

Source of the order and the framing: vLLM 0.32 ``renderers/inkling_encoding.py``, whose ids these equal (control spellings in text
aside: there they stay text).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from engine.protocol import AudioPlace, ImagePlace, ImageRule, Limits, Locator, Media, Rendered, Span, TextPlace

from . import reply_ids, tokens
from .efforts import effort_text
from .errors import MediaTooLarge
from .messages import Kind, Message, Piece, Role, messages_of, text_message
from .parts import AudioPart, ImagePart, Part, ReplyPart, WrittenReplyPart
from .tools import canonical_json


class Source(Protocol):
    """What rendering reads of a context."""

    @property
    def system(self) -> str | None: ...
    @property
    def effort(self) -> float: ...
    @property
    def tools(self) -> Sequence[dict]: ...
    @property
    def entries(self) -> Sequence[tuple[Role, Part]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Tokens `start` to `stop` of a rendered context that belong to one entry (or to ``tools``, ``system``, ``effort``)."""

    name: str
    start: int
    stop: int
    part: Part | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A rendered context and which of its tokens each entry became."""

    rendered: Rendered
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Tokens of one entry; positions and message indices count from its own beginning."""

    ids: NDArray[np.uint32]
    spans: tuple[Span, ...]
    media: tuple[Media, ...]
    messages: int


_chunks: WeakKeyDictionary[Part, dict[tuple, _Chunk]] = WeakKeyDictionary()


def lay_out(source: Source, rule: ImageRule, limits: Limits) -> Layout:
    """Render `source` by an engine's image rule, within its per-item limits.

    Raises
    ------
    MediaTooLarge
        A clip or a number of images or clips above the engine's limits.
    """
    _check_media(source, limits)
    plan: list[tuple[str, Part | None, _Chunk]] = []
    if source.tools:
        text = canonical_json(list(source.tools), what="the tool declarations")
        message = text_message("system", "tools", "tools", text, kind="xml", author="tool_declare")
        plan.append(("tools", None, _write([message], rule)))
    if source.system:
        plan.append(("system", None, _write([text_message("system", "system", "system", source.system)], rule)))
    leading = [role == "system" for role, _ in source.entries]
    first = leading.index(False) if False in leading else len(leading)
    parts = [(part.name, part, _part_chunk(part, role, rule)) for role, part in source.entries]
    effort = _write([text_message("system", "effort", "effort", effort_text(source.effort))], rule)
    plan += [*parts[:first], ("effort", None, effort), *parts[first:], ("", None, _opening())]
    return _join(plan, source, rule)


def _check_media(source: Source, limits: Limits) -> None:
    images = [m.media for _, p in source.entries if not isinstance(p, ReplyPart) for m in messages_of(p, "user") if m.media]
    for kind, cls, most in (("image", ImagePart, limits.images_per_request), ("audio", AudioPart, limits.audios_per_request)):
        count = sum(isinstance(part, cls) for part in images)
        if most is not None and count > most:
            noun = "images" if kind == "image" else "recordings"
            raise MediaTooLarge(f"{count} {noun}, page images included: this engine takes {most} per request", limit=most)
    for part in images:
        if isinstance(part, AudioPart) and part.tokens > limits.audio_clip_tokens:
            raise clip_too_long(part.name, part.tokens, limits.audio_clip_tokens)


def clip_too_long(name: str, clip_tokens: int, limit_tokens: int) -> MediaTooLarge:
    """The error for a recording over the per-clip limit."""
    return MediaTooLarge(
        f"{name}: {clip_tokens:,} audio tokens ({clip_tokens / 20:,.2f} s) exceed the limit of {limit_tokens:,} tokens "
        f"({limit_tokens / 20:g} s) per clip: cut it into shorter clips",
        name=name, tokens=clip_tokens, limit_tokens=limit_tokens,
    )  # fmt: skip


def _join(plan: Iterable[tuple[str, Part | None, _Chunk]], source: Source, rule: ImageRule) -> Layout:
    ids: list[NDArray[np.uint32]] = []
    spans: list[Span] = []
    media: list[Media] = []
    sections: list[Section] = []
    at = message = 0
    for name, part, chunk in plan:
        ids.append(chunk.ids)
        spans += [replace(s, start=s.start + at, stop=s.stop + at, message=s.message + message) for s in chunk.spans]
        media += [replace(item, start=item.start + at) for item in chunk.media]
        sections.append(Section(name=name, start=at, stop=at + len(chunk.ids), part=part))
        at += len(chunk.ids)
        message += chunk.messages
    rendered = Rendered(
        token_ids=np.concatenate(ids), spans=tuple(spans), media=tuple(media), image_rule=rule, blobs=_blobs(source)
    )  # fmt: skip
    return Layout(rendered=rendered, sections=tuple(sections[:-1]))


def _blobs(source: Source) -> dict[str, bytes]:
    return {
        message.media.id: message.media.blob
        for role, part in source.entries
        if not isinstance(part, ReplyPart)
        for message in messages_of(part, role)
        if message.media is not None
    }


def _part_chunk(part: Part, role: Role, rule: ImageRule) -> _Chunk:
    kept = _chunks.setdefault(part, {})
    key = (part.name, role, rule)
    if key not in kept:
        if isinstance(part, ReplyPart):
            kept[key] = _reply_chunk(part)
        else:
            kept[key] = _write(messages_of(part, role), rule, ends_turn=isinstance(part, WrittenReplyPart))
    return kept[key]


class _Writer:
    """Collects ids, spans and media of one chunk."""

    def __init__(self) -> None:
        self.ids: list[NDArray[np.uint32]] = []
        self.spans: list[Span] = []
        self.media: list[Media] = []
        self.at = 0
        self.message = 0

    def add(self, ids: NDArray[np.uint32], span: Span | None) -> None:
        """Append `ids`; `span` gives all but the range."""
        if len(ids):
            self.ids.append(ids)
            if span is not None:
                self.spans.append(replace(span, start=self.at, stop=self.at + len(ids), message=self.message))
            self.at += len(ids)

    def frame(self, label: str, *pieces: int | NDArray[np.uint32]) -> None:
        """Append framing tokens, with a span that belongs to no part."""
        arrays = [np.atleast_1d(np.asarray(piece, dtype=np.uint32)) for piece in pieces]
        self.add(np.concatenate(arrays), _span(None, label, "framing"))

    def chunk(self) -> _Chunk:
        ids = np.concatenate(self.ids) if self.ids else np.empty(0, dtype=np.uint32)
        return _Chunk(ids, tuple(self.spans), tuple(self.media), self.message)


def _span(part: str | None, label: str, modality, locator: Locator | None = None) -> Span:
    return Span(start=0, stop=0, part=part, label=label, modality=modality, message=0, locator=locator)


def _opening() -> _Chunk:
    writer = _Writer()
    writer.frame("reply", tokens.framing_ids().message_model)
    return writer.chunk()


def _write(messages: Iterable[Message], rule: ImageRule, *, ends_turn: bool = False) -> _Chunk:
    ids, writer = tokens.framing_ids(), _Writer()
    roles = {"user": ids.message_user, "model": ids.message_model, "system": ids.message_system, "tool": ids.message_tool}
    kinds: dict[Kind, int] = {
        "text": ids.content_text, "image": ids.content_image, "audio": ids.content_audio_input,
        "thinking": ids.content_thinking, "xml": ids.content_xml, "tool_call": ids.content_invoke_tool_json,
    }  # fmt: skip
    for message in messages:
        writer.frame(message.role, roles[message.role], tokens.encode(message.author), kinds[message.kind])
        if message.media is None:
            _write_text(writer, message)
            writer.frame("end", ids.end_message)
        else:
            _write_media(writer, message, rule)
            writer.frame("end", *((ids.audio_end,) if message.kind == "audio" else ()), ids.end_message)
        writer.message += 1
    if ends_turn:
        # The end of a turn stands outside every message; it counts as part of the last one.
        writer.message = max(writer.message - 1, 0)
        writer.frame("end of turn", ids.content_model_end_sampling)
        writer.message += 1
    return writer.chunk()


def _write_media(writer: _Writer, message: Message, rule: ImageRule) -> None:
    slots, part = tokens.framing_ids().slots(), message.media
    if isinstance(part, ImagePart):
        grid = rule.grid(part.width_px, part.height_px)
        count, place, kind = grid.tokens, ImagePlace(grid=grid, page=message.page), "image"
    else:
        assert isinstance(part, AudioPart)
        count, place, kind = part.tokens, AudioPlace(start_s=0.0, stop_s=part.duration_s), "audio"
    writer.media.append(Media(kind=kind, blob=part.id, start=writer.at, tokens=count))
    writer.add(np.full(count, slots[kind], dtype=np.uint32), _span(message.part, message.label, kind, place))


def _write_text(writer: _Writer, message: Message) -> None:
    """Encode the whole text at once, as every engine does, then give each token to the piece it begins in."""
    ids = tokens.encode(message.text)
    if len(message.pieces) == 1:
        piece = message.pieces[0]
        writer.add(ids, _text_span(message, piece, 0, len(piece.text)))
        return
    ranges = tokens.char_ranges(ids, message.text)
    edges = np.concatenate([[0], np.cumsum([len(piece.text) for piece in message.pieces])])
    cuts = np.searchsorted(ranges[:, 0], edges)
    cuts[-1] = len(ids)
    for piece, begin, first, last in zip(message.pieces, edges.tolist(), cuts.tolist(), cuts[1:].tolist(), strict=False):
        if first < last:
            # A token across a border belongs to the piece it begins in; the places say what was really covered.
            start = int(ranges[first, 0]) - begin
            stop = min(int(ranges[last - 1, 1]) - begin, len(piece.text))
            writer.add(ids[first:last], _text_span(message, piece, start, stop))


def _text_span(message: Message, piece: Piece, start: int, stop: int) -> Span:
    if piece.mark:
        return _span(message.part, piece.label, "framing")
    return _span(message.part, piece.label, "text", TextPlace(start=start, stop=stop, page=piece.page))


def _reply_chunk(part: ReplyPart) -> _Chunk:
    ids, writer = tokens.framing_ids(), _Writer()
    found, missing = reply_ids.runs(part.token_ids, ids), reply_ids.missing_end(part.token_ids, ids)
    messages = max(1, sum(run.closes for run in found) + (ids.end_message in missing))
    closed = 0
    writer.frame("model", ids.message_model)
    for run in found:
        writer.message = min(closed, messages - 1)
        if run.kind == "framing":
            writer.frame("model", run.ids)
        else:
            label = part.name if run.kind == "text" else run.kind
            stop = len(tokens.decode(run.ids))
            writer.add(run.ids, _span(part.id, label, "text", TextPlace(start=0, stop=stop)))
        closed += run.closes
    writer.message = messages - 1
    if missing:
        writer.frame("end of turn", *missing)
    writer.message = messages
    return writer.chunk()
