"""Tables of a PDF page as Markdown, in the place where they stand.

Only pages that have ruled lines are looked at: pdfplumber, which finds the cells, is far slower than reading the text. A table is
put in place of its text where nothing else stands beside it; elsewhere (several columns of text) the page is left as it is. What
pdfplumber cannot read is left as text and noted.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from ..markdown_tables import markdown_table

RULES = 6
"""Lines and boxes a page needs for a table of at least two rows and columns."""
LOOKED_AT = 4_000
"""Drawn objects looked at per page: above that it is a drawing, not a table."""


class Tables:
    """The tables of one PDF. Opened by pdfplumber when the first page with rules is met; lives as long as its reader."""

    def __init__(self, data: bytes, password: str | None) -> None:
        self._data, self._password, self._pdf = data, password, None
        self.notes: list[str] = []

    def laid_out(self, page: Any, words: Any, number: int, plain: Callable[[str], str]) -> str | None:
        """The page's text with its tables as Markdown; None when it has none.

        Parameters
        ----------
        page, words : pypdfium2 page and text page
        number : int
            From 1.
        plain : callable
            Cleans text as PDFium gives it.
        """
        if not _has_rules(page):
            return None
        from pdfminer.pdfexceptions import PDFException
        from pdfplumber.utils.exceptions import PdfminerException

        try:
            return self._with_tables(page, words, number, plain)
        except (PDFException, PdfminerException, ValueError, KeyError, TypeError, IndexError, AttributeError) as problem:
            # pdfminer raises all of these on files that PDFium reads.
            self.notes.append(f"page {number}: tables are given as running text ({type(problem).__name__})")
            return None

    def _with_tables(self, page: Any, words: Any, number: int, plain: Callable[[str], str]) -> str | None:
        import pdfplumber

        if self._pdf is None:
            self._pdf = pdfplumber.open(io.BytesIO(self._data), password=self._password or "")
        other = self._pdf.pages[number - 1]
        tables = [table for table in other.find_tables() if len(table.rows) > 1 and max(len(row.cells) for row in table.rows) > 1]
        tables.sort(key=lambda table: table.bbox[1])
        top = float(other.height)
        # pdfplumber measures down from the top of the media box, PDFium up from the bottom of the page.
        width, height = page.get_size()
        if not tables or abs(height - top) > 1 or page.get_rotation():
            return None
        pieces: list[str] = []
        at = height
        for table in tables:
            left, upper, right, lower = table.bbox
            upper, lower = height - upper, height - lower
            beside = (words.get_text_bounded(0, lower, left, upper), words.get_text_bounded(right, lower, width, upper))
            if upper > at + 1 or any(plain(text) for text in beside):
                return None
            pieces.append(plain(words.get_text_bounded(0, upper, width, at)))
            pieces.append(markdown_table([[plain(cell or "") for cell in row] for row in table.extract()]))
            at = lower
        pieces.append(plain(words.get_text_bounded(0, 0, width, at)))
        other.close()
        return "\n\n".join(piece for piece in pieces if piece)


def _has_rules(page: Any) -> bool:
    from pypdfium2 import raw

    # The raw calls: the helper makes a Python object for every object of every page.
    total = raw.FPDFPage_CountObjects(page.raw)
    paths = (raw.FPDFPageObj_GetType(raw.FPDFPage_GetObject(page.raw, at)) == raw.FPDF_PAGEOBJ_PATH for at in range(total))
    return total >= RULES and RULES <= sum(paths) <= LOOKED_AT
