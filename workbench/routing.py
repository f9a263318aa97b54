"""Expert routing in numbers: load, sink mass and entropy, whole or by modality, part and span.

Every function takes the ``routing`` dataset of a capture and walks it in blocks of tokens, so that a million tokens on disk need
a few tens of megabytes of memory. Nothing here draws.

Index letters: ``t`` token, ``l`` layer, ``e`` expert, ``k`` rank in top-k, ``s`` sink.

The router gives each token `k` experts and every sink a weight; together they sum to ``route_scale × global_scale``. *Share*
below is a weight divided by that sum, so that the shares of one token in one layer sum to 1, sinks included. A token that was
never written (a partial capture) has no weights; it counts nowhere, and its per-token values are NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from engine.protocol import Span

from .errors import SelectionError

if TYPE_CHECKING:
    import xarray as xr

BLOCK_TOKENS = 16_384
"""Tokens per block; equal to the chunk of a saved capture."""

By = Literal["modality", "part", "span"]


@dataclass(frozen=True, slots=True)
class Block:
    """Tokens `start` to `start + len` of a routing dataset as plain arrays."""

    start: int
    expert: NDArray[np.uint16]  # (t, l, k)
    weight: NDArray[np.float32]  # (t, l, k)
    sink: NDArray[np.float32]  # (t, l, s)

    @property
    def total(self) -> NDArray[np.float32]:
        """Sum of all weights, sinks included, shape (t, l); NaN for a row that was never written."""
        total = self.weight.sum(-1) + self.sink.sum(-1)
        return np.where(total > 0, total, np.float32(np.nan))


def blocks(routing: xr.Dataset, start: int = 0, stop: int | None = None, *, rows: int = BLOCK_TOKENS) -> Iterator[Block]:
    """Walk tokens `start` to `stop` in blocks that begin at multiples of `rows`."""
    stop = routing.sizes["t"] if stop is None else stop
    for at in range(start - start % rows, stop, rows):
        low, high = max(at, start), min(at + rows, stop)
        part = {name: routing[name].isel(t=slice(low, high)).values for name in ("expert", "weight", "sink")}
        yield Block(low, part["expert"], part["weight"], part["sink"])


def entropy_bits(weight: NDArray[np.floating]) -> NDArray[np.float32]:
    """Entropy of the weights among the chosen experts, in bits, over the last axis: 0 (one takes all) to log2 k (all equal).

    Examples
    --------
    >>> entropy_bits(np.array([[0.5, 0.5], [1.0, 0.0]]))
    array([1., 0.], dtype=float32)
    """
    weight = weight.astype(np.float32, copy=False)
    total = weight.sum(-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = weight / total
        terms = np.where(p > 0, p * np.log2(p), np.float32(0))
    bits = np.maximum(-terms.sum(-1), np.float32(0))
    return np.where(total[..., 0] > 0, bits, np.float32(np.nan)).astype(np.float32)


def sink_mass(block: Block) -> NDArray[np.float32]:
    """Share that the sinks hold together, shape (t, l), 0 to 1."""
    return block.sink.sum(-1) / block.total


def per_token(routing: xr.Dataset, start: int = 0, stop: int | None = None) -> xr.Dataset:
    """Entropy and sink mass of every token in a range.

    Returns
    -------
    xarray.Dataset
        ``entropy`` (t,l) in bits, ``sink_mass`` (t,l) from 0 to 1, both float32; NaN where nothing was written.
    """
    import xarray as xr

    start, stop = check_range(routing, start, stop)
    shape = (stop - start, routing.sizes["l"])
    entropy, mass = np.empty(shape, np.float32), np.empty(shape, np.float32)
    for block in blocks(routing, start, stop):
        rows = slice(block.start - start, block.start - start + len(block.expert))
        entropy[rows], mass[rows] = entropy_bits(block.weight), sink_mass(block)
    return xr.Dataset(
        {
            "entropy": (("t", "l"), entropy, {"units": "bit", "long_name": "entropy of the chosen experts' weights"}),
            "sink_mass": (("t", "l"), mass, {"units": "1", "long_name": "share of the weight held by the sinks"}),
        },
        coords={"t": np.arange(start, stop), "l": routing["l"].values},
    )


def load(routing: xr.Dataset, *, start: int = 0, stop: int | None = None) -> xr.Dataset:
    """How much each expert of each layer is used by a range of tokens.

    Returns
    -------
    xarray.Dataset
        ``count`` (l,e) int64: times chosen, summing to k × tokens per layer. ``share`` (l,e) float64: its part of all weight;
        ``sink`` (l,s) float64: each sink's part; per layer ``share`` and ``sink`` sum to 1. ``tokens`` (l) int64: tokens that
        were written; where it is 0 the shares are NaN.

    Raises
    ------
    SelectionError
        The range is empty or outside the capture.
    """
    start, stop = check_range(routing, start, stop)
    return _grouped(routing, np.zeros(stop - start, np.int64), ["all"], start, stop).isel(group=0, drop=True)


def load_by(routing: xr.Dataset, spans: Sequence[Span], by: By = "modality") -> xr.Dataset:
    """As :func:`load`, once per modality, part or span, along a dimension of that name.

    A span is named by its label and first token (``chart.png @120``), a part by the label of its first span; framing that belongs
    to no part is ``framing``.

    Raises
    ------
    SelectionError
        Not a grouping.
    """
    names, groups = group_tokens(spans, by)
    result = _grouped(routing, groups[routing["t"].values], names, 0, routing.sizes["t"])
    return result.rename(group=by)


def group_tokens(spans: Sequence[Span], by: By) -> tuple[list[str], NDArray[np.int64]]:
    """Names of the groups, in order of appearance, and the group of every token, shape (t,).

    Raises
    ------
    SelectionError
        Not a grouping.
    """
    if by not in get_args(By):
        raise SelectionError(f"cannot group by {by!r}: by must be 'modality', 'part' or 'span'")
    names: list[str] = []
    known: dict[str, int] = {}
    lengths, numbers = [], []
    for span in spans:
        if by == "modality":
            key, name = span.modality, span.modality
        elif by == "part":
            key, name = (span.part, span.label) if span.part else ("framing", "framing")
        else:
            key = name = f"{span.label} @{span.start}"
        if key not in known:
            known[key] = len(names)
            names.append(name)
        lengths.append(len(span))
        numbers.append(known[key])
    return names, np.repeat(np.asarray(numbers, np.int64), lengths)


def check_range(routing: xr.Dataset, start: int, stop: int | None) -> tuple[int, int]:
    """`start` and `stop` of a token range.

    Raises
    ------
    SelectionError
        The range is empty or outside the capture.
    """
    tokens = routing.sizes["t"]
    stop = tokens if stop is None else stop
    if not 0 <= start < stop <= tokens:
        raise SelectionError(f"tokens {start} to {stop} are not a range within this capture's 0 to {tokens}")
    return start, stop


def check_cell(routing: xr.Dataset, layer: int, expert: int) -> int:
    """Position along `l` of the model's layer `layer`.

    Raises
    ------
    SelectionError
        The capture has no such layer, or the layer no such expert.
    """
    layers = routing["l"].values
    found = np.flatnonzero(layers == layer)
    if not len(found):
        raise SelectionError(f"layer {layer} has no routing in this capture; layers with routing: {layers.tolist()}")
    if not 0 <= expert < routing.attrs["experts"]:
        raise SelectionError(f"no expert {expert}: layer {layer} has experts 0 to {routing.attrs['experts'] - 1}")
    return int(found[0])


def expert_share(routing: xr.Dataset, layer: int, expert: int, start: int = 0, stop: int | None = None) -> NDArray[np.float32]:
    """Share of one expert of one layer for each token of a range: 0 where it was not chosen. Shape (t,)."""
    start, stop = check_range(routing, start, stop)
    column = routing.isel(l=slice(check_cell(routing, layer, expert), None)).isel(l=slice(0, 1))
    found = [
        np.where(block.expert == expert, block.weight, np.float32(0)).sum(-1)[:, 0] / block.total[:, 0]
        for block in blocks(column, start, stop)
    ]
    return np.concatenate(found)


def accumulate(
    block: Block, groups: NDArray[np.int64], sizes: tuple[int, int, int, int]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Counts (g,l,e), shares (g,l,e), sink shares (g,l,s) and written tokens (g,l) of one block; `sizes` are g, l, e, s."""
    n_g, n_l, n_e, n_s = sizes
    total = block.total
    written = ~np.isnan(total)
    scale = np.where(written, 1.0 / np.where(written, total, 1.0), 0.0)
    rows = groups[:, None] * n_l + np.arange(n_l)[None, :]  # (t, l)
    cells = (rows[..., None] * n_e + block.expert).ravel()
    chosen = np.broadcast_to(written[..., None], block.expert.shape).ravel()
    count = np.bincount(cells, weights=chosen, minlength=n_g * n_l * n_e).astype(np.int64)
    share: NDArray[Any] = np.bincount(cells, weights=(block.weight * scale[..., None]).ravel(), minlength=n_g * n_l * n_e)
    sink_cells = (rows[..., None] * n_s + np.arange(n_s)).ravel()
    sink: NDArray[Any] = np.bincount(sink_cells, weights=(block.sink * scale[..., None]).ravel(), minlength=n_g * n_l * n_s)
    tokens = np.bincount(rows.ravel(), weights=written.ravel(), minlength=n_g * n_l).astype(np.int64)
    return count.reshape(n_g, n_l, n_e), share.reshape(n_g, n_l, n_e), sink.reshape(n_g, n_l, n_s), tokens.reshape(n_g, n_l)


def _grouped(routing: xr.Dataset, groups: NDArray[np.int64], names: list[str], start: int, stop: int) -> xr.Dataset:
    sizes = (len(names), routing.sizes["l"], int(routing.attrs["experts"]), routing.sizes["s"])
    n_g, n_l, n_e, n_s = sizes
    count, tokens = np.zeros((n_g, n_l, n_e), np.int64), np.zeros((n_g, n_l), np.int64)
    share, sink = np.zeros((n_g, n_l, n_e)), np.zeros((n_g, n_l, n_s))
    for block in blocks(routing, start, stop):
        here = groups[block.start - start : block.start - start + len(block.expert)]
        more = accumulate(block, here, sizes)
        for held, new in zip((count, share, sink, tokens), more, strict=True):
            held += new
    return load_dataset(count, share, sink, tokens, routing, names)


def load_dataset(
    count: np.ndarray, share: np.ndarray, sink: np.ndarray, tokens: np.ndarray, routing: xr.Dataset, names: list[str]
) -> xr.Dataset:
    """Sums per group as the dataset of :func:`load_by`; shares are divided by the tokens that were written."""
    import xarray as xr

    with np.errstate(divide="ignore", invalid="ignore"):
        share, sink = share / tokens[..., None], sink / tokens[..., None]
    return xr.Dataset(
        {
            "count": (("group", "l", "e"), count, {"units": "tokens"}),
            "share": (("group", "l", "e"), share, {"units": "1"}),
            "sink": (("group", "l", "s"), sink, {"units": "1"}),
            "tokens": (("group", "l"), tokens, {"units": "tokens"}),
        },
        coords={"group": names, "l": routing["l"].values, "e": np.arange(count.shape[-1])},
    )
