"""Answers to what a routing map asks while one looks around, for any host.

Requests as in :mod:`workbench.view_requests`:

    verb    args                                                result; buffers
    strip   metric, stat, start, stop, buckets, layer, expert,  start, width, buckets, rows; uint8 (l,b), 255 where not written; with
            difference                                          `difference` what this capture has more than the other, 127 is zero
    range   start, stop, ranges                                 start, stop, text, entropy_bits; float32 share (l,e), chosen (l,e), sink (l,s)
    against start, stop, ranges                                 same_tokens; the other capture's share, chosen and sink of these tokens
    media   index                                               kind, rows, cols; PNG, or float32 (2,n): lowest and highest sample
    favourites  layer, expert                                   rows: kind, start, stop, share, label, place; walks the capture
    parts   –                                                   parts: label, modality, tokens, entropy_bits, sink_mass; walks the capture
    token   t                                                   t, id, text, entropy_bits (l); uint16 expert (l,k), float32 share (l,k), sink (l,s)

`layer` is the model's index; `ranges` are pairs inside `start` to `stop` that are meant instead of all of it. Every answer
stays under 1 MB. This module knows no widget library and no HTTP.
"""  # noqa: E501  the table is read as a table

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.protocol import span_at

from .errors import SelectionError
from .expert_views import ExpertView
from .media_views import medium
from .routing import Block, blocks, check_cell, check_range, entropy_bits, group_tokens, sink_mass
from .routing_differences import RoutingDifference, load_of
from .routing_windows import RoutingWindows, Strip
from .token_text import text_of, token_text
from .view_requests import answered

if TYPE_CHECKING:
    from .captures import Capture

EXCERPT_TOKENS = 48
MOST_RANGES = 1_024
TEXT_TOKENS = 64
"""Windows of single tokens up to this long come with their texts: the strip has room to print them."""

MISSING = 255
"""Strip value of a bucket without any written token; 0 to 254 span the metric's limits."""


def answer(capture: Capture, request: Any, against: Capture | None = None) -> tuple[dict[str, Any], list[bytes]]:
    """Answer one request of the map; one that cannot be answered becomes an error answer."""
    verbs = {"range": _range, "token": _token, "parts": _parts_asked, "favourites": _favourites}
    found = {name: partial(verb, capture) for name, verb in verbs.items()}
    found["media"] = partial(medium, capture.rendered)
    for name, compared in (("strip", _strip), ("against", _against)):
        found[name] = partial(compared, capture, against)
    return answered(request, found)


def _strip(
    capture: Capture, against: Capture | None, *, metric: Any, start: int, stop: int, buckets: int, stat: Any = "mean",
    layer: int | None = None, expert: int | None = None, difference: bool = False,
) -> tuple[dict[str, Any], list[bytes]]:  # fmt: skip
    windows: Any = RoutingDifference(capture, _other(against)) if difference else RoutingWindows.of(capture)
    strip = windows.strip(metric, int(start), int(stop), int(buckets), stat=stat, layer=layer, expert=expert)
    rows, count = strip.values.shape
    result = {"metric": metric, "stat": stat, "start": strip.start, "width": strip.width_tokens, "buckets": count, "rows": rows}
    if strip.width_tokens == 1 and count <= TEXT_TOKENS:
        result["texts"] = [text_at(capture, t) for t in range(strip.start, strip.start + count)]
    return result, [quantise(strip, windows.limits[metric])]


def _range(
    capture: Capture, *, start: int, stop: int, ranges: Sequence[Sequence[int]] | None = None
) -> tuple[dict[str, Any], list[bytes]]:
    windows = RoutingWindows.of(capture)
    pieces = _pieces(capture, start, stop, ranges)
    means = [windows.mean("entropy", *piece) for piece in pieces]
    held = sum(count for _, count in means)
    mean = sum(value * count for value, count in means if count) / held if held else float("nan")
    first, last = pieces[0][0], pieces[-1][1]
    result = {"start": first, "stop": last, "text": _excerpt(capture, first, last), "entropy_bits": number(mean)}
    return result, list(load_bytes(windows, pieces))


def _against(
    capture: Capture, against: Capture | None, *, start: int, stop: int, ranges: Sequence[Sequence[int]] | None = None
) -> tuple[dict[str, Any], list[bytes]]:
    beside = RoutingDifference(capture, _other(against))
    found = beside.load(_pieces(capture, start, stop, ranges))
    return {"same_tokens": beside.same_tokens}, [f32(values) for values in found]


def _other(against: Capture | None) -> Capture:
    if against is None:
        raise SelectionError("there is no other capture: RoutingMap(cap, against=other)")
    return against


def _pieces(capture: Capture, start: int, stop: int, ranges: Sequence[Sequence[int]] | None) -> list[tuple[int, int]]:
    """The ranges that are meant, checked and in order."""
    if not ranges:
        return [check_range(capture.routing, int(start), int(stop))]
    return check_region(capture, ranges)


def check_region(capture: Capture, ranges: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Ranges of tokens that do not overlap, in order.

    Raises
    ------
    SelectionError
        They overlap, are out of order, outside the capture, or too many.
    """
    if len(ranges) > MOST_RANGES:
        raise SelectionError(f"{len(ranges):,} ranges at once: a region has at most {MOST_RANGES:,}")
    found = [check_range(capture.routing, int(pair[0]), int(pair[1])) for pair in ranges]
    if any(one[1] > two[0] for one, two in itertools.pairwise(found)):
        raise SelectionError(f"the ranges of a region must be in order and must not overlap, unlike {found[:4]}")
    return found


def _favourites(capture: Capture, *, layer: int, expert: int) -> dict[str, Any]:
    check_cell(capture.routing, int(layer), int(expert))
    return {"rows": ExpertView(capture, int(layer), int(expert)).favourites()}


def _token(capture: Capture, *, t: int) -> tuple[dict[str, Any], list[bytes]]:
    t, _ = check_range(capture.routing, int(t), int(t) + 1)
    block: Block = next(blocks(capture.routing, t, t + 1))
    total = block.total[0][:, None]
    result = {
        "t": t,
        "id": int(capture.token_ids[t]),
        "text": text_at(capture, t),
        "entropy_bits": [number(v) for v in entropy_bits(block.weight)[0]],
        "sink_mass": [number(v) for v in sink_mass(block)[0]],
    }
    expert = np.ascontiguousarray(block.expert[0], dtype="<u2")
    return result, [expert.tobytes(), f32(block.weight[0] / total), f32(block.sink[0] / total)]


def parts_of(capture: Capture) -> list[dict[str, Any]]:
    """Tokens, mean entropy and mean sink mass per part, weighted by tokens, from the pyramids' finest level."""
    names, groups = group_tokens(capture.spans, "part")
    sums = np.zeros((len(names), 5))
    sums[:, 0] = np.bincount(groups, minlength=len(names))
    at = 0
    for block in blocks(capture.routing):
        here = groups[at : at + len(block.expert)]
        at += len(block.expert)
        for column, values in ((1, entropy_bits(block.weight)), (3, sink_mass(block))):
            held = ~np.isnan(values)
            sums[:, column] += np.bincount(here, weights=np.where(held, values, 0).sum(1), minlength=len(names))
            sums[:, column + 1] += np.bincount(here, weights=held.sum(1), minlength=len(names))
    modality = dict.fromkeys(names, "framing")
    for span in capture.spans:
        if span.part and span.label in modality:
            modality[span.label] = span.modality
    return [
        {"label": name, "modality": modality[name], "tokens": int(row[0]),
         "entropy_bits": number(row[1] / row[2] if row[2] else np.nan),
         "sink_mass": number(row[3] / row[4] if row[4] else np.nan)}
        for name, row in zip(names, sums, strict=True)
    ]  # fmt: skip


def _parts_asked(capture: Capture) -> dict[str, Any]:
    return {"parts": parts_of(capture)}


def load_bytes(windows: RoutingWindows, pieces: Sequence[tuple[int, int]]) -> tuple[bytes, bytes, bytes]:
    share, chosen, sink = load_of(windows, pieces)
    return f32(share), f32(chosen), f32(sink)


def text_at(capture: Capture, t: int) -> str:
    """Text of one token; a patch or an audio frame has none."""
    media = span_at(capture.spans, t).modality in ("image", "audio")
    return "" if media else token_text(int(capture.token_ids[t]))


def _excerpt(capture: Capture, start: int, stop: int) -> str:
    """Text of a range; media tokens have none."""
    text = text_of(capture.token_ids[start:stop], limit_tokens=EXCERPT_TOKENS).strip()
    return "" if text == "…" else text


def quantise(strip: Strip, limits: tuple[float, float]) -> bytes:
    """Values of a strip as uint8 (l,b): 0 to 254 span `limits`, 255 where nothing was written."""
    low, high = limits
    with np.errstate(invalid="ignore"):
        scaled = np.clip((strip.values - low) / max(high - low, 1e-12), 0, 1) * (MISSING - 1)
        return np.where(np.isnan(scaled), MISSING, np.round(scaled)).astype(np.uint8).tobytes()


def number(value: Any) -> float | None:
    """A number for JSON, which has no NaN."""
    return None if np.isnan(value) else round(float(value), 5)


def f32(values: np.ndarray) -> bytes:
    return np.ascontiguousarray(values, dtype="<f4").tobytes()
