"""From a token back to its place in the source: the patch, the 50 ms, the characters.

Spans are exact for media; for text they give a range, and this module refines it to each token's own characters. It reads only a
rendered context, never the sources.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from engine.protocol import Locator, Rendered, Span, TextPlace, span_at

from . import tokens


def locate(rendered: Rendered, t: int) -> Locator | None:
    """Where token `t` comes from: its patch, its 50 ms, or its characters; None for framing.

    Raises
    ------
    IndexError
        `t` lies outside the context.
    """
    span = span_at(rendered.spans, t)
    if isinstance(span.locator, TextPlace):
        start, stop = text_places(rendered, span)[t - span.start].tolist()
        return replace(span.locator, start=start, stop=stop)
    return span.place(t)


def text_places(rendered: Rendered, span: Span) -> NDArray[np.int64]:
    """Character range in the source of every token of a text span.

    Returns
    -------
    ndarray of int64, shape (t, 2)
        First and one past the last character. Cost: one pass over the span's bytes.
    """
    if not isinstance(span.locator, TextPlace):
        raise ValueError(f"not a text span: {span.label} ({span.modality})")
    ranges = tokens.char_ranges(rendered.token_ids[span.start : span.stop]) + span.locator.start
    # A last token that runs over into the next piece of its message ends, here, with this piece.
    return np.minimum(ranges, span.locator.stop)
