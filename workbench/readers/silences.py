"""Where to cut a long recording: at silences, on the model's 50 ms grid.

Each clip is as long as it may be, less at most a tenth: within that tenth the quietest stretch is the place. A cut lies on a
multiple of 50 ms from the beginning, so the clips' tokens stand where those of the uncut recording would. Where nothing is quiet
the cut is made all the same, and said.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..media import AUDIO_HOP, SAMPLE_RATE_HZ

QUIET_HOPS = 6
"""Length of a pause worth cutting in: 0.3 s."""
SILENT_DB = -30.0
"""Below the recording's own level (its median over 50 ms) a pause counts as silence."""


def cuts(samples: NDArray[np.float32], clip_tokens: int, start_s: float = 0.0) -> tuple[list[int], tuple[str, ...]]:
    """Samples at which to cut, and what a reader should know.

    Parameters
    ----------
    samples : ndarray of float32, shape (n,)
        16 kHz mono.
    clip_tokens : int
        Most tokens of one clip.
    start_s : float
        Where the samples begin, for the notes.

    Returns
    -------
    list of int
        Multiples of 800, ascending; clips between them have at most `clip_tokens` tokens.
    tuple of str
        Cuts that no silence was found for.
    """
    hops = -(-len(samples) // AUDIO_HOP)
    whole = len(samples) // AUDIO_HOP
    stretches = samples[: whole * AUDIO_HOP].reshape(whole, AUDIO_HOP)
    power = np.einsum("th,th->t", stretches, stretches) / np.float32(AUDIO_HOP)
    level = float(np.median(power))
    found: list[int] = []
    loud: list[str] = []
    at = 0
    while hops - at > clip_tokens:
        # Leave at least a tenth of a clip for the last one, rather than a stub.
        latest = min(at + clip_tokens, hops - max(1, clip_tokens // 10)) if hops - at < 1.1 * clip_tokens else at + clip_tokens
        earliest = max(at + 1, at + clip_tokens - max(QUIET_HOPS, clip_tokens // 10))
        cut, quiet = _quietest(power, min(earliest, latest), latest)
        if quiet > level * 10 ** (SILENT_DB / 10) and quiet > 0:
            loud.append(f"{start_s + cut * AUDIO_HOP / SAMPLE_RATE_HZ:.2f} s")
        found.append(cut * AUDIO_HOP)
        at = cut
    note = (f"no silence to cut in at {', '.join(loud)}: cut in the quietest place near it",) if loud else ()
    return found, note


def _quietest(power: NDArray[np.float32], earliest: int, latest: int) -> tuple[int, float]:
    """The hop to cut before, between `earliest` and `latest`, and the mean power of the pause around it."""
    half = QUIET_HOPS // 2
    low, high = max(0, earliest - half), min(len(power), latest + half)
    total = np.concatenate([[0.0], np.cumsum(power[low:high], dtype=np.float64)])
    places = np.arange(earliest, latest + 1)
    first, last = np.maximum(places - half, low) - low, np.minimum(places + half, high) - low
    means = (total[last] - total[first]) / np.maximum(last - first, 1)
    # Cumulated sums leave rounding behind; the latest of equally quiet places makes the fewest clips.
    best = int(np.flatnonzero(means <= means.min() + 1e-12)[-1])
    return int(places[best]), max(float(means[best]), 0.0)
