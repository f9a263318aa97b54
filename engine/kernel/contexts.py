"""Rendered contexts on disk, and everything that is checked about one before it is kept.

A context comes as a frame (:mod:`engine.protocol.wire`) that may leave out the ids it shares with a context already here; what
is kept is always whole. Its id is worked out again from the content, so equal contexts are one file, whoever sent them. Files
outlive the kernel. This module knows no vLLM: limits, vocabulary and rule are handed in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import BadRequest, BlobMissing, ContextTooLong, ContextUnknown, RenderMismatch
from ..protocol import FramingIds, ImageRule, Media, context_id
from ..protocol.presence import write_private_bytes
from ..protocol.wire import ContextHeader, frame_context, unpack_context
from .blobs import checked_hash
from .quotas import Quota, used_now

_HELD = 8
"""Contexts kept in memory, the most recent ones: at 4 MB for a million tokens."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StoredContext:
    """A context as the kernel runs it: ids of shape (t,), media in order, and the rule its images were counted by."""

    id: str
    token_ids: NDArray[np.uint32]
    media: tuple[Media, ...]
    image_rule: ImageRule

    def __len__(self) -> int:
        return len(self.token_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a context must fit.

    Attributes
    ----------
    limit_tokens : int
        Prompt and at least one token of answer.
    vocabulary : int
        Ids run from 0 to below this.
    media_tokens : callable
        From kind and blob to the placeholders this engine would write for it; BlobMissing where the blob is gone.
    """

    limit_tokens: int
    vocabulary: int
    framing: FramingIds
    image_rule: ImageRule
    media_tokens: Callable[[str, str], int]


class ContextStore:
    """Contexts of one folder.

    Parameters
    ----------
    folder : Path
        Made if missing, 0700.
    bounds : Bounds
    total_bytes : int
        What all of them may have.
    """

    def __init__(self, folder: Path, bounds: Bounds, *, total_bytes: int = 16 << 30) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder, self.bounds = folder, bounds
        self._quota = Quota(folder, total_bytes, limit="limits.contexts_bytes")
        self._recent: OrderedDict[str, StoredContext] = OrderedDict()

    @property
    def max_frame_bytes(self) -> int:
        """No frame of an acceptable context is longer: four bytes a token, and a generous header."""
        return 4 * self.bounds.limit_tokens + (16 << 20)

    def add(self, frame: bytes) -> StoredContext:
        """Check a frame and keep its context.

        Raises
        ------
        BadRequest, ContextUnknown, ContextTooLong, BlobMissing, RenderMismatch, QuotaFull
            Nothing was kept; the message says what to do.
        """
        header, ids = unpack_context(frame)
        token_ids = np.concatenate([self._base(header), ids]) if header.base else ids
        context = StoredContext(id=header.id, token_ids=token_ids, media=header.media_items(), image_rule=header.image_rule)
        self._check(context)
        path = self._path(context.id)
        if not path.is_file():
            whole = frame_context(context.id, token_ids, context.media, context.image_rule)
            self._quota.make_room(len(whole))
            write_private_bytes(path, whole)
        self._remember(context)
        return context

    def get(self, name: str) -> StoredContext:
        """A context by its id.

        Raises
        ------
        ContextUnknown, BlobMissing
            It, or something it names, was never sent, or was cleaned away.
        """
        used_now(self._path(name))
        if name in self._recent:
            self._recent.move_to_end(name)
            context = self._recent[name]
            check_media(context, self.bounds)  # its blobs may have gone meanwhile, and are in use from now on
            return context
        try:
            header, ids = unpack_context(self._path(name).read_bytes())
        except FileNotFoundError:
            raise ContextUnknown(f"the engine does not hold context {name[:19]}…: send it first", context=name) from None
        context = StoredContext(id=name, token_ids=ids, media=header.media_items(), image_rule=header.image_rule)
        # Another engine with other limits may have kept it in the same folder.
        self._check(context)
        self._remember(context)
        return context

    def _path(self, name: str) -> Path:
        return self.folder / f"{checked_hash(name).removeprefix('sha256:')}.iwc"

    def _remember(self, context: StoredContext) -> None:
        self._recent[context.id] = context
        self._recent.move_to_end(context.id)
        while len(self._recent) > _HELD:
            self._recent.popitem(last=False)

    def _base(self, header: ContextHeader) -> NDArray[np.uint32]:
        base = self.get(header.base or "")
        if header.base_tokens > len(base):
            raise BadRequest(f"base_tokens is {header.base_tokens:,}, the base context has {len(base):,}")
        return base.token_ids[: header.base_tokens]

    def _check(self, context: StoredContext) -> None:
        bounds, ids = self.bounds, context.token_ids
        if not len(ids):
            raise BadRequest("an empty context: there is nothing to answer")
        if len(ids) >= bounds.limit_tokens:
            raise ContextTooLong(
                f"{len(ids):,} tokens; this engine takes {bounds.limit_tokens - 1:,} with room for an answer: remove parts",
                tokens=len(ids), limit_tokens=bounds.limit_tokens,
            )  # fmt: skip
        if int(ids.max()) >= bounds.vocabulary:
            at = int(ids.argmax())
            raise BadRequest(f"token {at} has id {int(ids[at])}, outside this model's vocabulary of {bounds.vocabulary:,}", t=at)
        if context.id != context_id(ids, context.media, context.image_rule):
            raise BadRequest("a context's content does not have the id it came with: render and send it again", context=context.id)
        if any(item.kind == "image" for item in context.media) and context.image_rule != bounds.image_rule:
            raise RenderMismatch(
                f"images were counted by the rule {context.image_rule.id}, this engine runs {bounds.image_rule.id}: render again",
                given=context.image_rule.id, engine=bounds.image_rule.id,
            )  # fmt: skip
        check_media(context, bounds)


def check_media(context: StoredContext, bounds: Bounds) -> None:
    """Every media item stands behind its marker, fills its placeholders, and has as many as the engine would write."""
    markers = {"image": bounds.framing.content_image, "audio": bounds.framing.content_audio_input}
    slots, ids, end = bounds.framing.slots(), context.token_ids, 0
    for number, item in enumerate(context.media):
        where = f"{item.kind} {number} at token {item.start:,}"
        if item.start < max(1, end) or item.start + item.tokens > len(ids):
            raise BadRequest(f"{where}: overlaps another item or lies outside the {len(ids):,} tokens", media=number)
        end = item.start + item.tokens
        if int(ids[item.start - 1]) != markers[item.kind] or not (ids[item.start : end] == slots[item.kind]).all():
            raise BadRequest(f"{where}: its tokens are not the marker and {item.tokens:,} placeholders", media=number)
        wanted = bounds.media_tokens(item.kind, item.blob)
        if wanted != item.tokens:
            raise RenderMismatch(
                f"{where}: {item.tokens:,} placeholders were rendered, this engine would write {wanted:,}: render for this engine",
                media=number, given_tokens=item.tokens, engine_tokens=wanted,
            )  # fmt: skip
    for kind, marker in markers.items():
        found, meant = int((ids == marker).sum()), sum(item.kind == kind for item in context.media)
        if found != meant:
            raise RenderMismatch(
                f"{found} {kind} markers in the tokens for {meant} {kind} items: vLLM would expand the wrong ones. "
                "A reply that wrote the marker itself cannot be continued.", kind=kind, markers=found, items=meant,
            )  # fmt: skip


def missing_blobs(frame: bytes, has: Callable[[str], bool]) -> list[str]:
    """Hashes a frame's media name that the engine does not hold, each once.

    Raises
    ------
    BadRequest
        Not a frame.
    """
    header, _ = unpack_context(frame)
    return [blob for blob in dict.fromkeys(item.blob for item in header.media) if not has(blob)]


def require_blobs(frame: bytes, has: Callable[[str], bool]) -> None:
    """Raise BlobMissing, listing all of them, unless every blob of a frame is here."""
    if missing := missing_blobs(frame, has):
        raise BlobMissing(f"the engine does not hold {len(missing)} of the context's blobs: upload them first", blobs=missing)
