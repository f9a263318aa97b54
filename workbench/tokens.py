"""The official tokenizer: text to ids, ids back to text, and where each token begins in its text.

Text is encoded by ``encode_ordinary``, which never yields a framing id: control spellings in a user's text stay text. One
tokenizer lives per process, loaded on first use (about 2 s, with torch, which tml-renderers imports). This module knows nothing of
messages.

Source: tml-renderers, the model makers' package.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.protocol import FramingIds

if TYPE_CHECKING:
    from tml_renderers.tokenizers import Tokenizer


@cache
def tokenizer() -> Tokenizer:
    """The process's tokenizer."""
    from tml_renderers.tokenizers import O200kBaseChatTokenizer

    return O200kBaseChatTokenizer()


@cache
def framing_ids() -> FramingIds:
    """Ids of the framing tokens, looked up by name."""
    known = tokenizer()
    names = set(known.special_tokens())
    return FramingIds.lookup(lambda spelling: known.encode_special(spelling[2:-2]) if spelling[2:-2] in names else None)


@cache
def first_special_id() -> int:
    """Ids from here on are framing, slots or unused; everything below is text."""
    known = tokenizer()
    return min(known.encode_special(name) for name in known.special_tokens() if name != "unused")


def encode(text: str) -> NDArray[np.uint32]:
    """Ids of `text`; never a framing id.

    Examples
    --------
    >>> bool((encode("<|end_message|>") < first_special_id()).all())
    True
    """
    return np.array(tokenizer().encode_ordinary(text), dtype=np.uint32)


def decode(ids: NDArray[np.uint32]) -> str:
    """Text of `ids`; bytes that are no UTF-8 (a character cut in half) become U+FFFD."""
    return tokenizer().decode_bytes(ids.tolist()).decode(errors="replace")


@cache
def _lengths() -> NDArray[np.int16]:
    # Bytes per token id, filled when an id is first met: -1 is unknown. 400 kB.
    return np.full(1 << 18, -1, dtype=np.int16)


def byte_lengths(ids: NDArray[np.uint32]) -> NDArray[np.int64]:
    """UTF-8 bytes of each token. Framing ids have the length of their spelling, so ask for text only."""
    table = _lengths()
    found = table[ids]
    if (found < 0).any():
        for token in np.unique(ids[found < 0]).tolist():
            table[token] = len(tokenizer().decode_bytes([token]))
        found = table[ids]
    return found.astype(np.int64)


def char_ranges(ids: NDArray[np.uint32], text: str | None = None) -> NDArray[np.int64]:
    """Character range of each token in the text that `ids` spell.

    Parameters
    ----------
    ids : ndarray of uint32, shape (t,)
        Text tokens.
    text : str, optional
        The text, when the caller has it (saves decoding).

    Returns
    -------
    ndarray of int64, shape (t, 2)
        First and one past the last character that has bytes in the token. Tokens that share a character overlap in it.
    """
    stops = np.cumsum(byte_lengths(ids))
    starts = np.concatenate([[0], stops[:-1]]) if len(stops) else stops
    if text is not None and text.isascii():
        return np.stack([starts, stops], axis=1)
    data = text.encode() if text is not None else tokenizer().decode_bytes(ids.tolist())
    raw = np.frombuffer(data, dtype=np.uint8)
    if len(stops) and stops[-1] != len(raw):
        raise ValueError(f"the tokens spell {stops[-1]} bytes, the text has {len(raw)}")
    # A byte that is no UTF-8 continuation byte begins a character.
    char_of_byte = np.maximum(np.cumsum((raw & 0xC0) != 0x80) - 1, 0)
    if not len(stops):
        return np.empty((0, 2), dtype=np.int64)
    return np.stack([char_of_byte[starts], char_of_byte[stops - 1] + 1], axis=1)
