"""Windows of one recorded attention row, at any zoom, whatever was kept of it: every key, the largest ones, or sums.

A row belongs to a query token, a layer and a head; head -1 is the mean over all recorded heads. Nothing is read but the window that
is asked for. Legend: T tokens, B buckets, H heads, L layers. What a row cannot tell at some zoom it says (``finest_tokens``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from .errors import SelectionError
from .seam_analysis import position_of

if TYPE_CHECKING:
    import xarray as xr

MOST_BUCKETS = 4_096
BLOCK_TOKENS = 65_536
LANES = ("weight", "content", "bias")
MEAN = -1
"""Head that stands for the mean over all recorded heads."""


@dataclass(frozen=True, slots=True, eq=False)
class RowWindow:
    """Keys `start` onward in buckets of `width_tokens`.

    Attributes
    ----------
    values : ndarray of float32, shape (3, B)
        Sum of the weight; content and bias as means under the weight. NaN where nothing is known.
    """

    start: int
    width_tokens: int
    values: NDArray[np.float32]


class AttentionWindows:
    """The recorded rows of one capture.

    Attributes
    ----------
    keep : {"pooled", "topk", "whole"}
    queries, layers, heads : ndarray of int
        Token positions, and the model's indices.
    tokens : int
        Keys there are.
    finest_tokens : int
        Fewest tokens a bucket can have.
    """

    def __init__(self, data: xr.Dataset) -> None:
        self.data, self.keep, self.tokens = data, str(data.attrs["keep"]), int(data.attrs["tokens"])
        self.queries: NDArray[np.int64] = np.asarray(data["q"].values)
        self.layers: NDArray[np.int64] = np.asarray(data["l"].values)
        self.heads: NDArray[np.int64] = (
            np.asarray(data["h"].values) if "h" in data.coords else np.arange(data.sizes["h"], dtype=np.int64)
        )
        self.finest_tokens = 1
        if self.keep == "pooled":
            edges = data["b"].values
            self.finest_tokens = int(edges[1] - edges[0]) if len(edges) > 1 else self.tokens

    def place(self, query: int, layer: int, head: int) -> dict[str, Any]:
        """Indexers of a row, or of all heads' rows for the mean.

        Raises
        ------
        SelectionError
            It was not recorded; the message says what was.
        """
        if not 0 <= int(query) < len(self.queries):
            raise SelectionError(f"there is no query {query}: 0 to {len(self.queries) - 1} were recorded")
        at: dict[str, Any] = {"q": int(query), "l": position_of(self.data, "l", int(layer), "layer")}
        if int(head) != MEAN:
            at["h"] = position_of(self.data, "h", int(head), "head")
        return at

    def row(self, query: int, layer: int, head: int, start: int, stop: int, buckets: int) -> RowWindow:
        """A row over keys `start` to `stop`, in about `buckets` buckets and never more than one above.

        Raises
        ------
        SelectionError
            A row that was not recorded, or keys that are not there.
        """
        start, stop = self.range(start, stop)
        if not 1 <= buckets <= MOST_BUCKETS:
            raise SelectionError(f"{buckets} buckets: it takes 1 to {MOST_BUCKETS}")
        at = self.place(query, layer, head)
        width = -(-max(-(-(stop - start) // buckets), 1) // self.finest_tokens) * self.finest_tokens
        first = start - start % width
        end = min(self.tokens, -(-stop // width) * width)
        count = -(-(end - first) // width)
        total = np.zeros((3, count))
        seen = np.zeros(count, bool)
        step = max(1, BLOCK_TOKENS // self.finest_tokens) * self.finest_tokens  # so that no bucket lies in two blocks
        for begin in range(first, end, step):
            position, lanes, known = self._read(at, begin, min(end, begin + step))
            bucket = (position - first) // width
            for lane, values in enumerate(lanes):
                np.add.at(total[lane], bucket, values)
            seen[bucket[known]] = True
        values = np.full((3, count), np.nan, np.float32)
        values[0, seen] = total[0, seen]
        with np.errstate(divide="ignore", invalid="ignore"):
            values[1:, seen] = np.where(total[0, seen] > 0, total[1:, seen] / total[0, seen], np.nan)
        return RowWindow(first, width, values)

    def weights(self, query: int, layer: int, head: int, start: int, stop: int) -> NDArray[np.float32]:
        """Weight of every key from `start` to `stop`, shape (t,); a pooled row spreads a bucket evenly over its keys."""
        found = self.row(query, layer, head, start, stop, min(MOST_BUCKETS, max(1, stop - start)))
        spread = np.repeat(found.values[0] / found.width_tokens, found.width_tokens)
        offset = start - found.start
        return np.nan_to_num(spread[offset : offset + stop - start]).astype(np.float32)

    def sums_by(
        self, query: int, layer: int, head: int, starts: NDArray[np.int64], groups: NDArray[np.int64], count: int
    ) -> NDArray[np.float64]:
        """Weight, weight × content and weight × bias of groups of spans, shape (group, 3); exact for pooled rows too.

        Parameters
        ----------
        starts : ndarray of int
            First token of every span of the context, in order.
        groups : ndarray of int
            Group of each span, 0 to `count` - 1.
        """
        at, total = self.place(query, layer, head), np.zeros((count, 3))
        if self.keep == "pooled":
            block = cast(Any, self.data[list(LANES)].isel(at).load())
            found = [np.nan_to_num(block[name].transpose(..., "span").values).astype(np.float64) for name in LANES]
            np.add.at(total, groups, np.stack([lane.mean(0) if lane.ndim > 1 else lane for lane in found], 1))
            return total
        for begin in range(0, self.tokens, BLOCK_TOKENS):
            position, lanes, _ = self._read(at, begin, min(self.tokens, begin + BLOCK_TOKENS))
            np.add.at(total, groups[np.searchsorted(starts, position, "right") - 1], np.stack(lanes, 1))
        return total

    def on_range(self, query: int, start: int, stop: int) -> NDArray[np.float32]:
        """Weight of each head on keys `start` to `stop`, shape (l, h); a pooled row counts a bucket by the part inside."""
        start, stop = self.range(start, stop)
        at = {"q": int(query)}
        if self.keep == "topk":
            block = self.data[["weight", "key"]].isel(at).load()
            inside = (block["key"].values >= start) & (block["key"].values < stop)
            return np.where(inside, np.nan_to_num(block["weight"].values), 0).sum(-1, dtype=np.float64).astype(np.float32)
        if self.keep == "whole":
            total = np.zeros((len(self.layers), len(self.heads)))
            for begin in range(start, stop, BLOCK_TOKENS):
                block = self.data["weight"].isel(at | {"t": slice(begin, min(stop, begin + BLOCK_TOKENS))})
                total += np.nan_to_num(block.transpose("l", "h", "t").values).sum(-1, dtype=np.float64)
            return total.astype(np.float32)
        spans = self.data["span"].values
        ends = np.append(spans[1:], self.tokens)
        first, last = np.searchsorted(spans, start), np.searchsorted(ends, stop)
        if first < len(spans) and spans[first] == start and last < len(ends) and ends[last] == stop:
            found = self.data["weight"].isel(at | {"span": slice(int(first), int(last) + 1)})
            return found.transpose("l", "h", "span").values.sum(-1, dtype=np.float64).astype(np.float32)
        wide = self.finest_tokens
        low, high = start // wide, -(-stop // wide)
        found = self.data["bucket_weight"].isel(at | {"b": slice(low, high)}).transpose("l", "h", "b").values
        edges = np.arange(low, high) * wide
        sizes = np.minimum(edges + wide, self.tokens) - edges
        part = (np.minimum(edges + wide, stop) - np.maximum(edges, start)) / sizes
        return (found * part).sum(-1, dtype=np.float64).astype(np.float32)

    def range(self, start: int, stop: int) -> tuple[int, int]:
        """The keys, checked.

        Raises
        ------
        SelectionError
        """
        start, stop = int(start), int(stop)
        if not 0 <= start < stop <= self.tokens:
            raise SelectionError(f"there are no keys {start} to {stop}: this capture has 0 to {self.tokens}")
        return start, stop

    def _read(
        self, at: dict[str, Any], start: int, stop: int
    ) -> tuple[NDArray[np.int64], list[NDArray[np.float64]], NDArray[np.bool_]]:
        """Cells of a row from key `start` to `stop`: first keys; weight, weight × content, weight × bias; whether known."""
        if self.keep == "topk":
            block = cast(Any, self.data[["key", *LANES]].isel(at).load())
            key = block["key"].values.reshape(-1)
            inside = (key >= start) & (key < stop)
            weight, content, bias = (np.nan_to_num(block[name].values.reshape(-1)[inside]).astype(np.float64) for name in LANES)
            weight /= block.sizes.get("h", 1)
            return key[inside], [weight, weight * content, weight * bias], np.ones(int(inside.sum()), bool)
        pooled = self.keep == "pooled"
        wide, dim = (self.finest_tokens, "b") if pooled else (1, "t")
        cells = slice(start // wide, -(-stop // wide))
        names = [f"bucket_{name}" if pooled else name for name in LANES]
        block = cast(Any, self.data[names].isel(at | {dim: cells}).load())
        arrays = [block[name].transpose(..., dim).values.astype(np.float64) for name in names]
        known = ~np.isnan(arrays[0])
        lanes = [np.nan_to_num(values) for values in arrays]
        if not pooled:
            known &= ~np.isnan(arrays[1])  # a key that the query cannot see has no logit; its weight is 0
            lanes[1], lanes[2] = lanes[0] * lanes[1], lanes[0] * lanes[2]
        if known.ndim > 1:
            lanes, known = [lane.mean(0) for lane in lanes], known.any(0)
        return np.arange(cells.start, cells.start + len(known)) * wide, lanes, known
