"""PDF: the text of every page, its tables, and pages as images.

pypdfium2 reads and draws. ``auto`` gives text, and an image of a page whose text is empty (a scan, a full-page picture) or is a few
words beside a picture that fills the page; a page that is empty to the eye too is marked blank. Images are drawn at 144 dpi, at
most 2048 px on the long edge: above that a page costs tokens and shows nothing more. Tables with ruled lines are laid out by
pdfplumber (:mod:`workbench.readers.pdf_tables`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import SourceEncrypted
from ..parts import DocumentPart, ImagePart, Page
from .images import part_of
from .options import Options
from .sources import Source

if TYPE_CHECKING:
    from .pdf_tables import Tables

SCALE = 2.0
LONG_EDGE_PX = 2048
SCAN_COVER = 0.8
"""Share of a page that one picture must cover for a page of a few words to count as a scan."""
SCAN_CHARACTERS = 100
_PDFIUM_PASSWORD = 4  # FPDF_ERR_PASSWORD of PDFium's fpdfview.h

# PDFium resolves ligatures in most fonts; the rest, and its marks for hyphens at line ends, here.
_PLAIN = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\u0002": "-", "\ufffe": "-", "\0": None}
)


def read(source: Source, options: Options) -> DocumentPart:
    """The document part of a PDF; see :meth:`workbench.Context.add_document`."""
    import pypdfium2

    from .pdf_tables import Tables

    try:
        document = pypdfium2.PdfDocument(source.data, password=options.password)
    except pypdfium2.PdfiumError as problem:
        if problem.err_code == _PDFIUM_PASSWORD:
            why = "the password is wrong" if options.password else "it is encrypted: give its password (password='…')"
            raise SourceEncrypted(f"{source.name}: {why}", path=source.path, name=source.name) from problem
        raise source.unreadable(f"not a readable PDF ({problem}): open it in a viewer and export it again") from problem
    try:
        numbers = options.chosen(len(document), source)
        tables = Tables(source.data, options.password)
        pages: list[Page] = []
        for done, number in enumerate(numbers):
            options.tell(f"{source.name}, page {number}", done, len(numbers))
            pages.append(_page(document, number, source, options, tables))
        notes = _notes(document, tables)
    finally:
        document.close()
    if not any(page.text or page.image for page in pages):
        raise source.unreadable(f"all {len(pages)} pages are blank" if pages else "a PDF without pages")
    options.tell(source.name, len(numbers), len(numbers))
    return DocumentPart(name=source.name, pages=tuple(pages), notes=notes)


def plain(text: str) -> str:
    """Text as PDFium gives it, with plain letters and line ends."""
    text = text.translate(_PLAIN).replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def _page(document, number: int, source: Source, options: Options, tables: Tables) -> Page:
    import pypdfium2

    try:
        page = document[number - 1]
        text = ""
        if options.show != "image":
            words = page.get_textpage()
            text = tables.laid_out(page, words, number, plain) or plain(words.get_text_bounded())
        drawn = options.show in ("image", "both") or (options.show == "auto" and (not text or _is_scan(page, text)))
        return Page(text=text, number=number, image=_draw(page, number, source) if drawn else None)
    except pypdfium2.PdfiumError as problem:
        raise source.unreadable(f"page {number} cannot be read ({problem}): open it in a viewer and export it again") from problem


def _is_scan(page, text: str) -> bool:
    """Whether a picture fills a page of a few words: a scan with a stamp or a running head."""
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE

    if len(text) >= SCAN_CHARACTERS:
        return False
    width, height = page.get_size()
    for item in page.get_objects(filter=[FPDF_PAGEOBJ_IMAGE], max_depth=2):
        left, bottom, right, top = item.get_bounds()
        across, up = min(right, width) - max(left, 0), min(top, height) - max(bottom, 0)
        if across > 0 and up > 0 and across * up >= SCAN_COVER * width * height:
            return True
    return False


def _draw(page, number: int, source: Source) -> ImagePart | None:
    scale = min(SCALE, LONG_EDGE_PX / max(page.get_size()))
    picture = page.render(scale=scale).to_pil().convert("RGB")
    blank = all(low == high for low, high in picture.getextrema())
    return None if blank else part_of(picture, f"{source.name}, page {number}")


def _notes(document, tables: Tables) -> tuple[str, ...]:
    found = list(tables.notes)
    if document.get_formtype():
        found.append("it has form fields, whose contents are not part of the text: show='both' shows them")
    return tuple(found)
