"""Documents: which reader a file gets, and plain text.

Plain text (Markdown, CSV, JSON, source code) is kept verbatim, line ends included: what the model reads is what the file says. An
encoding is never guessed: it is UTF-8, or what the file or the caller says. PDF, office files, notebooks and multi-page images have
modules of their own.
"""

from __future__ import annotations

import codecs
import io
import tokenize

from ..errors import SourceUnknown
from ..parts import DocumentPart, Page
from .options import Options
from .sources import Source, kind_of, may_have_frames

OFFICE_SUFFIXES = frozenset({".docx", ".pptx", ".xlsx", ".xlsm", ".html", ".htm", ".xhtml"})
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read(source: Source, options: Options) -> DocumentPart:
    """The document part of `source`."""
    kind = kind_of(source)
    if kind == "image" and may_have_frames(source.data):
        from . import images

        if (frames := images.frames(source, options)) is not None:
            return frames
    if kind != "document":
        raise SourceUnknown(
            f"{source.name}: this is {'an image' if kind == 'image' else 'a recording'}, not a document: use add_{kind} (--{kind})",
            path=source.path, name=source.name,
        )  # fmt: skip
    if source.suffix == ".pdf" or b"%PDF-" in source.data[:1024]:
        from . import pdf

        options.refuse(source, "sheets", "cells", "encoding")
        return pdf.read(source, options)
    options.refuse(source, "password", "show")
    if source.suffix in OFFICE_SUFFIXES:
        from . import office

        return office.read(source, options)
    if source.suffix == ".ipynb":
        from . import notebooks

        return notebooks.read(source, options)
    options.refuse(source, "pages", "sheets", "cells")
    return DocumentPart(name=source.name, pages=(Page(text=decode_text(source, options.encoding)),))


def html_text(source: Source, encoding: str | None = None) -> str:
    """Text of a web page: in the caller's encoding, or the one its byte order mark or its own head names, or UTF-8."""
    from bs4.dammit import EncodingDetector

    return decode_text(source, encoding or EncodingDetector.find_declared_encoding(source.data, is_html=True))


def decode_text(source: Source, encoding: str | None = None) -> str:
    """Text of a file: UTF-8, or what its byte order mark or the caller says.

    Raises
    ------
    SourceUnknown
        Binary content.
    SourceUnreadable
        Not in that encoding, or nothing but white space.
    """
    named = encoding or next((name for mark, name in _BOMS if source.data.startswith(mark)), None) or _declared(source)
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


def _declared(source: Source) -> str | None:
    """What a Python source says of itself (PEP 263)."""
    if source.suffix != ".py":
        return None
    try:
        return tokenize.detect_encoding(io.BytesIO(source.data).readline)[0]
    except SyntaxError:
        return None
