"""The official tokenizer: text to ids, ids back to text, and where each token begins in its text.

Text is encoded by ``encode_ordinary``, which never yields a framing id: control spellings in a user's text stay text. One
tokenizer lives per process, loaded on first use (about 2 s, with torch, which tml-renderers imports). This module knows nothing of
messages.

Source: tml-renderers, the model makers' package.
"""

from __future__ import annotations

from array import array
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
    # By way of array: NumPy itself is slower at reading a list of integers.
    return np.frombuffer(array("I", tokenizer().encode_ordinary(text)), dtype=np.uint32)


def decode(ids: NDArray[np.uint32]) -> str:
    """Text of `ids`; bytes that are no UTF-8 (a character cut in half) become U+FFFD."""
    return tokenizer().decode_bytes(ids.tolist()).decode(errors="replace")


class _Table:
    """Per token id: how many characters begin in its bytes, and whether they begin inside one. Filled as ids are met."""

    def __init__(self) -> None:
        size = 1 << 18
        self.known = np.zeros(size, dtype=np.bool_)
        self.leads = np.zeros(size, dtype=np.int16)
        self.inside = np.zeros(size, dtype=np.bool_)

    def meet(self, ids: NDArray[np.uint32]) -> None:
        """Know every one of `ids`."""
        unknown = ids[~self.known[ids]]
        if len(unknown):
            decode_bytes = tokenizer().decode_bytes
            for token in np.unique(unknown).tolist():
                data = decode_bytes([token])
                self.leads[token] = sum((byte & 0xC0) != 0x80 for byte in data)
                self.inside[token] = bool(data) and (data[0] & 0xC0) == 0x80
                self.known[token] = True


@cache
def _table() -> _Table:
    return _Table()


def char_counts(ids: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """How many characters begin in each token, and whether the token begins inside a character.

    Returns
    -------
    ndarray of int64, shape (t,)
    ndarray of bool, shape (t,)
    """
    table = _table()
    table.meet(ids)
    return table.leads[ids].astype(np.int64), table.inside[ids]


def char_ranges(ids: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Character range of each token in the text that `ids` spell.

    Parameters
    ----------
    ids : ndarray of uint32, shape (t,)
        Text tokens.

    Returns
    -------
    ndarray of int64, shape (t, 2)
        First and one past the last character that has bytes in the token. Tokens that share a character overlap in it. Cost: two
        look-ups per token; the text is not needed.

    Examples
    --------
    >>> char_ranges(encode("naïve 🙂")).tolist()
    [[0, 2], [2, 3], [3, 5], [5, 7]]
    """
    leads, inside = char_counts(ids)
    stops = np.cumsum(leads)
    return np.stack([np.maximum(stops - leads - inside, 0), stops], axis=1) if len(ids) else np.empty((0, 2), dtype=np.int64)
