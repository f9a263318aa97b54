"""Triton's ``tl.rand``: Philox 4x32-10, one number at a time.

The rejection of drafted tokens draws its uniform numbers so, keyed by the request's seed and the position. Source: Salmon et al.,
"Parallel random numbers: as easy as 1, 2, 3" (2011); constants and counter layout as in Triton 3.9 ``language/random.py``.
"""

from __future__ import annotations

import numpy as np

_ROUND, _KEY, _MASK = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85), 0xFFFFFFFF

SMALLEST = float(np.float32(4.6566127342e-10))
"""What a number of zero is raised to before its logarithm is taken; also the distance of two neighbouring numbers."""


def philox32(seed: int, offset: int, rounds: int = 10) -> int:
    """First 32-bit word for the counter `offset` (64 bits) under the key `seed` (64 bits)."""
    c = [offset & _MASK, (offset >> 32) & _MASK, 0, 0]
    keys = [seed & _MASK, (seed >> 32) & _MASK]
    for _ in range(rounds):
        a, b = _ROUND[0] * c[0], _ROUND[1] * c[2]
        c = [(b >> 32) ^ c[1] ^ keys[0], b & _MASK, (a >> 32) ^ c[3] ^ keys[1], a & _MASK]
        keys = [(key + step) & _MASK for key, step in zip(keys, _KEY, strict=True)]
    return c[0]


def uniform(seed: int, offset: int) -> float:
    """A float32 in (0, 1): the word as a signed number, folded to its positive half and scaled; never zero."""
    word = philox32(seed, offset)
    folded = word if word < 1 << 31 else word ^ _MASK
    return max(float(np.float32(folded) * np.float32(SMALLEST)), SMALLEST)
