"""A bench's record as a page of Markdown, for the docs. Formats only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..markdown_tables import markdown_table
from .bench import number

if TYPE_CHECKING:
    from .bench import Record, Row

_MET = {True: "met", False: "**not met**", None: ""}


def page(record: Record) -> str:
    """The page, tables first, then what it ran on."""
    lines = [f"# Bench: {record.bench}", "", _intro(record), ""]
    # What many rows say alike is said once, by number.
    notes = {note: number for number, note in enumerate(dict.fromkeys(row.note for row in record.rows if row.note), start=1)}
    marks = {row: [f"[{notes[row.note]}]" if row.note else ""] for row in record.rows}
    plain = [row for row in record.rows if row.kind != "ratio"]
    ratios = [row for row in record.rows if row.kind == "ratio"]
    if plain:
        heads = ["what", "median", "min", "max", "aim", "", "note"]
        lines += [markdown_table([heads, *(_plain(row) + marks[row] for row in plain)]), ""]
    if ratios:
        heads = ["ratio", "of", "median", "95 % interval", "min", "max", "aim", "", "note"]
        lines += [markdown_table([heads, *(_ratio(row) + marks[row] for row in ratios)]), ""]
    lines += [f"- {text}" for text in record.remarks]
    lines += [f"- [{number}] {note}" for note, number in notes.items()]
    return "\n".join([*lines, "", _machine(record), ""])


def _intro(record: Record) -> str:
    words = (
        f"`inkling bench {record.bench}`, {record.began}, {record.took_s:g} s, seed {record.seed}. Times are the median of "
        f"{record.rounds} rounds unless a line says otherwise. Ratios are medians over rounds in which both sides ran in turns."
    )
    return f"{words} **Quick run on small inputs: not for quoting.**" if record.quick else words


def _plain(row: Row) -> list[str]:
    return [row.name, f"{number(row.median)} {row.unit}", number(row.smallest), number(row.largest), row.aim, _MET[row.met]]


def _ratio(row: Row) -> list[str]:
    assert row.low is not None
    assert row.high is not None
    interval = f"{number(row.low)} to {number(row.high)}"
    return [
        row.name, row.unit, number(row.median), interval, number(row.smallest), number(row.largest), row.aim, _MET[row.met]
    ]  # fmt: skip


def _machine(record: Record) -> str:
    on, memory = record.machine, record.machine.get("memory_bytes")
    options = ", ".join(f"{name} {value}" for name, value in record.options.items())
    shown = {
        "machine": f"{on['processor']}, {on['cores']} cores" + (f", {memory / 2**30:.0f} GiB" if memory else ""),
        "system": f"{on['system']}, Python {on['python']}",
        "threads": ", ".join(f"{name}={value}" for name, value in on.get("threads", {}).items()),
        "load before, after (1, 5, 15 min)": f"{record.load_before}, {record.load_after}" if record.load_before else "",
        "versions": ", ".join(f"{name} {value}" for name, value in record.versions.items()),
        "options": options,
    }
    return markdown_table([["run on", ""], *([name, value] for name, value in shown.items() if value)])
