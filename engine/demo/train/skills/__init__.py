"""Skills by name: generators of training sequences, all called alike."""

from __future__ import annotations

from collections.abc import Callable

from engine.demo.train.chat import Chat
from engine.demo.train.lookup import lookup

SKILLS: dict[str, Callable[..., Chat]] = {
    "lookup": lookup,
}
"""Called as ``skill(random, tokens, held_out=False, paraphrase=False, spread=1.0, plain=0.1)``."""
