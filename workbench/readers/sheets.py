"""XLSX: every sheet as a Markdown table, whole or a range of it, with its pictures.

openpyxl reads the values that the program stored. A formula without a stored value (a file written by a program that does not
calculate) is given as the formula, and noted. Dates are ISO dates. Hidden sheets are read, and noted.
"""

from __future__ import annotations

import datetime
import io
from typing import Any

from ..errors import SourceError
from ..markdown_tables import markdown_table
from ..parts import DocumentPart, Page
from .options import Options
from .pictures import Pictures
from .sources import Source


def read(source: Source, options: Options) -> DocumentPart:
    """The document part of a workbook."""
    book, formulas = _open(source, values=True), _open(source, values=False) if _has_formulas(source) else None
    names = [sheet.title for sheet in book.worksheets]
    missing = [name for name in options.sheets or () if name not in names]
    if missing:
        raise SourceError(
            f"{source.name}: no sheet {missing[0]!r}: it has {', '.join(names)}", path=source.path, name=source.name, sheets=names
        )
    notes: list[str] = []
    pages: list[Page] = []
    pictures = Pictures(source, options)
    chosen = options.chosen(len(names), source, "sheet")
    for number in chosen:
        sheet = book.worksheets[number - 1]
        if options.sheets is not None and sheet.title not in options.sheets:
            continue
        options.tell(f"{source.name}, sheet {sheet.title}", len(pages), len(chosen))
        rows, unknown = _rows(sheet, formulas.worksheets[number - 1] if formulas else None, options, source)
        if unknown:
            notes.append(f"sheet {sheet.title}: {unknown} formulas without a stored value, given as formulas")
        if sheet.sheet_state != "visible":
            notes.append(f"sheet {sheet.title} is hidden in its program")
        text = markdown_table(rows)
        found = pictures.take(image.ref.getvalue() for image in _images(sheet))
        marks = "\n".join(f"[image {pictures.number(image)}]" for image in found)
        title = f"sheet {sheet.title}" + (f", cells {options.cells}" if options.cells else "")
        pages.append(Page(text="\n\n".join(filter(None, (text, marks))), number=number, title=title, pictures=tuple(found)))
    if not any(page.text for page in pages):
        raise source.unreadable("no cells with anything in them")
    return DocumentPart(name=source.name, pages=tuple(pages), notes=(*notes, *pictures.notes))


def _open(source: Source, *, values: bool) -> Any:
    import openpyxl
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        return openpyxl.load_workbook(io.BytesIO(source.data), data_only=values)
    except (InvalidFileException, KeyError, ValueError, TypeError, OSError, AttributeError, SyntaxError, EOFError) as problem:
        # openpyxl raises all of these for damaged files.
        raise source.unreadable(f"not a readable .xlsx file ({problem}): open it in its program and save it again") from problem


def _has_formulas(source: Source) -> bool:
    import zipfile

    with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
        sheets = [name for name in archive.namelist() if name.startswith("xl/worksheets/") and name.endswith(".xml")]
        return any(b"<f" in archive.read(name) for name in sheets)


def _rows(sheet: Any, formulas: Any, options: Options, source: Source) -> tuple[list[list[str]], int]:
    """Cells as text, empty rows and columns at the end left out, and how many formulas have no value."""
    try:
        cells = sheet[options.cells] if options.cells else list(sheet.iter_rows())
        cells = ((cells,),) if not isinstance(cells, tuple | list) else cells
    except (ValueError, TypeError) as problem:
        raise SourceError(f"{source.name}: cells are given as A1:D20, not {options.cells!r}") from problem
    rows: list[list[str]] = []
    unknown = 0
    for row in cells:
        shown: list[str] = []
        for cell in row if isinstance(row, tuple | list) else (row,):
            value = cell.value
            if value is None and formulas is not None and (formula := formulas[cell.coordinate].value) is not None:
                value, unknown = getattr(formula, "text", formula), unknown + 1
            shown.append(_text(value))
        rows.append(shown)
    while rows and not any(rows[-1]):
        rows.pop()
    width = max((index + 1 for row in rows for index, text in enumerate(row) if text), default=0)
    return [row[:width] for row in rows], unknown


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).upper()
        case datetime.datetime():
            return value.isoformat(" ") if value.time() != datetime.time() else value.date().isoformat()
        case float():
            return f"{value:.15g}"
        case _:
            return str(value)


def _images(sheet: Any) -> list[Any]:
    # openpyxl's own writer reads this list; there is no public one.
    return list(getattr(sheet, "_images", ()))
