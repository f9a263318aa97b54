"""The routing map's data for any host: its traits, and the answers to what it asks while one looks around.

Used by the notebook widget, by the app and by reports, which differ only in how bytes travel. Requests as in
:mod:`workbench.view_requests`:

    verb    args                                                result; buffers
    strip   metric, stat, start, stop, buckets, layer, expert   start, width, buckets, rows; uint8 (l,b), 255 where not written
    range   start, stop                                         start, stop, text, entropy_bits; float32 share (l,e), chosen (l,e), sink (l,s)
    parts   –                                                   parts: label, modality, tokens, entropy_bits, sink_mass; walks the capture
    token   t                                                   t, id, text, entropy_bits (l); uint16 expert (l,k), float32 share (l,k), sink (l,s)

`layer` is the model's index. Every answer stays under 1 MB. This module knows no widget library and no HTTP.
"""  # noqa: E501  the table is read as a table

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.protocol import AudioPlace, ImagePlace, Span, TextPlace, span_at

from . import palettes
from .routing import Block, blocks, check_range, entropy_bits, group_tokens, sink_mass
from .routing_windows import SMALL_TOKENS, RoutingWindows, Strip
from .token_text import text_of, token_text
from .view_requests import answered

if TYPE_CHECKING:
    from .captures import Capture

OVERVIEW_BUCKETS = 1_024
"""Buckets of the strips that come with the traits: first paint needs no question."""

EXCERPT_TOKENS = 48
TEXT_TOKENS = 64
"""Windows of single tokens up to this long come with their texts: the strip has room to print them."""

MISSING = 255
"""Strip value of a bucket without any written token; 0 to 254 span the metric's limits."""


def traits(capture: Capture, *, parts: bool = False) -> dict[str, Any]:
    """Initial state of the map: JSON values, and bytes for arrays.

    Parameters
    ----------
    parts : bool
        With the table of parts even where the capture is so long that walking it delays the first picture; the page asks otherwise.

    Returns
    -------
    dict
        ``meta`` (sizes, layers, limits, spans, parts, notices), ``share`` and ``chosen`` (float32 (l,e)), ``sink`` (float32 (l,s)),
        ``entropy`` and ``sink_mass`` (uint8 (l,b) overview strips), ``palette`` (256 × RGB), and what both sides may set:
        ``metric``, ``stat``, ``selection``, ``cell``, ``window``.
    """
    windows = RoutingWindows.of(capture)
    strips = {name: windows.strip(name, 0, windows.tokens, OVERVIEW_BUCKETS) for name in ("entropy", "sink")}
    share, chosen, sink = _load(windows, 0, windows.tokens)
    return {
        "meta": _meta(capture, windows, strips["entropy"], parts=parts or windows.tokens <= SMALL_TOKENS),
        "share": share,
        "chosen": chosen,
        "sink": sink,
        "entropy": quantise(strips["entropy"], windows.limits["entropy"]),
        "sink_mass": quantise(strips["sink"], windows.limits["sink"]),
        "palette": palettes.cividis_bytes(),
        "metric": "sink",
        "stat": "mean",
        "selection": [],
        "cell": [],
        "window": [0, windows.tokens],
    }


def answer(capture: Capture, request: Any) -> tuple[dict[str, Any], list[bytes]]:
    """Answer one request of the map; one that cannot be answered becomes an error answer."""
    verbs = {"strip": _strip, "range": _range, "token": _token, "parts": _parts_asked}
    return answered(request, {name: partial(verb, capture) for name, verb in verbs.items()})


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
        "texts": [_text(capture, t) for t in range(sizes["t"])],
    }  # fmt: skip


def _strip(
    capture: Capture, *, metric: Any, start: int, stop: int, buckets: int, stat: Any = "mean", layer: int | None = None,
    expert: int | None = None,
) -> tuple[dict[str, Any], list[bytes]]:  # fmt: skip
    windows = RoutingWindows.of(capture)
    strip = windows.strip(metric, int(start), int(stop), int(buckets), stat=stat, layer=layer, expert=expert)
    rows, count = strip.values.shape
    result = {"metric": metric, "stat": stat, "start": strip.start, "width": strip.width_tokens, "buckets": count, "rows": rows}
    if strip.width_tokens == 1 and count <= TEXT_TOKENS:
        result["texts"] = [_text(capture, t) for t in range(strip.start, strip.start + count)]
    return result, [quantise(strip, windows.limits[metric])]


def _range(capture: Capture, *, start: int, stop: int) -> tuple[dict[str, Any], list[bytes]]:
    windows = RoutingWindows.of(capture)
    start, stop = check_range(capture.routing, int(start), int(stop))
    mean = windows.strip("entropy", start, stop, 1).values
    result = {"start": start, "stop": stop, "text": _excerpt(capture, start, stop), "entropy_bits": _number(_mean(mean))}
    return result, list(_load(windows, start, stop))


def _token(capture: Capture, *, t: int) -> tuple[dict[str, Any], list[bytes]]:
    t, _ = check_range(capture.routing, int(t), int(t) + 1)
    block: Block = next(blocks(capture.routing, t, t + 1))
    total = block.total[0][:, None]
    result = {
        "t": t,
        "id": int(capture.token_ids[t]),
        "text": _text(capture, t),
        "entropy_bits": [_number(v) for v in entropy_bits(block.weight)[0]],
        "sink_mass": [_number(v) for v in sink_mass(block)[0]],
    }
    expert = np.ascontiguousarray(block.expert[0], dtype="<u2")
    return result, [expert.tobytes(), _f32(block.weight[0] / total), _f32(block.sink[0] / total)]


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
        "parts": _parts(capture, windows) if parts else None,
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


def _parts(capture: Capture, windows: RoutingWindows) -> list[dict[str, Any]]:
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
         "entropy_bits": _number(row[1] / row[2] if row[2] else np.nan),
         "sink_mass": _number(row[3] / row[4] if row[4] else np.nan)}
        for name, row in zip(names, sums, strict=True)
    ]  # fmt: skip


def _parts_asked(capture: Capture) -> dict[str, Any]:
    return {"parts": _parts(capture, RoutingWindows.of(capture))}


def _load(windows: RoutingWindows, start: int, stop: int) -> tuple[bytes, bytes, bytes]:
    found = windows.load(start, stop)
    with np.errstate(divide="ignore", invalid="ignore"):
        chosen = found["count"].values / found["tokens"].values[:, None]
    return _f32(found["share"].values), _f32(chosen), _f32(found["sink"].values)


def _text(capture: Capture, t: int) -> str:
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


def _mean(values: np.ndarray) -> float:
    held = values[~np.isnan(values)]
    return float(held.mean()) if held.size else float("nan")


def _number(value: Any) -> float | None:
    """A number for JSON, which has no NaN."""
    return None if np.isnan(value) else round(float(value), 5)


def _f32(values: np.ndarray) -> bytes:
    return np.ascontiguousarray(values, dtype="<f4").tobytes()
