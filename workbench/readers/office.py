"""DOCX, PPTX and HTML, as Markdown (tables stay tables), with the pictures in them. Slides count as pages.

markitdown converts. A picture becomes an image behind the document's text, which says ``[image 3]`` where the third one stands.
Nothing is fetched: pictures that a web page only links to are noted.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
import zipfile
from typing import Any

from ..errors import SourceEncrypted
from ..parts import DocumentPart, ImagePart, Page
from .options import Options
from .pictures import Pictures
from .sources import Source

_SLIDE = re.compile(r"<!-- Slide number: (\d+) -->")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]*)[^)]*\)")
_DATA = re.compile(r"data:image/[\w.+-]+;base64,", re.IGNORECASE)


def is_html(source: Source) -> bool:
    """Whether it is a web page."""
    return source.suffix in (".html", ".htm", ".xhtml")


def read(source: Source, options: Options) -> DocumentPart:
    """The document part of an office or HTML file."""
    if not is_html(source):
        check_archive(source)
    if source.suffix == ".xlsx":
        from . import sheets

        return sheets.read(source, options)
    options.tell(source.name, 0, 1)
    text = _markdown(source, options).strip()
    pictures = Pictures(source, options)
    pages = _pages(text, source, options, pictures)
    if not any(page.text or page.pictures for page in pages):
        raise source.unreadable("no text in it: export it as PDF to give its pages as images")
    options.tell(source.name, 1, 1)
    return DocumentPart(name=source.name, pages=pages, notes=pictures.notes)


def check_archive(source: Source) -> None:
    """Refuse what is no office file, or is protected.

    Raises
    ------
    SourceEncrypted, SourceUnreadable
    """
    # An encrypted office file is no zip archive but an OLE container.
    if source.data.startswith(_OLE):
        raise SourceEncrypted(
            f"{source.name}: it is encrypted, or an old binary office file: save it without a password as {source.suffix}",
            path=source.path, name=source.name,
        )  # fmt: skip
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
            archive.namelist()
    except zipfile.BadZipFile as problem:
        raise source.unreadable(f"not a {source.suffix} file ({problem}): open it in its program and save it again") from problem


def _markdown(source: Source, options: Options) -> str:
    import markitdown

    given: dict[str, Any] = {}
    data = source.data
    if is_html(source):
        from .documents import html_text

        # markitdown guesses an encoding; the page's own word for it is better.
        data, given = html_text(source, options.encoding).encode(), {"charset": "utf-8"}
    info = markitdown.StreamInfo(extension=source.suffix if source.suffix != ".xhtml" else ".html", **given)
    try:
        converter = markitdown.MarkItDown(enable_plugins=False)
        return converter.convert_stream(io.BytesIO(data), stream_info=info, keep_data_uris=True).text_content
    except markitdown.MarkItDownException as problem:
        reason = str(problem).strip().splitlines()[-1]
        raise source.unreadable(
            f"not a readable {source.suffix} file ({reason}): open it in its program and save it again"
        ) from problem


def _pages(text: str, source: Source, options: Options, pictures: Pictures) -> tuple[Page, ...]:
    pieces = _SLIDE.split(text)
    if source.suffix != ".pptx" or len(pieces) < 3:
        options.refuse(source, "pages", "sheets", "cells")
        body, found = _with_pictures(text, pictures)
        return (Page(text=body.strip(), pictures=found),)
    options.refuse(source, "sheets", "cells")
    # Split gives: before the first mark, then number and text in turn.
    slides = [(int(number), body) for number, body in zip(pieces[1::2], pieces[2::2], strict=True)]
    wanted = set(options.chosen(len(slides), source, "slide"))
    pages: list[Page] = []
    for number, body in slides:
        if number in wanted:
            shown, found = _with_pictures(body, pictures)
            pages.append(Page(text=shown.strip(), number=number, title=f"slide {number}", pictures=found))
    return tuple(pages)


def _with_pictures(text: str, pictures: Pictures) -> tuple[str, tuple[ImagePart, ...]]:
    """The text with ``[image 3: alternative text]`` for each picture, and the pictures."""
    found: list[ImagePart] = []

    def mark(match: re.Match[str]) -> str:
        words = " ".join(match[1].split())
        head = _DATA.match(match[2])
        if head is None:
            pictures.missing()
            return f"[picture: {words}]" if words else "[picture]"
        try:
            image = pictures.one(base64.b64decode(match[2][head.end() :]))
        except binascii.Error:
            pictures.missing()
            image = None
        if image is None:
            return f"[picture: {words}]" if words else "[picture]"
        found.append(image)
        return f"[image {pictures.number(image)}{': ' + words if words else ''}]"

    return _PICTURE.sub(mark, text), tuple(found)
