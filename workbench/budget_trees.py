"""Where the tokens are: a tree of folders, files, and their pages, sheets, cells and clips.

A part's name is its path: parts called ``src/a.py`` and ``src/b.py`` are leaves of one branch. Inside a part, every page, sheet,
cell or clip that the span table tells apart is a leaf. Knows no limit and no engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .parts import AudioPart, DocumentPart, ImagePart, Part, RecordingPart

if TYPE_CHECKING:
    from .rendering import Layout

MODALITIES = ("text", "image", "audio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Tokens of a folder, a part, or a page of one.

    Attributes
    ----------
    label : str
        Its own name: the last piece of a path, ``page 3``.
    kind : {"context", "folder", "part", "page"}
        ``page`` stands for slides, sheets, cells and clips too.
    tokens : int
        Its own and its children's, framing of messages left out.
    by_modality : dict of str to int
    part : str or None
        Id of the part, for a part and its pages.
    """

    label: str
    kind: str
    tokens: int
    by_modality: dict[str, int]
    part: str | None = None
    children: tuple[Branch, ...] = ()

    def walk(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Branch]]:
        """This branch and everything below it, with the labels that lead there."""
        here = (*path, self.label) if self.kind != "context" else path
        yield here, self
        for child in self.children:
            yield from child.walk(here)

    def heaviest(self, count: int = 3) -> tuple[tuple[str, Branch], ...]:
        """The heaviest branches, each followed down as long as one child holds most of it; with the path to it."""
        found: list[tuple[str, Branch]] = []
        for child in sorted(self.children, key=lambda branch: branch.tokens, reverse=True)[:count]:
            path, at = child.label, child
            while at.children and (big := max(at.children, key=lambda branch: branch.tokens)).tokens > at.tokens / 2:
                if len(at.children) > 1 or at.kind == "folder":
                    path = f"{path}/{big.label}" if big.kind != "page" else f"{path}, {big.label}"
                at = big
            found.append((path, at))
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """The branch as JSON values."""
        return {
            "label": self.label, "kind": self.kind, "tokens": self.tokens, "by_modality": self.by_modality, "part": self.part,
            "children": [child.to_json() for child in self.children],
        }  # fmt: skip

    def lines(self, *, depth: int = 3, share: float = 0.0) -> list[str]:
        """The tree as text, heaviest first, down to `depth` and to branches with at least `share` of all tokens."""
        total = max(self.tokens, 1)
        found: list[str] = []

        def show(branch: Branch, indent: int) -> None:
            kinds = ", ".join(f"{count:,} {name}" for name, count in branch.by_modality.items() if count)
            found.append(f"{'  ' * indent}{branch.label}{'/' if branch.kind == 'folder' else ''}  {branch.tokens:,}  ({kinds})")
            if indent < depth:
                shown = sorted(branch.children, key=lambda child: child.tokens, reverse=True)
                kept = [child for child in shown if child.tokens >= share * total]
                for child in kept:
                    show(child, indent + 1)
                if len(kept) < len(shown):
                    rest = sum(child.tokens for child in shown[len(kept) :])
                    found.append(f"{'  ' * (indent + 1)}… {len(shown) - len(kept)} more  {rest:,}")

        show(self, 0)
        return found

    def __str__(self) -> str:
        return "\n".join(self.lines())


@dataclass(slots=True)
class _Node:
    label: str
    kind: str
    part: str | None = None
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MODALITIES, 0))
    children: list[_Node] = field(default_factory=list)
    folders: dict[str, _Node] = field(default_factory=dict)

    def branch(self) -> Branch:
        children = tuple(child.branch() for child in self.children)
        counts = {name: self.counts[name] + sum(child.by_modality[name] for child in children) for name in MODALITIES}
        return Branch(
            label=self.label, kind=self.kind, tokens=sum(counts.values()), by_modality=counts, part=self.part, children=children
        )  # fmt: skip


def tree_of(layout: Layout) -> Branch:
    """The tree of a rendered context. Cost: one pass over its spans."""
    root = _Node("context", "context")
    for section in layout.sections:
        if section.part is None and section.name in ("tools", "effort"):
            continue
        *folders, label = _path(section.part, section.name)
        at = root
        for name in folders:
            if name not in at.folders:
                at.folders[name] = _Node(name, "folder")
                at.children.append(at.folders[name])
            at = at.folders[name]
        node = _Node(label, "part", section.part.id if section.part else section.name)
        at.children.append(node)
        pages: dict[str, _Node] = {}
        prefix = f"{section.name}, "
        for span in layout.spans(section):
            if span.part is None:
                continue
            home = node
            if isinstance(section.part, DocumentPart | RecordingPart) and span.label.startswith(prefix):
                title = span.label[len(prefix) :]
                if title not in pages:
                    pages[title] = _Node(title, "page", node.part)
                    node.children.append(pages[title])
                home = pages[title]
            home.counts["text" if span.modality == "framing" else span.modality] += len(span)
    return root.branch()


def _path(part: Part | None, name: str) -> list[str]:
    if not isinstance(part, DocumentPart | ImagePart | AudioPart | RecordingPart):
        return [name]
    return [piece for piece in name.split("/") if piece] or [name]
