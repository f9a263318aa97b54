"""The span table's data for any host: all spans as columns, and the text under a span when it is asked for.

Used by the notebook widget and the app, which differ only in how bytes travel. A million tokens have thousands of spans, not
millions, so the columns go at once and nothing is asked while one scrolls. Requests as in :mod:`workbench.view_requests`:

    verb      args     result
    excerpt   index    index, text (of the span's first tokens; empty for media)

This module knows no widget library and no HTTP.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.protocol import AudioPlace, ImagePlace, Span, TextPlace

from . import palettes
from .errors import SelectionError
from .token_text import text_of, token_text
from .view_requests import answered

if TYPE_CHECKING:
    from engine.protocol import Rendered

    from .captures import Capture

EXCERPT_TOKENS = 64
TWIN_ROWS = 60
"""Rows of the static table: a saved notebook stays small, and says how many rows it leaves out."""

MODALITIES = ("text", "image", "audio", "framing")


def traits(source: Rendered | Capture) -> dict[str, Any]:
    """Initial state of the table.

    Returns
    -------
    dict
        ``meta`` (JSON: tokens, labels, places, colours), ``starts`` (uint32 (spans,)), ``kinds`` (uint8 (spans,): index into
        ``meta["modalities"]``), ``selection`` ([start, stop) or empty).
    """
    spans = source.spans
    totals = dict.fromkeys(MODALITIES, 0)
    for span in spans:
        totals[span.modality] += len(span)
    return {
        "meta": {
            "tokens": len(source.token_ids),
            "modalities": [[name, palettes.MODALITY_COLOURS[name], totals[name]] for name in MODALITIES],
            "labels": [span.label for span in spans],
            "places": [place_text(span) for span in spans],
        },
        "starts": np.array([span.start for span in spans], dtype="<u4").tobytes(),
        "kinds": np.array([MODALITIES.index(span.modality) for span in spans], dtype=np.uint8).tobytes(),
        "selection": [],
    }


def answer(source: Rendered | Capture, request: Any) -> tuple[dict[str, Any], list[bytes]]:
    """Answer one request; one that cannot be answered becomes an error answer."""
    return answered(request, {"excerpt": partial(_excerpt_asked, source)})


def place_text(span: Span) -> str:
    """A span's place in its source, in words.

    Examples
    --------
    >>> place_text(Span(start=0, stop=4, part=None, label="call.wav", modality="audio", message=0,
    ...                 locator=AudioPlace(start_s=0.0, stop_s=0.2)))
    '0.00 to 0.20 s'
    """
    match span.locator:
        case TextPlace(start=start, stop=stop, page=page):
            where = f"page {page}, " if page else ""
            return f"{where}characters {start:,} to {stop:,}"
        case ImagePlace(grid=grid, page=page):
            where = f"page {page}, " if page else ""
            return f"{where}{grid.rows} × {grid.cols} patches"
        case AudioPlace(start_s=start_s, stop_s=stop_s):
            return f"{start_s:.2f} to {stop_s:.2f} s"
    return ""


def twin_html(source: Rendered | Capture) -> str:
    """The table as plain HTML: the first :data:`TWIN_ROWS` spans that are not framing, and what was left out."""
    spans = [span for span in source.spans if span.modality != "framing"]
    rows = "".join(_twin_row(span) for span in spans[:TWIN_ROWS])
    framing = sum(len(span) for span in source.spans if span.modality == "framing")
    left = f"{len(spans) - TWIN_ROWS:,} more spans, and " if len(spans) > TWIN_ROWS else ""
    return (
        '<figure class="inkling-twin" style="margin:0"><table><caption style="text-align:left">'
        f"Spans of {len(source.token_ids):,} tokens</caption><thead><tr>"
        + "".join(f'<th scope="col">{head}</th>' for head in ("Span", "Kind", "Place", "Tokens", "Count"))
        + f"</tr></thead><tbody>{rows}</tbody></table><p>Not shown: {left}{framing:,} framing tokens.</p></figure>"
    )


def _twin_row(span: Span) -> str:
    cells = (span.modality, place_text(span), f"{span.start:,} to {span.stop - 1:,}", f"{len(span):,}")
    return f'<tr><th scope="row">{html.escape(span.label)}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _excerpt_asked(source: Rendered | Capture, *, index: int) -> dict[str, Any]:
    spans = source.spans
    if not isinstance(index, int) or not 0 <= index < len(spans):
        raise SelectionError(f"there is no span {index!r}: this context has spans 0 to {len(spans) - 1}")
    return {"index": index, "text": _excerpt(source.token_ids, spans, index)}


def _excerpt(token_ids: np.ndarray, spans: Sequence[Span], index: int) -> str:
    span = spans[index]
    if span.modality in ("image", "audio"):
        return ""
    if span.modality == "framing":
        return "".join(token_text(int(i)) for i in token_ids[span.start : span.stop][:EXCERPT_TOKENS])
    return text_of(token_ids[span.start : span.stop], limit_tokens=EXCERPT_TOKENS).strip()
