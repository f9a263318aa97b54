"""The routing map's data for any host: its traits, what a reader must know of it, and the arrays of a page without Python.

Used by the notebook widget, by the app and by reports, which differ only in how bytes travel; what the page asks is answered by
:mod:`workbench.routing_answers`. This module knows no widget library and no HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.protocol import AudioPlace, ImagePlace, Span, TextPlace

from . import palettes
from .media_views import media_list
from .routing import blocks
from .routing_answers import answer, load_bytes, parts_of, quantise, text_at
from .routing_differences import RoutingDifference
from .routing_windows import SMALL_TOKENS, RoutingWindows, Strip

if TYPE_CHECKING:
    from .captures import Capture

__all__ = ["answer", "bands", "notices", "span_json", "static_arrays", "traits"]

OVERVIEW_BUCKETS = 1_024
"""Buckets of the strips that come with the traits: first paint needs no question."""


def traits(capture: Capture, *, parts: bool = False, against: Capture | None = None) -> dict[str, Any]:
    """Initial state of the map: JSON values, and bytes for arrays.

    Parameters
    ----------
    against : Capture, optional
        Another capture of the same model, for differences.
    parts : bool
        With the table of parts even where the capture is so long that walking it delays the first picture; the page asks otherwise.

    Returns
    -------
    dict
        ``meta`` (sizes, layers, limits, spans, parts, media, notices), ``share`` and ``chosen`` (float32 (l,e)), ``sink``
        (float32 (l,s)), ``entropy`` and ``sink_mass`` (uint8 (l,b) overview strips), ``palette`` and ``diverging`` (256 × RGB), and
        what both sides may set: ``metric``, ``stat``, ``difference``, ``selection``, ``region``, ``cell``, ``window``.
    """
    windows = RoutingWindows.of(capture)
    strips = {name: windows.strip(name, 0, windows.tokens, OVERVIEW_BUCKETS) for name in ("entropy", "sink")}
    share, chosen, sink = load_bytes(windows, [(0, windows.tokens)])
    meta = _meta(capture, windows, strips["entropy"], parts=parts or windows.tokens <= SMALL_TOKENS)
    if against is not None:
        beside = RoutingDifference(capture, against)
        meta["against"] = {"tokens": len(against), "same_tokens": beside.same_tokens, "limits": beside.limits}
    return {
        "meta": meta,
        "share": share,
        "chosen": chosen,
        "sink": sink,
        "entropy": quantise(strips["entropy"], windows.limits["entropy"]),
        "sink_mass": quantise(strips["sink"], windows.limits["sink"]),
        "palette": palettes.cividis_bytes(),
        "diverging": palettes.diverging_bytes(),
        "metric": "sink",
        "stat": "mean",
        "difference": against is not None,
        "selection": [],
        "region": [],
        "cell": [],
        "window": [0, windows.tokens],
    }


@dataclass(frozen=True, slots=True)
class Band:
    """A run of tokens of one part and modality, for labels."""

    start: int
    stop: int
    label: str
    modality: str


def bands(spans: Sequence[Span]) -> list[Band]:
    """Neighbouring spans of one part and modality as one; the first span's label, without its page."""
    found: list[Band] = []
    part: str | None = None
    for span in spans:
        last = found[-1] if found else None
        if last and last.modality == span.modality and (span.modality == "framing" or (span.part and span.part == part)):
            found[-1] = replace(last, stop=span.stop, label=span.label.split(", page ")[0])
        else:
            found.append(Band(span.start, span.stop, span.label, span.modality))
        part = span.part
    return found


def notices(capture: Capture) -> list[str]:
    """What a reader must know before believing the picture."""
    found = []
    if capture.provenance.get("random_weights"):
        found.append("The checkpoint has random weights: this routing shows the machinery, not a trained model.")
    if not capture.complete:
        covered = f"{capture.manifest.covered_tokens:,} of {len(capture):,}"
        found.append(f"Partial capture: {covered} tokens were written. The others are grey and count nowhere.")
    return found


STATIC_BYTES = 2_500_000
"""Arrays above this are not embedded in a page: base64 adds a third, and a report stays under 5 MB."""


def static_arrays(capture: Capture) -> dict[str, Any] | None:
    """The whole routing for a page without Python, or None where it is too large.

    Returns
    -------
    dict or None
        ``expert`` (t,l,k) uint8, or uint16 when ``wide``; ``share`` (t,l,k) and ``sink`` (t,l,s) uint16, 65535 for 1; all bytes.
        ``texts``: one string per token.
    """
    routing = capture.routing
    sizes, wide = routing.sizes, routing.attrs["experts"] > 256
    per_token = sizes["l"] * (sizes["k"] * (4 if wide else 3) + sizes["s"] * 2) + 8
    if sizes["t"] * per_token > STATIC_BYTES:
        return None
    found = list(blocks(routing))

    def packed(name: str) -> bytes:
        shares = (np.nan_to_num(getattr(block, name) / block.total[..., None]) for block in found)
        return b"".join(np.round(part * 65_535).astype("<u2").tobytes() for part in shares)

    expert = b"".join(block.expert.astype("<u2" if wide else np.uint8).tobytes() for block in found)
    return {
        "wide": wide, "expert": expert, "share": packed("weight"), "sink": packed("sink"),
        "texts": [text_at(capture, t) for t in range(sizes["t"])],
    }  # fmt: skip


def _meta(capture: Capture, windows: RoutingWindows, overview: Strip, *, parts: bool) -> dict[str, Any]:
    return {
        "tokens": windows.tokens,
        "layers": windows.layers.tolist(),
        "experts": windows.experts,
        "top_k": windows.top_k,
        "sinks": windows.sinks,
        "limits": {name: list(pair) for name, pair in windows.limits.items()},
        "overview": {"start": overview.start, "width": overview.width_tokens, "buckets": overview.values.shape[1]},
        "spans": [span_json(span) for span in capture.spans],
        "parts": parts_of(capture) if parts else None,
        "media": media_list(capture.rendered),
        "favourites": True,
        "against": None,
        "modalities": palettes.MODALITY_COLOURS,
        "missing": palettes.MISSING_COLOUR,
        "model": str(capture.provenance.get("model", "")),
        "notices": notices(capture),
    }


def span_json(span: Span) -> dict[str, Any]:
    """A span as views draw it: range, label, modality, part and its place in the source."""
    values: dict[str, Any] = {
        "start": span.start, "stop": span.stop, "label": span.label, "modality": span.modality, "part": span.part,
    }  # fmt: skip
    match span.locator:
        case ImagePlace(grid=grid, page=page):
            values["place"] = {"kind": "image", "rows": grid.rows, "cols": grid.cols, "page": page}
        case AudioPlace(start_s=start_s, stop_s=stop_s):
            values["place"] = {"kind": "audio", "start_s": start_s, "stop_s": stop_s}
        case TextPlace(page=page):
            values["place"] = {"kind": "text", "page": page}
    return values
