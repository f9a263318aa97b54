"""The attention view's data for any host: its traits, and the answers to what it asks.

Used by the notebook widget and the app. A query is named by its index among the recorded ones, a layer by the model's index, a head
likewise or by -1 for the mean over heads. Requests as in :mod:`workbench.view_requests`:

    verb     args                                        result; buffers
    row      query, layer, head, start, stop, buckets    start, width, buckets; float32 (3,b): weight, content, bias; NaN where unknown
    parts    query, layer, head                          rows: label, modality, tokens, weight, content, bias, ranges
    heads    query, start, stop                          float32 (5,l,h): selection, bias share, bits moved, distance, entropy
    tokens   query, layer, head, start, stop             texts, exact; float32 (t): weight of each key
    media    index                                       kind, rows, cols or seconds; PNG, or float32 (2,n): lowest and highest sample
    profile  query, layer                                reach, inside; float32 bank (r,d), float32 profile (h,d) where recorded
    mask     ranges                                      as `effects`: starts to measure what the reply loses without these tokens
    effects  –                                           running, prefill, found (see :mod:`workbench.effects`)
    stop     –                                           stopped

Every answer stays under 1 MB. This module knows no widget library and no HTTP.
"""  # noqa: E501  the table is read as a table

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.protocol import MaskSpan, span_at

from . import palettes
from .attention_windows import MEAN, AttentionWindows
from .effects import NO_ENGINE, Effects
from .errors import SelectionError
from .media_views import media_list, medium
from .routing_views import span_json
from .seam_analysis import CORRELATION, notes_of
from .token_text import token_text
from .view_requests import answered

if TYPE_CHECKING:
    from engine import Engine
    from engine.protocol import Reply

    from .captures import Capture

PASSAGE_TOKENS = 600
"""Tokens of a passage that are shown one by one."""

MEASURES = ("selection", "share", "bits", "distance", "entropy")
MOST_QUERIES = 512


@dataclass(frozen=True, slots=True, eq=False)
class AttentionSubject:
    """What one view is over.

    Attributes
    ----------
    capture : Capture
        With attention.
    effects : Effects
        Measurements on the reply, where there is an engine.
    """

    capture: Capture
    windows: AttentionWindows
    effects: Effects

    @classmethod
    def of(cls, capture: Capture, engine: Engine | None = None, reply: Reply | None = None) -> AttentionSubject:
        """The subject of a view over `capture`."""
        return cls(capture, AttentionWindows(capture.attention), Effects(engine, reply))


def traits(subject: AttentionSubject) -> dict[str, Any]:
    """Initial state of the view: JSON values, and bytes for arrays.

    Returns
    -------
    dict
        ``meta``, ``measures`` (float32 (5,l,h) of the first query), ``palette`` (256 × RGB), and what both sides may set:
        ``query``, ``layer``, ``head``, ``selection``, ``window``.
    """
    windows = subject.windows
    return {
        "meta": _meta(subject),
        "measures": _measures(subject, 0, None).tobytes(),
        "palette": palettes.cividis_bytes(),
        "query": 0,
        "layer": int(windows.layers[-1]),
        "head": MEAN,
        "selection": [],
        "window": [0, windows.tokens],
    }


def answer(subject: AttentionSubject, request: Any) -> tuple[dict[str, Any], list[bytes]]:
    """Answer one request of the view; one that cannot be answered becomes an error answer."""
    verbs = {
        "row": _row, "parts": _parts, "heads": _heads, "tokens": _tokens, "media": _media, "profile": _profile, "mask": _mask,
        "effects": _effects, "stop": _stop,
    }  # fmt: skip
    return answered(request, {name: partial(verb, subject) for name, verb in verbs.items()})


def part_rows(subject: AttentionSubject, query: int, layer: int, head: int) -> list[dict[str, Any]]:
    """Weight, and mean logits of content and bias under it, per part: heaviest first. Framing is one row of its own.

    A part is of the kind that most of its tokens are: a document's name and page marks are framing, the document is not.
    """
    rows: dict[str, dict[str, Any]] = {}
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    numbers, group = [], {}
    for span in subject.capture.spans:
        key = span.part or "framing"
        numbers.append(group.setdefault(key, len(group)))
        kinds[key][span.modality] += len(span)
        row = rows.setdefault(key, {"label": span.label if span.part else "framing", "tokens": 0, "ranges": []})
        row["label"] = _shared(row["label"], span.label) if span.part else "framing"
        row["tokens"] += len(span)
        if row["ranges"] and row["ranges"][-1][1] == span.start:
            row["ranges"][-1][1] = span.stop
        else:
            row["ranges"].append([span.start, span.stop])
    starts = np.array([span.start for span in subject.capture.spans])
    sums = subject.windows.sums_by(query, layer, head, starts, np.array(numbers), len(rows))
    for key, row in rows.items():
        row["modality"] = kinds[key].most_common(1)[0][0] if key != "framing" else "framing"
    for row, (weight, content, bias) in zip(rows.values(), sums, strict=True):
        row["weight"] = round(float(weight), 6)
        row["content"] = _number(content / weight) if weight > 0 else None
        row["bias"] = _number(bias / weight) if weight > 0 else None
    return sorted(rows.values(), key=lambda row: -row["weight"])


def _meta(subject: AttentionSubject) -> dict[str, Any]:
    capture, windows = subject.capture, subject.windows
    shape = capture.provenance.get("architecture") or {}
    extent, window = int(shape.get("extent") or 0), int(shape.get("window") or 0)
    ids = capture.token_ids
    return {
        "tokens": windows.tokens,
        "keep": windows.keep,
        "finest": windows.finest_tokens,
        "top": int(windows.data.sizes.get("k", 0)),
        "layers": windows.layers.tolist(),
        "globals": [int(layer) for layer in windows.layers if layer in (shape.get("global_layers") or ())],
        "heads": windows.heads.tolist(),
        "extent": extent,
        "sliding": window,
        "queries": [
            {"t": int(t), "text": _text(capture, int(t)), "next": _text(capture, int(t) + 1) if t + 1 < len(ids) else ""}
            for t in windows.queries[:MOST_QUERIES]
        ],
        "queries_in_all": len(windows.queries),
        "profiles": "profile" in windows.data,
        "reply_start": _reply_start(subject),
        "spans": [span_json(span) for span in capture.spans],
        "media": media_list(capture.rendered),
        "modalities": palettes.MODALITY_COLOURS,
        "missing": palettes.MISSING_COLOUR,
        "notices": list(notes_of(capture)),
        "foot": CORRELATION,
        "causes": "" if subject.effects.ready else NO_ENGINE,
    }  # fmt: skip


def _reply_start(subject: AttentionSubject) -> int:
    """First token of the reply, or -1: a query at `t` chooses token `t + 1`."""
    reply = subject.effects.reply
    return len(subject.capture) - len(reply.token_ids) if reply is not None else -1


def _measures(subject: AttentionSubject, query: int, selection: tuple[int, int] | None) -> np.ndarray:
    windows = subject.windows
    names = ["size_bias", "size_content", "bias_bits", "distance", "entropy"]
    block = windows.data[names].isel(q=int(query)).load()
    bias, content, bits, distance, entropy = (block[name].transpose("l", "h").values.astype(np.float64) for name in names)
    total = bias + content
    share = np.divide(bias, total, out=np.zeros_like(total), where=total > 0)
    on = windows.on_range(query, *selection) if selection else np.full(share.shape, np.nan)
    return np.stack([on, share, bits, distance, entropy]).astype("<f4")


def _row(
    subject: AttentionSubject, *, query: int, layer: int, head: int, start: int, stop: int, buckets: int
) -> tuple[dict[str, Any], list[bytes]]:
    found = subject.windows.row(query, layer, head, start, stop, int(buckets))
    result = {"start": found.start, "width": found.width_tokens, "buckets": found.values.shape[1], "rows": 3}
    if found.width_tokens == 1 and found.values.shape[1] <= 64:
        result["texts"] = [_text(subject.capture, t) for t in range(found.start, found.start + found.values.shape[1])]
    return result, [np.ascontiguousarray(found.values, "<f4").tobytes()]


def _parts(subject: AttentionSubject, *, query: int, layer: int, head: int) -> dict[str, Any]:
    return {"rows": part_rows(subject, query, layer, head)}


def _heads(
    subject: AttentionSubject, *, query: int, start: int | None = None, stop: int | None = None
) -> tuple[dict[str, Any], list[bytes]]:
    subject.windows.place(query, int(subject.windows.layers[0]), MEAN)
    selection = None if start is None or stop is None else subject.windows.range(start, stop)
    return {"query": int(query)}, [_measures(subject, query, selection).tobytes()]


def _tokens(
    subject: AttentionSubject, *, query: int, layer: int, head: int, start: int, stop: int
) -> tuple[dict[str, Any], list[bytes]]:
    start, stop = subject.windows.range(start, stop)
    stop = min(stop, start + PASSAGE_TOKENS)
    texts = [_text(subject.capture, t) for t in range(start, stop)]
    weights = subject.windows.weights(query, layer, head, start, stop)
    result = {"start": start, "stop": stop, "texts": texts, "finest": subject.windows.finest_tokens}
    return result, [weights.astype("<f4").tobytes()]


def _media(subject: AttentionSubject, *, index: int) -> tuple[dict[str, Any], list[bytes]]:
    return medium(subject.capture.rendered, index=index)


def _profile(subject: AttentionSubject, *, query: int, layer: int) -> tuple[dict[str, Any], list[bytes]]:
    windows = subject.windows
    at = windows.place(query, layer, MEAN)
    bank = windows.data["bank"].isel(l=at["l"]).values
    reach = int((~np.isnan(bank[0])).sum()) if len(bank) else 0
    buffers = [np.ascontiguousarray(bank[:, :reach], "<f4").tobytes()]
    if "profile" in windows.data:
        mixed = windows.data["profile"].isel(at).transpose("h", "d").values
        buffers.append(np.ascontiguousarray(mixed[:, :reach], "<f4").tobytes())
    return {"reach": reach, "profiles": len(bank), "heads": len(windows.heads)}, buffers


def mask(subject: AttentionSubject, ranges: Sequence[Sequence[int]]) -> str:
    """Begin to measure what the reply loses without these tokens; the key under which the effect is found."""
    if not ranges:
        raise SelectionError("there is nothing to mask: choose some tokens")
    found = [subject.windows.range(*pair) for pair in ranges]
    key = ",".join(f"{start}-{stop}" for start, stop in found)
    subject.effects.start(key, [MaskSpan(start=start, stop=stop, sconv=True) for start, stop in found])
    return key


def _mask(subject: AttentionSubject, *, ranges: list[list[int]]) -> dict[str, Any]:
    mask(subject, ranges)
    return subject.effects.state()


def _effects(subject: AttentionSubject) -> dict[str, Any]:
    return subject.effects.state()


def _stop(subject: AttentionSubject) -> dict[str, Any]:
    subject.effects.stop()
    return {"stopped": True}


def _text(capture: Capture, t: int) -> str:
    """Text of one token; a patch or an audio frame has none."""
    media = span_at(capture.spans, t).modality in ("image", "audio")
    return "" if media else token_text(int(capture.token_ids[t]))


def _shared(one: str, other: str) -> str:
    """What the labels of a part's spans share: the name of a document before its pages."""
    return one if one == other else one.split(", page ")[0]


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)
