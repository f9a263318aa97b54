"""Text to ids for the generators: the official tokenizer, its framing ids, and pools of whole-token words.

Pools come from the tokenizer's own vocabulary, split into training and held-out words by a hash of their spelling, so that both
sides share no word whatever the seed. Process-wide and read-only.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from tml_renderers.tokenizers import O200kBaseChatTokenizer

from engine.demo.rows import keys
from engine.demo.tokenizer import ranks
from engine.protocol.framing import FramingIds

HELD_OUT_SHARE = 0.12


@lru_cache(1)
def tokenizer() -> O200kBaseChatTokenizer:
    """The official tokenizer."""
    return O200kBaseChatTokenizer()


@lru_cache(1)
def framing() -> FramingIds:
    """Ids of the framing tokens."""
    names = set(tokenizer().special_tokens())
    return FramingIds.lookup(lambda s: tokenizer().encode_special(s[2:-2]) if s[2:-2] in names else None)


@lru_cache(100_000)
def encode(text: str) -> tuple[int, ...]:
    """Ids of `text`; control spellings stay text."""
    return tuple(tokenizer().encode_ordinary(text))


def decode(ids: list[int]) -> str:
    """Text of ordinary ids."""
    return tokenizer().decode(ids)


@lru_cache(1)
def _by_key() -> dict[tuple[bytes, bytes, bytes], int]:
    return {key: i for i, key in enumerate(keys())}


@lru_cache(100_000)
def siblings(token: int) -> tuple[int, ...]:
    """Ids whose row has the same plain spelling: the hardest rivals of `token`, itself left out."""
    plain = keys()[token][0]
    found = (_by_key().get((plain, s, c)) for s in (b"space", b"none") for c in (b"lower", b"Capital", b"UPPER", b"other"))
    return tuple(i for i in found if i is not None and i != token)


def is_held_out(word: str) -> bool:
    """Whether a word belongs to evaluation; by its spelling alone."""
    digest = hashlib.sha256(("held-out/" + word.strip().lower()).encode()).digest()
    return digest[0] < 256 * HELD_OUT_SHARE


@lru_cache(4)
def vocabulary_words(kind: str, held_out: bool) -> tuple[str, ...]:
    """Words that are one token after a space, of the tokenizer's vocabulary: ``"name"`` (Capital) or ``"noun"`` (lower case)."""
    shape = re.compile(r" [A-Z][a-z]{2,9}" if kind == "name" else r" [a-z]{3,10}")
    words = (t.decode("utf-8", errors="ignore") for t in ranks())
    return tuple(w[1:] for w in words if shape.fullmatch(w) and is_held_out(w) == held_out)
