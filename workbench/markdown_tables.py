"""Rows of cells as a Markdown table: for what the model reads, and for reports. Knows no file."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a pipe table whose head is the first row; short rows are filled up.

    Examples
    --------
    >>> print(markdown_table([["city", "berths"], ["Lisbon", "412"], ["a|b"]]))
    | city | berths |
    | --- | --- |
    | Lisbon | 412 |
    | a\\|b |  |
    """
    width = max((len(row) for row in rows), default=0)
    if not width:
        return ""
    filled = [[_cell(cell) for cell in row] + [""] * (width - len(row)) for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [filled[0], ["---"] * width, *filled[1:]])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
