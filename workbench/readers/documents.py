"""Documents: which reader a file gets, and plain text.

Plain text is kept verbatim, line ends included: what the model reads is what the file says. PDF and office files have modules of
their own.
"""

from __future__ import annotations

import codecs

from ..errors import SourceUnknown
from ..parts import DocumentPart, Page
from .sources import Source, kind_of

OFFICE_SUFFIXES = frozenset({".docx", ".pptx", ".xlsx", ".html", ".htm", ".xhtml"})
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read(source: Source, *, password: str | None = None, encoding: str | None = None) -> DocumentPart:
    """The document part of `source`."""
    kind = kind_of(source)
    if kind != "document":
        raise SourceUnknown(
            f"{source.name}: this is {'an image' if kind == 'image' else 'a recording'}, not a document: use add_{kind} (--{kind})",
            path=source.path, name=source.name,
        )  # fmt: skip
    if source.suffix == ".pdf" or b"%PDF-" in source.data[:1024]:
        from . import pdf

        return pdf.read(source, password=password)
    if source.suffix in OFFICE_SUFFIXES:
        from . import office

        return office.read(source)
    return DocumentPart(name=source.name, pages=(Page(text=decode_text(source, encoding)),))


def decode_text(source: Source, encoding: str | None = None) -> str:
    """Text of a file: UTF-8, or what its byte order mark or the caller says.

    Raises
    ------
    SourceUnknown
        Binary content.
    SourceUnreadable
        Not in that encoding, or nothing but white space.
    """
    named = encoding or next((name for mark, name in _BOMS if source.data.startswith(mark)), None)
    if named is None and b"\0" in source.data:
        raise SourceUnknown(
            f"{source.name}: no reader for this kind of file (it is binary): documents are PDF, DOCX, PPTX, XLSX, HTML and text",
            path=source.path, name=source.name,
        )  # fmt: skip
    try:
        text = source.data.decode(named or "utf-8")
    except LookupError as problem:
        raise source.unreadable(f"no encoding is called {named!r}: for instance latin-1, cp1252, utf-16") from problem
    except UnicodeDecodeError as problem:
        raise source.unreadable(
            f"not {named or 'UTF-8'} text at byte {problem.start:,}: give its encoding (for instance encoding='latin-1') "
            "or convert it to UTF-8"
        ) from problem
    if not text.strip():
        raise source.unreadable("nothing but white space in it")
    return text
