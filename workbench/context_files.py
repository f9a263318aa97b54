"""Saved contexts: one zip file with everything in it.

``context.json`` names the entries; texts, pictures, recordings and reply ids lie once each under ``blobs/``, by hash. Written
next to its target and moved there, so a file is whole or not there. Every blob's hash is checked on loading; what does not match is
named, and :func:`load` can open the rest. The same context gives the same bytes.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.errors import InklingError

from .errors import ContextFileError
from .media import content_id
from .messages import Role
from .parts import (
    AudioPart,
    DocumentPart,
    ImagePart,
    Page,
    Part,
    ReplyPart,
    TextPart,
    ToolResultPart,
    WrittenReplyPart,
)  # fmt: skip

if TYPE_CHECKING:
    from .contexts import Context

VERSION = 1
_FORMAT = "inkling-context"
_Blob = Field(pattern=r"^sha256:[0-9a-f]{64}$")


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Image(_Record):
    blob: str = _Blob
    width_px: int = Field(ge=1)
    height_px: int = Field(ge=1)
    name: str
    notes: tuple[str, ...] = ()


class _Page(_Record):
    text: str = _Blob
    number: int | None = None
    image: _Image | None = None


class _Entry(_Record):
    role: Role
    kind: Literal["text", "document", "image", "audio", "reply", "written-reply", "tool-result"]
    id: str = _Blob
    name: str
    notes: tuple[str, ...] = ()
    blob: str | None = None
    image: _Image | None = None
    pages: tuple[_Page, ...] = ()
    reasoning: str = ""
    tool_calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    tool: str = ""


class _File(_Record):
    format: Literal["inkling-context"]
    version: int
    system: str | None
    effort: float
    tools: list[dict[str, Any]]
    entries: list[_Entry]


def save(context: Context, path: Path) -> Path:
    """Write `context` to `path`, replacing it only when everything is written."""
    blobs: dict[str, tuple[str, bytes]] = {}
    entries = [_entry(role, part, blobs) for role, part in context.entries]
    manifest = _File(
        format=_FORMAT, version=VERSION, system=context.system, effort=context.effort, tools=list(context.tools), entries=entries
    )  # fmt: skip
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as out:
            with zipfile.ZipFile(out, "w") as archive:
                _put(archive, "context.json", manifest.model_dump_json(indent=1).encode(), compress=True)
                for blob, (suffix, data) in blobs.items():
                    _put(archive, _member(blob, suffix), data, compress=suffix == "txt")
            out.flush()
            os.fsync(out.fileno())
        os.replace(partial, path)
    except OSError as problem:
        raise ContextFileError(f"{path}: cannot be written ({problem.strerror or problem})", path=str(path)) from problem
    finally:
        partial.unlink(missing_ok=True)
    return path


def _put(archive: zipfile.ZipFile, name: str, data: bytes, *, compress: bool) -> None:
    # A fixed date: the same context gives the same file.
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    info.external_attr = 0o644 << 16
    archive.writestr(info, data)


def _member(blob: str, suffix: str) -> str:
    return f"blobs/{blob.removeprefix('sha256:')}.{suffix}"


def _entry(role: Role, part: Part, blobs: dict[str, tuple[str, bytes]]) -> _Entry:
    def keep(suffix: str, data: bytes) -> str:
        blob = content_id(data)
        blobs[blob] = (suffix, data)
        return blob

    def image(part: ImagePart) -> _Image:
        return _Image(
            blob=keep("png", part.blob), width_px=part.width_px, height_px=part.height_px, name=part.name, notes=part.notes
        )  # fmt: skip

    common: dict[str, Any] = {"role": role, "id": part.id, "name": part.name}
    match part:
        case TextPart():
            return _Entry(kind="text", blob=keep("txt", part.text.encode()), **common)
        case ImagePart():
            return _Entry(kind="image", image=image(part), **common)
        case AudioPart():
            return _Entry(kind="audio", blob=keep("wav", part.blob), notes=part.notes, **common)
        case DocumentPart():
            pages = tuple(
                _Page(text=keep("txt", page.text.encode()), number=page.number, image=image(page.image) if page.image else None)
                for page in part.pages
            )
            return _Entry(kind="document", pages=pages, notes=part.notes, **common)
        case ReplyPart():
            return _Entry(kind="reply", blob=keep("ids", part.token_ids.astype("<u4").tobytes()), **common)
        case WrittenReplyPart():
            blob = keep("txt", part.text.encode())
            return _Entry(kind="written-reply", blob=blob, reasoning=part.reasoning, tool_calls=part.tool_calls, **common)
        case ToolResultPart():
            return _Entry(kind="tool-result", blob=keep("txt", part.text.encode()), tool=part.tool, **common)


def load(path: Path, *, salvage: bool = False) -> Context:
    """Open a saved context; see :meth:`workbench.Context.load`."""
    from .contexts import Context

    try:
        data = path.read_bytes()
    except OSError as problem:
        raise ContextFileError(f"{path}: cannot be read ({problem.strerror or problem})", path=str(path)) from problem
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        manifest = _manifest(archive, path)
    except _DAMAGE as problem:
        raise ContextFileError(
            f"{path}: not a saved context, or damaged beyond its list of contents ({problem}): nothing can be opened",
            path=str(path),
        ) from problem
    losses: list[str] = []
    with archive:
        context = Context(manifest.system, manifest.effort, manifest.tools)
        for index, entry in enumerate(manifest.entries):
            try:
                context.add(_part(entry, archive), role=entry.role)
            except (*_DAMAGE, InklingError, ValidationError) as problem:
                losses.append(f"entry {index} ({entry.kind} {entry.name!r}): {problem}")
    if losses and not salvage:
        raise ContextFileError(
            f"{path}: damaged; lost: {'; '.join(losses)}. Context.load(path, salvage=True) opens the other "
            f"{len(manifest.entries) - len(losses)} of {len(manifest.entries)} entries",
            path=str(path), losses=losses,
        )  # fmt: skip
    context.losses = tuple(losses)
    return context


_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, NotImplementedError, RuntimeError, OSError)
"""What zipfile and our own hash check raise for damaged bytes."""


def _manifest(archive: zipfile.ZipFile, path: Path) -> _File:
    raw = json.loads(archive.read("context.json"))
    version = raw.get("version") if isinstance(raw, dict) and raw.get("format") == _FORMAT else None
    if isinstance(version, int) and version > VERSION:
        raise ContextFileError(
            f"{path}: written by a newer version (format {version}, this one reads up to {VERSION}): update inkling-workbench",
            path=str(path), version=version,
        )  # fmt: skip
    return _File.model_validate(raw)


def _part(entry: _Entry, archive: zipfile.ZipFile) -> Part:
    def blob(name: str | None, suffix: str) -> bytes:
        if name is None:
            raise ValueError("its content is not named")
        data = archive.read(_member(name, suffix))
        if content_id(data) != name:
            raise ValueError(f"its bytes do not match {name[:19]}…")
        return data

    def image(record: _Image | None) -> ImagePart:
        if record is None:
            raise ValueError("its picture is not named")
        data = blob(record.blob, "png")
        size = {"width_px": record.width_px, "height_px": record.height_px}
        return ImagePart(blob=data, name=record.name, notes=record.notes, **size)

    part: Part
    match entry.kind:
        case "text":
            part = TextPart(text=blob(entry.blob, "txt").decode(), name=entry.name)
        case "image":
            part = image(entry.image)
        case "audio":
            part = AudioPart(blob=blob(entry.blob, "wav"), name=entry.name, notes=entry.notes)
        case "document":
            pages = tuple(
                Page(text=blob(page.text, "txt").decode(), number=page.number, image=image(page.image) if page.image else None)
                for page in entry.pages
            )
            part = DocumentPart(name=entry.name, pages=pages, notes=entry.notes)
        case "reply":
            part = ReplyPart(token_ids=np.frombuffer(blob(entry.blob, "ids"), dtype="<u4"), name=entry.name)
        case "written-reply":
            text = blob(entry.blob, "txt").decode()
            part = WrittenReplyPart(text=text, reasoning=entry.reasoning, tool_calls=entry.tool_calls, name=entry.name)
        case "tool-result":
            part = ToolResultPart(text=blob(entry.blob, "txt").decode(), tool=entry.tool, name=entry.name)
    if part.id != entry.id:
        raise ValueError(f"its content does not match {entry.id[:19]}…")
    return part
