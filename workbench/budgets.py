"""Budget: what a context costs, exactly, part by part, against an engine's limit.

Counted from the rendered ids themselves, so it equals the engine's ``usage.prompt_tokens``. Immutable; a changed context has
another budget. Where an engine can be asked, it also says what is cached there and what would be computed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from engine.errors import ContextTooLong
from engine.protocol import Limits, Rendered, TextPlace

from . import budget_views
from .budget_trees import Branch, tree_of
from .image_costs import LARGE_TOKENS, cost_of
from .parts import AudioPart, DocumentPart, ImagePart, Part, RecordingPart

if TYPE_CHECKING:
    from rich.table import Table

    from .rendering import Layout, Section

RECALL = ((128 << 10, 0.991, "2K to 221K"), (256 << 10, 0.957, "294K to 513K"), (512 << 10, 0.814, "586K to 805K"))
"""Marks in tokens, and the share of hidden facts that Inkling finds at the lengths named (vLLM's published run, NVFP4)."""
FARTHEST = "70.9 % at 878K"


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
    tree : Branch
        The same tokens by folder, part and page.
    cached_tokens : int or None
        Leading tokens that the engine's prefix cache holds; None where no engine could be asked.
    prefill_tokens_per_s : float or None
        The engine's measured rate.
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
    tree: Branch = field(repr=False)
    cached_tokens: int | None = None
    prefill_tokens_per_s: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def compute_tokens(self) -> int:
        """Tokens of the prompt that the engine would compute; all of them where it is not known what it has cached."""
        return self.prompt_tokens - (self.cached_tokens or 0)

    @property
    def compute_s(self) -> float | None:
        """Seconds that would take at the engine's measured rate; None where it has none."""
        return self.compute_tokens / self.prefill_tokens_per_s if self.prefill_tokens_per_s else None

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
            heavy = self.tree.heaviest()
            named = ", ".join(f"{path} ({branch.tokens:,})" for path, branch in heavy)
            raise ContextTooLong(
                f"{self.prompt_tokens:,} prompt tokens and {self.reserved_tokens:,} reserved for the answer exceed {whose}, "
                f"{limit_tokens:,}, by {needed - limit_tokens:,}: remove or shorten something; heaviest: {named}",
                prompt_tokens=self.prompt_tokens, reserved_tokens=self.reserved_tokens, limit_tokens=limit_tokens,
                heaviest=[{"path": path, "tokens": branch.tokens, "part": branch.part} for path, branch in heavy],
            )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """All numbers as JSON values."""
        names = (
            "prompt_tokens", "framing_tokens", "effort_tokens", "tools_tokens", "reserved_tokens", "limit_tokens", "limit_of",
            "left_tokens", "cached_tokens", "compute_tokens", "compute_s", "prefill_tokens_per_s",
        )  # fmt: skip
        values = {name: getattr(self, name) for name in names}
        rows = [asdict(row) for row in self.rows]
        return values | {
            "rows": rows, "by_modality": self.by_modality(), "tree": self.tree.to_json(), "notes": list(self.notes)
        }  # fmt: skip

    def lines(self) -> list[tuple[str, str, str, str]]:
        """The table's lines: what, kind, detail, tokens."""
        return budget_views.lines(self)

    def __rich__(self) -> Table:
        return budget_views.rich_table(self)

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=100, color_system=None)
        with console.capture() as shown:
            console.print(self)
        return shown.get()

    def _repr_html_(self) -> str:
        return budget_views.html_table(self)


def budget_of(layout: Layout, *, limits: Limits, limit_of: str, max_tokens: int, probe: Any = None) -> Budget:
    """Count a rendered context.

    Parameters
    ----------
    probe : optional
        What the engine says of it: ``cached_tokens`` and ``prefill_tokens_per_s``.
    """
    rendered = layout.rendered
    rows = [row for section in layout.sections for row in _rows(section, rendered)]
    counted = {"effort": 0, "tools": 0}
    for span in rendered.spans:
        if span.part in counted:
            counted[span.part] += len(span)
    framing = sum(len(span) for span in rendered.spans if span.part is None)
    cached = getattr(probe, "cached_tokens", None)
    return Budget(
        rows=tuple(rows), prompt_tokens=len(rendered), framing_tokens=framing,
        effort_tokens=counted["effort"], tools_tokens=counted["tools"], tree=tree_of(layout),
        reserved_tokens=max_tokens, limit_tokens=limits.context_tokens, limit_of=limit_of,
        cached_tokens=None if cached is None else min(int(cached), len(rendered)),
        prefill_tokens_per_s=getattr(probe, "prefill_tokens_per_s", None) or None,
        notes=tuple(_notes(layout)),
    )  # fmt: skip


def _rows(section: Section, rendered: Rendered) -> list[BudgetRow]:
    if section.name in ("tools", "effort") and section.part is None:
        return []
    counts: dict[str, int] = {}
    for span in rendered.spans[section.first_span : section.last_span]:
        if span.part is not None:
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
        case RecordingPart():
            return "marks of its clips" if modality == "text" else f"{part.duration_s:,.2f} s in {len(part.clips)} clips"
        case AudioPart():
            return f"{part.duration_s:.2f} s"
        case DocumentPart():
            return _pages(part, modality)
        case _:
            places = [span.locator for span in rendered.spans[section.first_span : section.last_span]]
            chars = sum(place.stop - place.start for place in places if isinstance(place, TextPlace))
            return f"{chars:,} characters"


def _pages(part: DocumentPart, modality: str) -> str:
    if modality == "image":
        pages = sum(page.image is not None for page in part.pages)
        inside = sum(len(page.pictures) for page in part.pages)
        counts = [(pages, "page image"), (inside, "picture")]
    else:
        # Slides, sheets and cells are titled by their own word.
        noun = part.pages[0].label.split(" ")[0]
        counts = [(0 if part.pages[0].number is None else len(part.pages), noun)]
    return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts if count)


def _notes(layout: Layout) -> list[str]:
    found: list[str] = []
    rule = layout.rendered.image_rule
    for section in layout.sections:
        part = section.part
        found += [f"{section.name}: {note}" for note in getattr(part, "notes", ())]
        if isinstance(part, ImagePart):
            cost = cost_of(part.width_px, part.height_px, rule)
            if cost.suggestion is not None or cost.tokens > LARGE_TOKENS:
                less = f": {cost.suggested_tokens:,} at {_size(cost.suggestion)}" if cost.suggestion else ""
                found.append(f"{section.name} costs {cost.tokens:,} tokens at {_size((part.width_px, part.height_px))}{less}")
    return found + recall_notes(len(layout.rendered))


def _size(size: tuple[int, int]) -> str:
    return f"{size[0]} × {size[1]} px"


def recall_notes(tokens: int) -> list[str]:
    """What is published about finding things in a context of this length; nothing below 128K.

    Examples
    --------
    >>> recall_notes(100_000)
    []
    >>> recall_notes(300_000)[0][:46]
    'beyond 256K tokens published retrieval drops: '
    """
    crossed = [mark for mark, _, _ in RECALL if tokens > mark]
    if not crossed:
        return []
    steps = ", ".join(f"{share:.1%} at {where}".replace("%", " %") for _, share, where in RECALL)
    drops = "published retrieval drops" if crossed[-1] > RECALL[0][0] else "attention is rescaled, and retrieval drops later on"
    return [
        f"beyond {crossed[-1] >> 10}K tokens {drops}: of hidden facts Inkling finds {steps}, {FARTHEST} (published by vLLM, NVFP4)"
    ]
