"""Proof of what is sent: hashes and counts that say exactly which tokens, and that anyone can compare.

Two contexts with equal proofs are the same input to the model, on any machine. A reply says the id of the context it answers
(the engine checked that it ran those very ids), so :meth:`Proof.differs` tells whether what ran is what was shown. Holds no tokens.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np

from engine.protocol import Rendered, Reply, tokens_by_modality

from .rendering import Layout

RENDERER = "inkling-workbench/1"
"""Name and version of our rendering: another number gives other ids for the same context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartProof:
    """Tokens and content hash of one entry."""

    name: str
    part: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a rendered context is.

    Attributes
    ----------
    context : str
        ``sha256:`` over token ids, media and image rule: the id that engine and replies use.
    ids : str
        ``sha256:`` of the token ids alone, as little-endian uint32.
    tokens : int
    by_modality : dict of str to int
    parts : tuple of PartProof
        In order; ``tools``, ``system`` and ``effort`` by these names.
    image_rule : str
    renderer, tokenizer : str
        Name and version of what made the ids.
    """

    context: str
    ids: str
    tokens: int
    by_modality: dict[str, int]
    parts: tuple[PartProof, ...]
    image_rule: str
    renderer: str = RENDERER
    tokenizer: str = ""

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return asdict(self)

    def differs(self, other: Proof | Rendered | Reply) -> tuple[str, ...]:
        """How `other` differs; empty when it is the same input.

        Parameters
        ----------
        other : Proof, Rendered or Reply
            Another proof, what was rendered elsewhere, or an answer (whose engine says which context it ran, and how many tokens).
        """
        found: list[str] = []
        if isinstance(other, Reply):
            if other.context != self.context:
                found.append(f"the engine ran {other.context[:19]}…, not {self.context[:19]}…")
            if other.usage.prompt_tokens != self.tokens:
                found.append(f"the engine counted {other.usage.prompt_tokens:,} prompt tokens, not {self.tokens:,}")
            return tuple(found)
        if isinstance(other, Rendered):
            same = other.id == self.context
            return () if same else (f"another context: {other.id[:19]}… with {len(other):,} tokens, not {self.tokens:,}",)
        for name in ("tokenizer", "renderer", "image_rule", "tokens"):
            if getattr(self, name) != getattr(other, name):
                found.append(f"{name}: {getattr(self, name)} and {getattr(other, name)}")
        for index, (one, two) in enumerate(zip(self.parts, other.parts, strict=False)):
            if one != two:
                found.append(f"entry {index}: {one.name} ({one.tokens:,} tokens) and {two.name} ({two.tokens:,} tokens)")
        if len(self.parts) != len(other.parts):
            found.append(f"{len(self.parts)} and {len(other.parts)} entries")
        if not found and self.context != other.context:
            found.append("the same parts with other ids or media")
        return tuple(found)

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self.by_modality.items() if count)
        return f"{self.tokens:,} tokens ({counts}), {self.context}, by {self.renderer} and {self.tokenizer}"


def proof_of(layout: Layout) -> Proof:
    """The proof of a rendered context. Cost: two hashes over the ids (4 MB for a million tokens)."""
    rendered = layout.rendered
    parts = [
        PartProof(name=section.name, part=section.part.id if section.part else section.name, tokens=section.stop - section.start)
        for section in layout.sections
    ]
    return Proof(
        context=rendered.id, ids=_ids_hash(rendered), tokens=len(rendered), by_modality=tokens_by_modality(rendered.spans),
        parts=tuple(parts), image_rule=rendered.image_rule.id, tokenizer=tokenizer_name(),
    )  # fmt: skip


def _ids_hash(rendered: Rendered) -> str:
    return f"sha256:{hashlib.sha256(np.ascontiguousarray(rendered.token_ids, dtype='<u4').tobytes()).hexdigest()}"


@cache
def tokenizer_name() -> str:
    """Package, version and vocabulary hash of the tokenizer."""
    from importlib.resources import files

    ranks = files("tml_renderers").joinpath("data/o200k_base.tiktoken")
    digest = hashlib.sha256(ranks.read_bytes()).hexdigest() if ranks.is_file() else "unknown"
    return f"tml-renderers/{version('tml-renderers')} o200k_base {digest[:12]}"
