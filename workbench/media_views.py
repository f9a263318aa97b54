"""Pictures and recordings of a context for a page: what there is, and each small enough to travel. Knows no page and no view."""

from __future__ import annotations

from typing import Any

from engine.protocol import Rendered, span_at

from .errors import SelectionError
from .media_previews import peaks, thumbnail

PEAKS = 1_200
"""Columns of a waveform: as many as a wide page has room for."""


def media_list(rendered: Rendered) -> list[dict[str, Any]]:
    """Every picture and recording: ``kind``, ``start``, ``tokens``, ``label``, and whether its bytes are ``here``."""
    return [
        {
            "kind": item.kind, "start": item.start, "tokens": item.tokens, "label": span_at(rendered.spans, item.start).label,
            "here": item.blob in rendered.blobs,
        }
        for item in rendered.media
    ]  # fmt: skip


def medium(rendered: Rendered, *, index: int) -> tuple[dict[str, Any], list[bytes]]:
    """One of them.

    Returns
    -------
    dict
        ``kind``, ``index``; of a picture its patches' ``rows`` and ``cols``.
    list of bytes
        A small PNG, or float32 (2,n): lowest and highest sample; empty where the bytes are not here.

    Raises
    ------
    SelectionError
        There is none of that number.
    """
    if not 0 <= int(index) < len(rendered.media):
        raise SelectionError(f"there is no picture or recording {index}: this context has {len(rendered.media)}")
    item = rendered.media[int(index)]
    blob = rendered.blobs.get(item.blob)
    result: dict[str, Any] = {"kind": item.kind, "index": int(index)}
    if item.kind == "audio":
        return result, [] if blob is None else [peaks(blob, PEAKS).tobytes()]
    grid = getattr(span_at(rendered.spans, item.start).locator, "grid", None)
    if grid is not None:
        result |= {"rows": grid.rows, "cols": grid.cols}
    return result, [] if blob is None else [thumbnail(blob)]
