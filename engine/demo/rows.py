"""Vocabulary rows of the demo checkpoint: one per id, drawn from the token's spelling, so that only trained rows need shipping.

A row has two pieces. The first, most of the width, is drawn from the spelling without its leading space and its capitals: " Ana",
"Ana" and "ana" share it, which lets a small model look a word up however it is written and still copy words that training never
showed. The last sixteen numbers say how it is written: with a leading space or not, and in which case. Values are odd multiples of
1/512 from a SHAKE-256 stream: exact in bfloat16, equal on every machine and library version.

Rows are the input embedding; the head's rows are these times a trained vector. Knows no files and no training.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .shape import PADDED_VOCABULARY
from .tokenizer import ranks

FORM_WIDTH = 16
"""Numbers at the end of a row that tell how a token is written."""


def spelling_key(token: bytes) -> tuple[bytes, bytes, bytes]:
    """What a row is drawn from: the plain spelling, the kind of leading space, the case.

    Examples
    --------
    >>> spelling_key(b" Ana"), spelling_key(b"ana")
    ((b'ana', b'space', b'Capital'), (b'ana', b'none', b'lower'))
    """
    text = token.decode("utf-8", errors="ignore")
    if text.encode() != token or not text.strip():
        return token, b"none", b"other"
    word = text.removeprefix(" ")
    case = "other"
    if word.islower():
        case = "lower"
    elif word.isupper() and len(word) > 1:
        case = "UPPER"
    elif word[0].isupper() and (word[1:].islower() or len(word) == 1):
        case = "Capital"
    if word.lower().upper() != word.upper():
        # The ohm sign and Omega share a small letter; their rows must not be one.
        case = "other"
    plain = word.lower() if case != "other" else word
    return plain.encode(), b"space" if word != text else b"none", case.encode()


def spelled_rows(hidden: int, vocab: int = PADDED_VOCABULARY) -> NDArray[np.float32]:
    """Rows of all ids, [vocab, hidden], in (-0.5, 0.5). About 2 s; ids without a spelling are drawn from their number."""
    content, half = hidden - FORM_WIDTH, FORM_WIDTH // 2
    raw = bytearray()
    for key, space, case in keys(vocab):
        raw += _stream(b"plain/" + key, content) + _stream(b"space/" + space, half) + _stream(b"case/" + case, half)
    return (2.0 * np.frombuffer(bytes(raw), np.uint8).reshape(vocab, hidden).astype(np.float32) - 255.0) / 512.0


@lru_cache(2)
def keys(vocab: int = PADDED_VOCABULARY) -> tuple[tuple[bytes, bytes, bytes], ...]:
    """:func:`spelling_key` of every id."""
    found: list[tuple[bytes, bytes, bytes]] = [(b"id/%d" % i, b"none", b"other") for i in range(vocab)]
    for token, i in ranks().items():
        found[i] = spelling_key(token)
    return tuple(found)


@lru_cache(400_000)
def _stream(key: bytes, count: int) -> bytes:
    return hashlib.shake_256(b"inkling-workbench/1/" + key).digest(count)
