"""Budget: what a context costs, exactly, part by part, against an engine's limit.

Counted from the rendered ids themselves, so it equals the engine's ``usage.prompt_tokens``. Immutable; a changed context has
another budget. Drawn with rich in a terminal and as a plain table in a notebook (no colours of its own, so any theme does).
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from engine.errors import ContextTooLong
from engine.protocol import Limits, Rendered, TextPlace

from .parts import AudioPart, DocumentPart, ImagePart, Part

if TYPE_CHECKING:
    from rich.table import Table

    from .rendering import Layout, Section

LARGE_IMAGE_TOKENS = 5_000
RECALL_MARK_TOKENS = 512 * 1024
RECALL_NOTE = (
    "beyond 512K tokens published retrieval drops: of hidden facts Inkling finds 95.7 % at 294K to 513K, 81.4 % at 586K to 805K, "
    "70.9 % at 878K (vLLM, NVFP4)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRow:
    """Tokens of one part in one modality (a document with page images has two rows).

    Attributes
    ----------
    label : str
        What a reader calls it.
    modality : {"text", "image", "audio"}
    part : str or None
        Id of the part; None for system text.
    detail : str
        Size in the source's own terms: pages, pixels and patch grid, seconds.
    """

    label: str
    modality: str
    tokens: int
    part: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Exact token counts of a context.

    Attributes
    ----------
    rows : tuple of BudgetRow
        In the order of the context.
    prompt_tokens : int
        The whole prompt: rows, `effort_tokens`, `tools_tokens` and `framing_tokens` together.
    reserved_tokens : int
        Kept free for the answer (`max_tokens`).
    limit_tokens : int
        Most that prompt and answer may have together.
    limit_of : str
        Whose limit and image rule it is: a model's name, or ``the model's default``.
    notes : tuple of str
        What a reader should know before sending.
    """

    rows: tuple[BudgetRow, ...]
    prompt_tokens: int
    framing_tokens: int
    effort_tokens: int
    tools_tokens: int
    reserved_tokens: int
    limit_tokens: int
    limit_of: str
    notes: tuple[str, ...] = ()

    @property
    def left_tokens(self) -> int:
        """Tokens still free; negative when the context is too long."""
        return self.limit_tokens - self.prompt_tokens - self.reserved_tokens

    def by_modality(self) -> dict[str, int]:
        """Tokens per modality; everything that is no part counts as ``framing``."""
        counts = {"text": 0, "image": 0, "audio": 0, "framing": self.framing_tokens + self.effort_tokens + self.tools_tokens}
        for row in self.rows:
            counts[row.modality] += row.tokens
        return counts

    def check(self) -> None:
        """Raise :class:`ContextTooLong` unless prompt and reserved answer fit."""
        self.check_below(self.limit_tokens, whose=f"the limit of {self.limit_of}")

    def check_below(self, limit_tokens: int, *, whose: str = "the token budget") -> None:
        """Raise :class:`ContextTooLong`, naming the heaviest parts, unless prompt and reserved answer fit `limit_tokens`."""
        needed = self.prompt_tokens + self.reserved_tokens
        if needed > limit_tokens:
            heavy = sorted(self.rows, key=lambda row: row.tokens, reverse=True)[:3]
            named = ", ".join(f"{row.label} ({row.tokens:,})" for row in heavy)
            raise ContextTooLong(
                f"{self.prompt_tokens:,} prompt tokens and {self.reserved_tokens:,} reserved for the answer exceed {whose}, "
                f"{limit_tokens:,}, by {needed - limit_tokens:,}: remove or shorten something; heaviest: {named}",
                prompt_tokens=self.prompt_tokens, reserved_tokens=self.reserved_tokens, limit_tokens=limit_tokens,
                heaviest=[asdict(row) for row in heavy],
            )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """All numbers as JSON values."""
        return asdict(self) | {"left_tokens": self.left_tokens, "by_modality": self.by_modality()}

    def lines(self) -> list[tuple[str, str, str, str]]:
        """The table's lines: what, kind, detail, tokens."""
        found = [(row.label, row.modality, row.detail, f"{row.tokens:,}") for row in self.rows]
        found += [("tools", "", "", f"{self.tools_tokens:,}")] if self.tools_tokens else []
        found += [("effort", "", "", f"{self.effort_tokens:,}"), ("framing", "", "", f"{self.framing_tokens:,}")]
        found += [("prompt", "", "", f"{self.prompt_tokens:,}"), ("reserved for the answer", "", "", f"{self.reserved_tokens:,}")]
        found += [("limit", "", self.limit_of, f"{self.limit_tokens:,}"), ("left", "", "", f"{self.left_tokens:,}")]
        return found

    def __rich__(self) -> Table:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, caption="\n".join(self.notes) or None, caption_justify="left")
        for name in ("part", "kind", "size"):
            table.add_column(name, overflow="fold")
        table.add_column("tokens", justify="right")
        for line in self.lines():
            if line[0] == "prompt":
                table.add_section()
            table.add_row(*line, style="bold" if line[0] in ("prompt", "left") else None)
        return table

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=100, color_system=None)
        with console.capture() as shown:
            console.print(self)
        return shown.get()

    def _repr_html_(self) -> str:
        strong, left, right = "font-weight:600;border-top:1px solid currentColor", "text-align:left", "text-align:right"
        rows = [
            _html_row(line, strong if line[0] in ("prompt", "left") else "") for line in self.lines()
        ]  # fmt: skip
        heads = "".join(f'<th scope="col" style="{left}">{name}</th>' for name in ("part", "kind", "size"))
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return (
            '<table style="background:none;color:inherit;border-collapse:collapse">'
            f'<caption style="{left}">Budget in tokens</caption>'
            f'<thead><tr>{heads}<th scope="col" style="{right}">tokens</th></tr></thead><tbody>{"".join(rows)}</tbody></table>'
            + (f"<ul>{notes}</ul>" if notes else "")
        )


def _html_row(line: tuple[str, str, str, str], style: str) -> str:
    name, kind, size, count = (html.escape(cell) for cell in line)
    return (
        f'<tr style="background:none;{style}"><th scope="row" style="text-align:left;font-weight:inherit">{name}</th>'
        f'<td style="text-align:left">{kind}</td><td style="text-align:left">{size}</td>'
        f'<td style="text-align:right;font-variant-numeric:tabular-nums">{count}</td></tr>'
    )


def budget_of(layout: Layout, *, limits: Limits, limit_of: str, max_tokens: int) -> Budget:
    """Count a rendered context."""
    rendered = layout.rendered
    rows = [row for section in layout.sections for row in _rows(section, rendered)]
    counted = {"effort": 0, "tools": 0}
    for span in rendered.spans:
        if span.part in counted:
            counted[span.part] += len(span)
    framing = sum(len(span) for span in rendered.spans if span.part is None)
    return Budget(
        rows=tuple(rows), prompt_tokens=len(rendered), framing_tokens=framing,
        effort_tokens=counted["effort"], tools_tokens=counted["tools"],
        reserved_tokens=max_tokens, limit_tokens=limits.context_tokens, limit_of=limit_of,
        notes=tuple(_notes(layout, rows)),
    )  # fmt: skip


def _rows(section: Section, rendered: Rendered) -> list[BudgetRow]:
    if section.name in ("tools", "effort") and section.part is None:
        return []
    counts: dict[str, int] = {}
    for span in rendered.spans:
        if span.part is not None and section.start <= span.start < section.stop:
            # Page marks are framing of a document, and its cost.
            modality = "text" if span.modality == "framing" else span.modality
            counts[modality] = counts.get(modality, 0) + len(span)
    return [
        BudgetRow(label=section.name, modality=modality, tokens=count, detail=_detail(section.part, modality, section, rendered),
                  part=section.part.id if section.part else None)
        for modality, count in counts.items()
    ]  # fmt: skip


def _detail(part: Part | None, modality: str, section: Section, rendered: Rendered) -> str:
    match part:
        case ImagePart():
            grid = rendered.image_rule.grid(part.width_px, part.height_px)
            return f"{part.width_px} × {part.height_px} px, {grid.rows} × {grid.cols} patches"
        case AudioPart():
            return f"{part.duration_s:.2f} s"
        case DocumentPart():
            shown = sum(page.image is not None for page in part.pages) if modality == "image" else len(part.pages)
            noun = "page image" if modality == "image" else "page"
            return "" if part.pages[0].number is None else f"{shown} {noun}{'' if shown == 1 else 's'}"
        case _:
            places = [span.locator for span in rendered.spans if section.start <= span.start < section.stop]
            chars = sum(place.stop - place.start for place in places if isinstance(place, TextPlace))
            return f"{chars:,} characters"


def _notes(layout: Layout, rows: Sequence[BudgetRow]) -> list[str]:
    found: list[str] = []
    for section in layout.sections:
        found += [f"{section.name}: {note}" for note in getattr(section.part, "notes", ())]
    for row in rows:
        if row.modality == "image" and row.tokens > LARGE_IMAGE_TOKENS and row.detail.endswith("patches"):
            found.append(f"{row.label} costs {row.tokens:,} tokens ({row.detail}): a smaller picture may do")
    if len(layout.rendered) > RECALL_MARK_TOKENS:
        found.append(RECALL_NOTE)
    return found
