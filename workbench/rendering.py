"""From a context to token ids and spans: exactly what the model is given.

Framing tokens by name, text by the official tokenizer, one placeholder per image patch and audio frame. Order: tool declarations,
leading system text, thinking effort, then the parts; last the bare model token, after which the model writes. The span table
partitions the ids. Each part's tokens are made once (:mod:`workbench.chunks`); here they are put in order and shifted to where
they stand.

Source of the order and the framing: vLLM 0.32 ``renderers/inkling_encoding.py``, whose ids these equal (control spellings in text
aside: there they stay text).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.protocol import ImageRule, Limits, Media, Rendered, Span

from .chunks import Chunk, chunk_of, opening, written
from .efforts import effort_text
from .errors import MediaTooLarge
from .messages import Role, text_message
from .parts import AudioPart, ImagePart, Part, media_of
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
    """Tokens `start` to `stop` of a rendered context that belong to one entry (or to ``tools``, ``system``, ``effort``).

    Its spans are those from `first_span` to before `last_span`.
    """

    name: str
    start: int
    stop: int
    first_span: int
    last_span: int
    part: Part | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A rendered context and which of its tokens each entry became."""

    rendered: Rendered
    sections: tuple[Section, ...]

    def spans(self, section: Section) -> tuple[Span, ...]:
        """The spans of one section."""
        return self.rendered.spans[section.first_span : section.last_span]


def lay_out(source: Source, rule: ImageRule, limits: Limits) -> Layout:
    """Render `source` by an engine's image rule, within its per-item limits.

    Raises
    ------
    MediaTooLarge
        A clip or a number of images or clips above the engine's limits.
    """
    _check_media(source, limits)
    plan: list[tuple[str, Part | None, Chunk]] = []
    if source.tools:
        text = canonical_json(list(source.tools), what="the tool declarations")
        message = text_message("system", "tools", "tools", text, kind="xml", author="tool_declare")
        plan.append(("tools", None, written([message], rule)))
    if source.system:
        plan.append(("system", None, written([text_message("system", "system", "system", source.system)], rule)))
    leading = [role == "system" for role, _ in source.entries]
    first = leading.index(False) if False in leading else len(leading)
    parts = [(part.name, part, chunk_of(part, role, rule)) for role, part in source.entries]
    effort = written([text_message("system", "effort", "effort", effort_text(source.effort))], rule)
    plan += [*parts[:first], ("effort", None, effort), *parts[first:], ("", None, opening())]
    return _join(plan, source, rule)


def _check_media(source: Source, limits: Limits) -> None:
    media = [item for _, part in source.entries for item in media_of(part)]
    for cls, noun, most in (
        (ImagePart, "images", limits.images_per_request),
        (AudioPart, "recordings", limits.audios_per_request),
    ):
        count = sum(isinstance(item, cls) for item in media)
        if most is not None and count > most:
            raise MediaTooLarge(f"{count} {noun}, page images included: this engine takes {most} per request", limit=most)
    for item in media:
        if isinstance(item, AudioPart) and item.tokens > limits.audio_clip_tokens:
            raise clip_too_long(item.name, item.tokens, limits.audio_clip_tokens)
        if len(item.blob) > limits.blob_bytes:
            raise MediaTooLarge(
                f"{item.name}: {len(item.blob):,} bytes as {'PNG' if isinstance(item, ImagePart) else 'WAV'} exceed this engine's "
                f"limit of {limits.blob_bytes:,} bytes per item: make it smaller",
                name=item.name, bytes=len(item.blob), limit_bytes=limits.blob_bytes,
            )  # fmt: skip


def clip_too_long(name: str, clip_tokens: int, limit_tokens: int) -> MediaTooLarge:
    """The error for a recording over the per-clip limit."""
    return MediaTooLarge(
        f"{name}: {clip_tokens:,} audio tokens ({clip_tokens / 20:,.2f} s) exceed the limit of {limit_tokens:,} tokens "
        f"({limit_tokens / 20:g} s) per clip: cut it into shorter clips",
        name=name, tokens=clip_tokens, limit_tokens=limit_tokens,
    )  # fmt: skip


def _join(plan: Iterable[tuple[str, Part | None, Chunk]], source: Source, rule: ImageRule) -> Layout:
    ids: list[NDArray[np.uint32]] = []
    spans: list[Span] = []
    media: list[Media] = []
    sections: list[Section] = []
    at = message = 0
    for name, part, chunk in plan:
        ids.append(chunk.ids)
        first = len(spans)
        spans += [
            Span(
                start=s.start + at, stop=s.stop + at, part=s.part, label=s.label, modality=s.modality,
                message=s.message + message, locator=s.locator,
            )
            for s in chunk.spans
        ]  # fmt: skip
        media += [Media(kind=item.kind, blob=item.blob, start=item.start + at, tokens=item.tokens) for item in chunk.media]
        stop = at + len(chunk.ids)
        sections.append(Section(name=name, start=at, stop=stop, first_span=first, last_span=len(spans), part=part))
        at = stop
        message += chunk.messages
    rendered = Rendered(
        token_ids=np.concatenate(ids), spans=tuple(spans), media=tuple(media), image_rule=rule, blobs=_blobs(source)
    )  # fmt: skip
    return Layout(rendered=rendered, sections=tuple(sections[:-1]))


def _blobs(source: Source) -> dict[str, bytes]:
    return {
        item.id if isinstance(item, ImagePart) else item.blob_id: item.blob
        for _, part in source.entries
        for item in media_of(part)
    }  # fmt: skip
