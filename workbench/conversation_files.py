"""Saved conversations: one file with the beginning, every turn of every branch, and every blob once.

``conversation.json`` holds the tree; texts, media and sampled ids lie under ``blobs/`` (:mod:`workbench.archives`), so that
branches share what they share. A turn whose bytes are lost takes along what hung under it; the rest can be opened.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from engine.errors import InklingError
from engine.protocol.wire import reply_from_json, reply_to_json

from .archives import DAMAGE, Reader, Writer
from .context_files import ContextRecord, context_from, context_record
from .conversations import Conversation, Turn
from .errors import ContextFileError
from .part_records import EntryRecord, Record, entry_from, record_of

VERSION = 1
FORMAT = "inkling-conversation"
_MANIFEST = "conversation.json"


class _Turn(Record):
    id: str
    parent: str
    kind: Literal["user", "reply", "tool"]
    entries: list[EntryRecord]
    text: str = ""
    reply: dict[str, Any] | None = None
    effort: float | None = None


class _File(Record):
    format: Literal["inkling-conversation"]
    version: int
    context: ContextRecord
    turns: list[_Turn]
    leaf: str


def save(conversation: Conversation, path: Path) -> Path:
    """Write `conversation` to `path`, replacing it only when everything is written."""
    writer = Writer()
    turns = [
        _Turn(
            id=turn.id,
            parent=turn.parent or "0",
            kind=turn.kind,  # pyright: ignore[reportArgumentType]
            entries=[record_of(entry, writer) for entry in turn.entries],
            text=turn.text,
            reply=None if turn.reply is None else reply_to_json(turn.reply),
            effort=turn.effort,
        )
        for turn in conversation.turns
    ]
    beginning = context_record(conversation.context(conversation.root), writer)
    found = _File(format=FORMAT, version=VERSION, context=beginning, turns=turns, leaf=conversation.leaf.id)
    return writer.write(path, _MANIFEST, found.model_dump_json(indent=1))


def load(path: Path, *, salvage: bool = False) -> Conversation:
    """Open a saved conversation; see :meth:`workbench.Conversation.load`."""
    reader = Reader(path, _MANIFEST, FORMAT, VERSION)
    try:
        found = _File.model_validate(reader.manifest)
    except ValidationError as problem:
        raise ContextFileError(
            f"{path}: not a saved conversation, or damaged beyond its list of contents ({problem.errors()[0]['msg']}): "
            "nothing can be opened", path=str(path),
        ) from problem  # fmt: skip
    context, losses = context_from(found.context, reader)
    conversation = Conversation(context)
    for turn in found.turns:
        try:
            conversation._put(_turn(turn, conversation, reader))
        except (*DAMAGE, InklingError, TypeError) as problem:
            losses.append(f"turn {turn.id} ({turn.kind} {turn.text[:30]!r}): {problem}")
    if losses and not salvage:
        raise ContextFileError(
            f"{path}: damaged; lost: {'; '.join(losses)}. Conversation.load(path, salvage=True) opens the other "
            f"{len(conversation.turns)} of {len(found.turns)} turns",
            path=str(path), losses=losses,
        )  # fmt: skip
    conversation.losses = tuple(losses)
    if found.leaf in {turn.id for turn in (conversation.root, *conversation.turns)}:
        conversation.select(found.leaf)
    return conversation


def _turn(record: _Turn, conversation: Conversation, reader: Reader) -> Turn:
    conversation.turn(record.parent)
    return Turn(
        id=record.id,
        parent=record.parent,
        kind=record.kind,
        entries=tuple(entry_from(entry, reader) for entry in record.entries),
        text=record.text,
        reply=None if record.reply is None else reply_from_json(record.reply),
        effort=record.effort,
    )
