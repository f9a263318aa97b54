"""Parts as records of a saved file: JSON that names their bytes by hash, and back. Checked when they are read.

A record that lacks a field was written by an older version and means the field's default.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from .archives import Reader, Writer
from .entries import Entry, entry_of
from .messages import Role
from .parts import (
    AudioPart,
    DocumentPart,
    ImagePart,
    Page,
    Part,
    RecordingPart,
    ReplyPart,
    TextPart,
    ToolResultPart,
    WrittenReplyPart,
)

_Blob = Field(pattern=r"^sha256:[0-9a-f]{64}$")


class Record(BaseModel):
    """A record with known fields only."""

    model_config = ConfigDict(extra="forbid")


class _Image(Record):
    blob: str = _Blob
    width_px: int = Field(ge=1)
    height_px: int = Field(ge=1)
    name: str
    notes: tuple[str, ...] = ()


class _Clip(Record):
    blob: str = _Blob
    start_s: float = 0.0


class _Page(Record):
    text: str = _Blob
    number: int | None = None
    image: _Image | None = None
    title: str = ""
    pictures: tuple[_Image, ...] = ()


class EntryRecord(Record):
    """One entry of a context."""

    role: Role
    kind: Literal["text", "document", "image", "audio", "recording", "reply", "written-reply", "tool-result"]
    id: str = _Blob
    name: str
    pinned: bool = False
    disabled: bool = False
    notes: tuple[str, ...] = ()
    blob: str | None = None
    start_s: float = 0.0
    clips: tuple[_Clip, ...] = ()
    image: _Image | None = None
    pages: tuple[_Page, ...] = ()
    reasoning: str = ""
    tool_calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    tool: str = ""


def record_of(entry: Entry, writer: Writer) -> EntryRecord:
    """The record of an entry; its bytes go to `writer`."""
    part = entry.part
    values = {"role": entry.role, "id": part.id, "name": part.name, "pinned": entry.pinned, "disabled": entry.disabled}
    return EntryRecord(**values, **_values(part, writer))


def _values(part: Part, writer: Writer) -> dict[str, Any]:
    match part:
        case TextPart():
            return {"kind": "text", "blob": writer.keep("txt", part.text.encode())}
        case ImagePart():
            return {"kind": "image", "image": _image_record(part, writer)}
        case AudioPart():
            return {"kind": "audio", "blob": writer.keep("wav", part.blob), "start_s": part.start_s, "notes": part.notes}
        case RecordingPart():
            clips = tuple(_Clip(blob=writer.keep("wav", clip.blob), start_s=clip.start_s) for clip in part.clips)
            return {"kind": "recording", "clips": clips, "notes": part.notes}
        case DocumentPart():
            return {"kind": "document", "pages": tuple(_page_record(page, writer) for page in part.pages), "notes": part.notes}
        case ReplyPart():
            return {"kind": "reply", "blob": writer.keep("ids", part.token_ids.astype("<u4").tobytes())}
        case WrittenReplyPart():
            words = {"reasoning": part.reasoning, "tool_calls": part.tool_calls}
            return {"kind": "written-reply", "blob": writer.keep("txt", part.text.encode()), **words}
        case ToolResultPart():
            return {"kind": "tool-result", "blob": writer.keep("txt", part.text.encode()), "tool": part.tool}


def _image_record(part: ImagePart, writer: Writer) -> _Image:
    blob = writer.keep("png", part.blob)
    return _Image(blob=blob, width_px=part.width_px, height_px=part.height_px, name=part.name, notes=part.notes)


def _page_record(page: Page, writer: Writer) -> _Page:
    return _Page(
        text=writer.keep("txt", page.text.encode()),
        number=page.number,
        title=page.title,
        image=_image_record(page.image, writer) if page.image else None,
        pictures=tuple(_image_record(picture, writer) for picture in page.pictures),
    )


def entry_from(record: EntryRecord, reader: Reader, *, named: bool = True) -> Entry:
    """The entry of a record.

    Raises
    ------
    ValueError, and the rest of :data:`~workbench.archives.DAMAGE`
        Its bytes are lost or are not what they were.
    """
    part = _part(record, reader)
    if named and part.id != record.id:
        raise ValueError(f"its content does not match {record.id[:19]}…")
    entry = entry_of(part, record.role)
    return Entry(role=entry.role, part=part, pinned=record.pinned, disabled=record.disabled)


def _part(record: EntryRecord, reader: Reader) -> Part:
    name, notes = record.name, record.notes
    match record.kind:
        case "text":
            return TextPart(text=reader.blob(record.blob, "txt").decode(), name=name)
        case "image":
            return _image(record.image, reader)
        case "audio":
            return AudioPart(blob=reader.blob(record.blob, "wav"), name=name, notes=notes, start_s=record.start_s)
        case "recording":
            clips = tuple(AudioPart(blob=reader.blob(clip.blob, "wav"), name=name, start_s=clip.start_s) for clip in record.clips)
            return RecordingPart(name=name, clips=clips, notes=notes)
        case "document":
            return DocumentPart(name=name, pages=tuple(_page(page, reader) for page in record.pages), notes=notes)
        case "reply":
            return ReplyPart(token_ids=np.frombuffer(reader.blob(record.blob, "ids"), dtype="<u4"), name=name)
        case "written-reply":
            text = reader.blob(record.blob, "txt").decode()
            return WrittenReplyPart(text=text, reasoning=record.reasoning, tool_calls=record.tool_calls, name=name)
        case "tool-result":
            return ToolResultPart(text=reader.blob(record.blob, "txt").decode(), tool=record.tool, name=name)


def _image(record: _Image | None, reader: Reader) -> ImagePart:
    if record is None:
        raise ValueError("its picture is not named")
    data = reader.blob(record.blob, "png")
    return ImagePart(blob=data, name=record.name, notes=record.notes, width_px=record.width_px, height_px=record.height_px)


def _page(record: _Page, reader: Reader) -> Page:
    return Page(
        text=reader.blob(record.text, "txt").decode(),
        number=record.number,
        title=record.title,
        image=_image(record.image, reader) if record.image else None,
        pictures=tuple(_image(picture, reader) for picture in record.pictures),
    )
