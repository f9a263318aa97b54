"""A budget as a table: drawn by rich in a terminal, as plain HTML in a notebook (no colours of its own, so any theme does)."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from .budgets import Budget

Line = tuple[str, str, str, str]
MOST_ROWS = 60
"""With more parts than this, the table shows the tree's first branches instead of every part."""


def lines(budget: Budget) -> list[Line]:
    """The table's lines: what, kind, detail, tokens."""
    if len(budget.rows) <= MOST_ROWS:
        found = [(row.label, row.modality, row.detail, f"{row.tokens:,}") for row in budget.rows]
    else:
        found = [
            (branch.label, branch.kind, f"{len(branch.children):,} inside" if branch.children else "", f"{branch.tokens:,}")
            for branch in budget.tree.children
        ]
    found += [("tools", "", "", f"{budget.tools_tokens:,}")] if budget.tools_tokens else []
    found += [("effort", "", "", f"{budget.effort_tokens:,}"), ("framing", "", "", f"{budget.framing_tokens:,}")]
    found += [("prompt", "", "", f"{budget.prompt_tokens:,}")]
    if budget.cached_tokens is not None:
        found += [
            ("cached there", "", "", f"{budget.cached_tokens:,}"),
            ("to compute", "", _pace(budget), f"{budget.compute_tokens:,}"),
        ]
    found += [("reserved for the answer", "", "", f"{budget.reserved_tokens:,}")]
    found += [("limit", "", budget.limit_of, f"{budget.limit_tokens:,}"), ("left", "", "", f"{budget.left_tokens:,}")]
    return found


def _pace(budget: Budget) -> str:
    return "" if budget.compute_s is None else f"about {budget.compute_s:,.1f} s"


def rich_table(budget: Budget) -> Table:
    """For a terminal."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, caption=escape("\n".join(budget.notes)) or None, caption_justify="left")
    for name in ("part", "kind", "size"):
        table.add_column(name, overflow="fold")
    table.add_column("tokens", justify="right")
    for line in lines(budget):
        if line[0] == "prompt":
            table.add_section()
        table.add_row(*map(escape, line), style="bold" if line[0] in ("prompt", "left") else None)
    return table


def html_table(budget: Budget) -> str:
    """For a notebook."""
    strong, left, right = "font-weight:600;border-top:1px solid currentColor", "text-align:left", "text-align:right"
    rows = [_html_row(line, strong if line[0] in ("prompt", "left") else "") for line in lines(budget)]
    heads = "".join(f'<th scope="col" style="{left}">{name}</th>' for name in ("part", "kind", "size"))
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in budget.notes)
    return (
        '<table style="background:none;color:inherit;border-collapse:collapse">'
        f'<caption style="{left}">Budget in tokens</caption>'
        f'<thead><tr>{heads}<th scope="col" style="{right}">tokens</th></tr></thead><tbody>{"".join(rows)}</tbody></table>'
        + (f"<ul>{notes}</ul>" if notes else "")
    )


def _html_row(line: Line, style: str) -> str:
    name, kind, size, count = (html.escape(cell) for cell in line)
    return (
        f'<tr style="background:none;{style}"><th scope="row" style="text-align:left;font-weight:inherit">{name}</th>'
        f'<td style="text-align:left">{kind}</td><td style="text-align:left">{size}</td>'
        f'<td style="text-align:right;font-variant-numeric:tabular-nums">{count}</td></tr>'
    )
