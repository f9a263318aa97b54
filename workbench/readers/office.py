"""DOCX, PPTX, XLSX and HTML, as Markdown (tables stay tables). Slides count as pages.

markitdown converts. Pictures inside these files are not carried over; how many were left out is noted on the part.
"""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

from ..errors import SourceEncrypted
from ..parts import DocumentPart, Page
from .sources import Source

_SLIDE = re.compile(r"<!-- Slide number: (\d+) -->")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PICTURE = re.compile(r"^(word|ppt|xl)/media/.+\.(png|jpe?g|gif|bmp|tiff?|webp|emf|wmf|svg)$", re.IGNORECASE)


def read(source: Source) -> DocumentPart:
    """The document part of an office or HTML file."""
    notes: tuple[str, ...] = ()
    if not source.suffix.startswith((".htm", ".xhtm")):
        notes = _check_archive(source)
    text = _markdown(source).strip()
    if not text:
        raise source.unreadable("no text in it: export it as PDF to give its pages as images")
    return DocumentPart(name=source.name, pages=_pages(text, source), notes=notes)


def _check_archive(source: Source) -> tuple[str, ...]:
    # An encrypted office file is no zip archive but an OLE container.
    if source.data.startswith(_OLE):
        raise SourceEncrypted(
            f"{source.name}: it is encrypted, or an old binary office file: save it without a password as {source.suffix}",
            path=source.path, name=source.name,
        )  # fmt: skip
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
            pictures = sum(bool(_PICTURE.match(name)) for name in archive.namelist())
    except zipfile.BadZipFile as problem:
        raise source.unreadable(f"not a {source.suffix} file ({problem}): open it in its program and save it again") from problem
    if not pictures:
        return ()
    return (f"{pictures} picture{'' if pictures == 1 else 's'} in it not read: add them as images, or export it as PDF",)


def _markdown(source: Source) -> str:
    import markitdown

    options: dict[str, Any] = {"charset": "utf-8"} if source.suffix.startswith((".htm", ".xhtm")) else {}
    info = markitdown.StreamInfo(extension=source.suffix if source.suffix != ".xhtml" else ".html", **options)
    try:
        return markitdown.MarkItDown(enable_plugins=False).convert_stream(io.BytesIO(source.data), stream_info=info).text_content
    except markitdown.MarkItDownException as problem:
        reason = str(problem).strip().splitlines()[-1]
        raise source.unreadable(
            f"not a readable {source.suffix} file ({reason}): open it in its program and save it again"
        ) from problem


def _pages(text: str, source: Source) -> tuple[Page, ...]:
    pieces = _SLIDE.split(text)
    if source.suffix != ".pptx" or len(pieces) < 3:
        return (Page(text=text),)
    # Split gives: before the first mark, then number and text in turn.
    return tuple(Page(text=body.strip(), number=int(number)) for number, body in zip(pieces[1::2], pieces[2::2], strict=True))
