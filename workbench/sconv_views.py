"""The convolution view's data for any host: its traits, and the answers to what it asks.

Used by the notebook widget and the app. A layer is named by the model's index, a site by its name, a tap by how far it reaches back
(0 is the token itself). Requests as in :mod:`workbench.view_requests`:

    verb     args                                                  result; buffers
    strip    metric, site, tap, stat, start, stop, buckets         start, width, buckets, rows, limits; uint8 (l,b), 255 where not recorded
    kernel   layer, site                                           channels, taps, top; float32 (tap,c), channels by the size of their weights
    taps     layer, site, start, stop                              groups: name, tokens, ratio, cosine, share (one per tap)
    token    t                                                     text, ratio, cosine (l by site); NaN as null
    without  sites, layers                                         as `effects`: asks again without these convolutions
    effects  –                                                     running, prefill, found (see :mod:`workbench.effects`)
    stop     –                                                     stopped

Every answer stays under 1 MB. This module knows no widget library and no HTTP.
"""  # noqa: E501  the table is read as a table

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.protocol import ScaleSconv, span_at

from . import palettes
from .effects import NO_ENGINE, Effects
from .errors import SelectionError
from .overviews import Overviews
from .routing import group_tokens
from .routing_answers import quantise
from .routing_views import span_json
from .sconv_windows import SconvWindows
from .seam_analysis import BLOCK_TOKENS, notes_of
from .token_text import token_text
from .view_requests import answered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine import Engine
    from engine.protocol import Reply

    from .captures import Capture

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Of a kernel's weights over its channels, drawn as a band per tap."""

SHOWN_CHANNELS = 2_048
"""Channels of a kernel that are sent: those with the largest weights."""

TEXT_TOKENS = 64
SITE_WORDS = {"k": "keys", "v": "values", "attention": "after attention", "mlp": "after the MLP"}


@dataclass(frozen=True, slots=True, eq=False)
class SconvSubject:
    """What one view is over."""

    capture: Capture
    windows: SconvWindows
    effects: Effects

    @classmethod
    def of(cls, capture: Capture, engine: Engine | None = None, reply: Reply | None = None) -> SconvSubject:
        """The subject of a view over `capture`."""
        return cls(capture, SconvWindows(capture.sconv, len(capture), Overviews(capture)), Effects(engine, reply))


def traits(subject: SconvSubject) -> dict[str, Any]:
    """Initial state of the view: JSON values, and bytes for arrays. Reads the kernels, and nothing along the tokens.

    Returns
    -------
    dict
        ``meta``, ``kernels`` (float32 (l,site,tap,5): quantiles over channels), ``palette`` and ``diverging`` (256 × RGB), and what
        both sides may set: ``metric``, ``site``, ``tap``, ``layer``, ``stat``, ``selection``, ``window``.
    """
    windows, kernels = subject.windows, _kernels(subject.capture)
    return {
        "meta": _meta(subject, kernels["channels"]),
        "kernels": kernels["quantiles"].astype("<f4").tobytes(),
        "palette": palettes.cividis_bytes(),
        "diverging": palettes.diverging_bytes(),
        "metric": "ratio",
        "site": windows.sites[-1],
        "tap": 1,
        "layer": int(windows.layers[0]),
        "stat": "mean",
        "selection": [],
        "window": [0, windows.tokens],
    }


def answer(subject: SconvSubject, request: Any) -> tuple[dict[str, Any], list[bytes]]:
    """Answer one request of the view; one that cannot be answered becomes an error answer."""
    verbs = {
        "strip": _strip, "kernel": _kernel, "taps": _taps, "token": _token, "without": _without, "effects": _effects, "stop": _stop,
    }  # fmt: skip
    return answered(request, {name: partial(verb, subject) for name, verb in verbs.items()})


def kernel_quantiles(capture: Capture) -> np.ndarray:
    """Quantiles of every kernel's weights over its channels, shape (l, site, tap, 5); tap 0 first, NaN where there is none."""
    return _kernels(capture)["quantiles"]


def _kernels(capture: Capture) -> dict[str, np.ndarray]:
    """``quantiles`` (l, site, tap, 5), and the number of ``channels`` (l, site)."""

    def make() -> dict[str, np.ndarray]:
        kernel = capture.sconv["kernel"].transpose("l", "site", "tap", "c")
        out = np.full((*kernel.shape[:3], len(QUANTILES)), np.nan, np.float32)
        channels = np.zeros(kernel.shape[:2], np.int64)
        for row in range(kernel.sizes["l"]):
            values = kernel.isel(l=row).values[:, ::-1]
            channels[row] = (~np.isnan(values[:, -1])).sum(-1)
            held = ~np.isnan(values).all((1, 2))
            if held.any():
                out[row, held] = np.moveaxis(np.nanquantile(values[held], QUANTILES, axis=-1), 0, -1)
        return {"quantiles": out, "channels": channels}

    return Overviews(capture).of("sconv-kernels", make)


def tap_rows(subject: SconvSubject, layer: int, site: str, start: int, stop: int) -> list[dict[str, Any]]:
    """What each tap of one convolution brings over a range of tokens, by modality; sums of norms, as in ``sconv_taps``.

    Raises
    ------
    SelectionError
        No such convolution or tokens.
    """
    windows, data = subject.windows, subject.capture.sconv
    start, stop = windows.range(start, stop)
    at, taps = windows.place(layer, site), windows.taps
    names, groups = group_tokens(subject.capture.spans, "modality")
    sums = np.zeros((len(names), 4 + taps))
    wanted = ["input", "term", "cosine", *(["by_tap"] if taps else [])]
    rows = windows.recorded(start, stop)
    for low in range(rows.start, rows.stop, BLOCK_TOKENS):
        block = data[wanted].isel(at | {"t": slice(low, min(rows.stop, low + BLOCK_TOKENS))}).load()
        here = groups[block["t"].values]
        columns = [
            np.ones(len(here)),
            *(np.nan_to_num(block[name].values.astype(np.float64)) for name in ("input", "term", "cosine")),
        ]
        if taps:
            columns += list(np.nan_to_num(block["by_tap"].values.astype(np.float64))[:, ::-1].T)
        np.add.at(sums, here, np.stack(columns, 1))
    found = []
    for name, row in zip(names, sums, strict=True):
        if row[0]:
            share = [_number(value / row[2]) if row[2] else None for value in row[4:]]
            found.append({
                "name": name, "tokens": int(row[0]), "ratio": _number(row[2] / row[1]) if row[1] else None,
                "cosine": _number(row[3] / row[0]), "share": share,
            })  # fmt: skip
    return found


def check_sites(subject: SconvSubject, sites: Sequence[str], layers: Sequence[int] | str) -> ScaleSconv:
    """The change that leaves these convolutions out.

    Raises
    ------
    SelectionError
        No site, or one that this capture does not have.
    """
    chosen = tuple(str(site) for site in sites)
    if not chosen or set(chosen) - set(subject.windows.sites):
        raise SelectionError(f"sites {', '.join(chosen) or 'none'}: choose some of {', '.join(subject.windows.sites)}")
    where: Any = layers if isinstance(layers, str) else tuple(int(layer) for layer in layers)
    sites_of: Any = chosen
    return ScaleSconv(sites=sites_of, layers=where)


def without(subject: SconvSubject, sites: Sequence[str], layers: Sequence[int] | str = "all") -> str:
    """Begin to ask again without the convolutions at `sites`; the key under which the effect is found."""
    change = check_sites(subject, sites, layers)
    key = f"{','.join(change.sites)}@{layers if isinstance(layers, str) else ','.join(map(str, layers))}"
    subject.effects.start(key, (change,), again=True)
    return key


def _meta(subject: SconvSubject, channels: np.ndarray) -> dict[str, Any]:
    capture, windows = subject.capture, subject.windows
    kernel = capture.sconv["kernel"]
    return {
        "tokens": windows.tokens,
        "recorded": int(capture.sconv.sizes["t"]),
        "layers": windows.layers.tolist(),
        "sites": list(windows.sites),
        "site_words": {site: SITE_WORDS.get(site, site) for site in windows.sites},
        "kernel_taps": int(kernel.sizes["tap"]),
        "taps": windows.taps,
        "channels": channels.tolist(),
        "spans": [span_json(span) for span in capture.spans],
        "modalities": palettes.MODALITY_COLOURS,
        "missing": palettes.MISSING_COLOUR,
        "notices": list(notes_of(capture)),
        "causes": "" if subject.effects.ready else NO_ENGINE,
        "reply": subject.effects.reply.text if subject.effects.reply is not None else "",
    }


def _strip(
    subject: SconvSubject, *, metric: Any, site: str, start: int, stop: int, buckets: int, tap: int = 0, stat: Any = "mean"
) -> tuple[dict[str, Any], list[bytes]]:
    windows = subject.windows
    found = windows.strip(metric, site, int(start), int(stop), int(buckets), tap=int(tap), stat=stat)
    limits = windows.limits(metric, site, int(tap))
    rows, count = found.values.shape
    result = {
        "metric": metric, "site": site, "tap": tap, "stat": stat, "start": found.start, "width": found.width_tokens,
        "buckets": count, "rows": rows, "limits": list(limits),
    }  # fmt: skip
    if found.width_tokens == 1 and count <= TEXT_TOKENS:
        result["texts"] = [_text(subject.capture, t) for t in range(found.start, found.start + count)]
    return result, [quantise(found, limits)]


def _kernel(subject: SconvSubject, *, layer: int, site: str) -> tuple[dict[str, Any], list[bytes]]:
    at = subject.windows.place(layer, site)
    values = subject.capture.sconv["kernel"].isel(at).transpose("tap", "c").values[::-1]
    values = values[:, ~np.isnan(values).any(0)]
    order = np.argsort(-np.abs(values).max(0, initial=0), kind="stable")[:SHOWN_CHANNELS]
    top = float(np.abs(values).max(initial=0))
    shown = np.ascontiguousarray(values[:, order], "<f4")
    return {"channels": int(values.shape[1]), "shown": int(shown.shape[1]), "taps": int(shown.shape[0]), "top": top}, [
        shown.tobytes()
    ]


def _taps(subject: SconvSubject, *, layer: int, site: str, start: int, stop: int) -> dict[str, Any]:
    return {"groups": tap_rows(subject, layer, site, start, stop)}


def _token(subject: SconvSubject, *, t: int) -> dict[str, Any]:
    t, _ = subject.windows.range(t, int(t) + 1)
    result: dict[str, Any] = {"t": t, "text": _text(subject.capture, t)}
    for metric in ("ratio", "cosine"):
        columns = [subject.windows.values((metric, site, 0), t, t + 1)[0] for site in subject.windows.sites]
        result[metric] = [[_number(value) for value in row] for row in np.stack(columns, 1)]
    return result


def _without(subject: SconvSubject, *, sites: list[str], layers: Any = "all") -> dict[str, Any]:
    without(subject, sites, layers)
    return subject.effects.state()


def _effects(subject: SconvSubject) -> dict[str, Any]:
    return subject.effects.state()


def _stop(subject: SconvSubject) -> dict[str, Any]:
    subject.effects.stop()
    return {"stopped": True}


def _text(capture: Capture, t: int) -> str:
    media = span_at(capture.spans, t).modality in ("image", "audio")
    return "" if media else token_text(int(capture.token_ids[t]))


def _number(value: Any) -> float | None:
    return None if np.isnan(value) else round(float(value), 5)
