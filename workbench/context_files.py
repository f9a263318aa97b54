"""Saved contexts: one file with everything in it.

``context.json`` names the entries; texts, pictures, recordings and reply ids lie once each under ``blobs/``, by hash
(:mod:`workbench.archives`). What does not match its hash is named, and :func:`load` can open the rest.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from engine.errors import InklingError

from .archives import DAMAGE, Reader, Writer
from .errors import ContextFileError
from .part_records import EntryRecord, Record, entry_from, record_of

if TYPE_CHECKING:
    from .contexts import Context
    from .entries import Entry

VERSION = 2
"""1 named texts and documents by another hash, and had neither pins nor recordings."""
FORMAT = "inkling-context"
_MANIFEST = "context.json"


class ContextRecord(Record):
    """A context, its entries by record."""

    system: str | None
    effort: float
    tools: list[dict[str, Any]]
    entries: list[EntryRecord]


class _File(ContextRecord):
    format: Literal["inkling-context"]
    version: int


def save(context: Context, path: Path) -> Path:
    """Write `context` to `path`, replacing it only when everything is written."""
    writer = Writer()
    values = context_record(context, writer).model_dump()
    return writer.write(path, _MANIFEST, _File(format=FORMAT, version=VERSION, **values).model_dump_json(indent=1))


def context_record(context: Context, writer: Writer) -> ContextRecord:
    """The record of a context; bytes go to `writer`."""
    entries = [record_of(entry, writer) for entry in context.items]
    return ContextRecord(system=context.system, effort=context.effort, tools=list(context.tools), entries=entries)


def load(path: Path, *, salvage: bool = False) -> Context:
    """Open a saved context; see :meth:`workbench.Context.load`."""
    reader = Reader(path, _MANIFEST, FORMAT, VERSION)
    try:
        found = _File.model_validate(reader.manifest)
    except ValidationError as problem:
        raise ContextFileError(
            f"{path}: not a saved context, or damaged beyond its list of contents ({problem.errors()[0]['msg']}): "
            "nothing can be opened", path=str(path),
        ) from problem  # fmt: skip
    context, losses = context_from(found, reader, named=found.version > 1)
    if losses and not salvage:
        raise ContextFileError(
            f"{path}: damaged; lost: {'; '.join(losses)}. Context.load(path, salvage=True) opens the other "
            f"{len(found.entries) - len(losses)} of {len(found.entries)} entries",
            path=str(path), losses=losses,
        )  # fmt: skip
    context.losses = tuple(losses)
    return context


def context_from(found: ContextRecord, reader: Reader, *, named: bool = True) -> tuple[Context, list[str]]:
    """The context of a record, and what of it is lost; `named` compares parts with their own hashes (bytes always are)."""
    from .contexts import Context

    entries: list[Entry] = []
    losses: list[str] = []
    for index, record in enumerate(found.entries):
        try:
            entries.append(entry_from(record, reader, named=named))
        except (*DAMAGE, InklingError) as problem:
            losses.append(f"entry {index} ({record.kind} {record.name!r}): {problem}")
    return Context.of(system=found.system, effort=found.effort, tools=found.tools, entries=entries), losses
