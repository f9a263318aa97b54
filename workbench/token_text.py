"""Token ids as readable text, by the official tokenizer: for read-outs, tables and excerpts.

One token's bytes need not be whole characters; what cannot be shown alone is shown as its bytes. Framing tokens are shown by
name. This module renders nothing for the model (``workbench.rendering`` does).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .tokens import tokenizer


def token_bytes(token_id: int) -> bytes:
    """Bytes of one token; empty for an id outside the vocabulary (padding rows have no text)."""
    try:
        return tokenizer().decode_bytes([int(token_id)])
    except ValueError:
        return b""


def is_framing(token_id: int) -> bool:
    """Whether an id is one of the vocabulary's control tokens."""
    return bool(tokenizer().is_special_token(int(token_id)))


def token_text(token_id: int) -> str:
    """One token as text.

    Examples
    --------
    >>> token_text(582), token_text(200000)
    ('ld', '<|message_user|>')
    """
    raw = token_bytes(token_id)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "".join(f"⟨{byte:02x}⟩" for byte in raw)


def text_of(token_ids: Sequence[int] | np.ndarray, *, limit_tokens: int = 400) -> str:
    """The text of a run of tokens, control tokens left out; cut after `limit_tokens` with an ellipsis."""
    ids = [int(i) for i in token_ids[:limit_tokens]]
    raw = b"".join(token_bytes(i) for i in ids if not is_framing(i))
    return raw.decode(errors="replace") + ("…" if len(token_ids) > limit_tokens else "")
