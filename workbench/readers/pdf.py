"""PDF: the text of every page, and pages without text as images.

pypdfium2 reads and draws. A page whose text is empty (a scan, a full-page picture) becomes a page image; a page that is empty to
the eye too is marked blank. Images are drawn at 144 dpi, at most 2048 px on the long edge: above that a page costs tokens and
shows nothing more.
"""

from __future__ import annotations

from ..errors import SourceEncrypted
from ..parts import DocumentPart, ImagePart, Page
from .images import part_of
from .sources import Source

SCALE = 2.0
LONG_EDGE_PX = 2048
_PDFIUM_PASSWORD = 4  # FPDF_ERR_PASSWORD of PDFium's fpdfview.h

# PDFium resolves ligatures in most fonts; the rest, and its marks for hyphens at line ends, here.
_PLAIN = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\u0002": "-", "\ufffe": "-", "\0": None}
)


def read(source: Source, *, password: str | None = None) -> DocumentPart:
    """The document part of a PDF; see :meth:`workbench.Context.add_document`."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(source.data, password=password)
    except pypdfium2.PdfiumError as problem:
        if problem.err_code == _PDFIUM_PASSWORD:
            why = "the password is wrong" if password else "it is encrypted: give its password (password='…')"
            raise SourceEncrypted(f"{source.name}: {why}", path=source.path, name=source.name) from problem
        raise source.unreadable(f"not a readable PDF ({problem}): open it in a viewer and export it again") from problem
    try:
        pages = tuple(_page(document, index, source) for index in range(len(document)))
    finally:
        document.close()
    if not any(page.text or page.image for page in pages):
        raise source.unreadable(f"all {len(pages)} pages are blank" if pages else "a PDF without pages")
    return DocumentPart(name=source.name, pages=pages)


def _page(document, index: int, source: Source) -> Page:
    import pypdfium2

    number = index + 1
    try:
        page = document[index]
        text = page.get_textpage().get_text_bounded().translate(_PLAIN)
        text = "\n".join(line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")).strip()
        return Page(text=text, number=number) if text else Page(text="", number=number, image=_draw(page, number, source))
    except pypdfium2.PdfiumError as problem:
        raise source.unreadable(f"page {number} cannot be read ({problem}): open it in a viewer and export it again") from problem


def _draw(page, number: int, source: Source) -> ImagePart | None:
    scale = min(SCALE, LONG_EDGE_PX / max(page.get_size()))
    picture = page.render(scale=scale).to_pil().convert("RGB")
    blank = all(low == high for low, high in picture.getextrema())
    return None if blank else part_of(picture, f"{source.name}, page {number}")
