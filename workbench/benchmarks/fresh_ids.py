"""Contexts of ordinary token ids, drawn: none begins like another, so the prefix cache has nothing of them."""

from __future__ import annotations

import numpy as np

from engine.protocol import Rendered, Span

ORDINARY_IDS = 199_998
"""Ids below this one are text."""


def context(draw: np.random.Generator, tokens: int, *, part: str | None = None) -> Rendered:
    """A context of `tokens` ids in one span of text, of `part` if that is given."""
    span = Span(start=0, stop=tokens, part=part, label="text", modality="text", message=0)
    return Rendered(token_ids=draw.integers(0, ORDINARY_IDS, tokens).astype(np.uint32), spans=(span,))
