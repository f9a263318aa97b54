"""The bytes each token stands for, and text from a stream of them that never splits a character.

Inkling's tokenizer is byte-level: a character may be spread over several tokens, so a token has bytes, not text. The table
comes from the checkpoint's own tokenizer, whose pieces spell every byte as one printable character (the alphabet GPT-2 brought
in).
"""

from __future__ import annotations

import codecs
from typing import Protocol


class Tokenizer(Protocol):
    """What is used of a Hugging Face tokenizer."""

    def get_vocab(self) -> dict[str, int]: ...
    def get_added_vocab(self) -> dict[str, int]: ...


def byte_alphabet() -> dict[str, int]:
    """Character to byte: printable Latin-1 stands for itself, the other bytes for the characters from U+0100 on, in order.

    Examples
    --------
    >>> byte_alphabet()["A"], byte_alphabet()["Ġ"]
    (65, 32)
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


class TokenBytes:
    """Bytes per token id, and which ids are control tokens.

    Parameters
    ----------
    tokenizer : Tokenizer
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        alphabet = byte_alphabet()
        self._special = {number: spelling for spelling, number in tokenizer.get_added_vocab().items()}
        self._bytes: dict[int, bytes] = {}
        for piece, number in tokenizer.get_vocab().items():
            if number not in self._special:
                self._bytes[number] = bytes(alphabet[character] for character in piece)

    def is_special(self, token_id: int) -> bool:
        """Whether a token is a control token: anything that no text is encoded to."""
        return token_id not in self._bytes

    def special_ids(self) -> tuple[int, ...]:
        """Every control token's id, in order."""
        return tuple(sorted(self._special))

    def spelling(self, token_id: int) -> str:
        """How a control token is written."""
        return self._special.get(token_id, f"<|{token_id}|>")

    def __getitem__(self, token_id: int) -> bytes:
        """Bytes of an ordinary token; of a control token, its spelling's."""
        found = self._bytes.get(token_id)
        return self.spelling(token_id).encode() if found is None else found


class TextStream:
    """Text of a growing run of tokens: a character is given out once all of its bytes are there."""

    def __init__(self, table: TokenBytes) -> None:
        self._table, self._decoder = table, codecs.getincrementaldecoder("utf-8")("replace")
        self._ids: list[int] = []

    def add(self, token_id: int) -> tuple[str, tuple[int, ...]]:
        """Text that is complete now, and the ids it came from; empty while a character is still open."""
        self._ids.append(token_id)
        text = self._decoder.decode(self._table[token_id])
        return (text, self._take()) if text else ("", ())

    def close(self) -> tuple[str, tuple[int, ...]]:
        """What is left: a character that never became whole shows as U+FFFD."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text, self._take()

    def _take(self) -> tuple[int, ...]:
        taken, self._ids = tuple(self._ids), []
        return taken
