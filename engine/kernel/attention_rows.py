"""Attention rows of chosen queries over all their keys, from queries, relative logits and the paged keys; nothing of size t × t.

One pass over the keys in chunks, with running maxima: a row of a million keys is never held (but when it is asked for whole). All
sums are of weights ``exp(logit)`` relative to the running maximum and are divided by the row's total at the end.

``logit = scaling × (content + bias)``: `content` is q·k / d of normed queries and keys, `bias` the relative bias, exactly zero
beyond its reach. Inputs come with `scaling` already on both, as the kernels have them. Knows no vLLM; runs on any device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

KEYS = 4_096
"""Keys per chunk: the temporaries of a few dozen rows stay in a processor's cache."""

CHUNK_VALUES = 1 << 21
"""Bound on heads × queries × keys of a chunk: 8 MB per temporary, and there are about eight."""

WHOLE_VALUES = 1 << 23
"""Bound on heads × queries × tokens when rows are kept whole: 32 MB per array, and there are three."""

LN2 = float(np.log(2.0))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is kept of a row.

    Attributes
    ----------
    keep : {"pooled", "topk", "whole"}
    tokens : int
        Length of the context: the axis of whole rows.
    top : int
    edges : ndarray of int
        First keys of all pools, from 0, rising: the common refinement of spans and buckets.
    """

    keep: str
    tokens: int
    top: int = 0
    edges: np.ndarray | None = None


Spans = tuple[tuple[int, int], ...]
ReadKeys = Callable[[int, int], torch.Tensor]
"""``keys(start, stop)``: float32 keys of positions `start` to `stop`, shape (kv heads, k, c)."""


def attention_rows(
    q: torch.Tensor, relative: torch.Tensor, scaling: torch.Tensor, positions: torch.Tensor, keys: ReadKeys, wanted: Wanted, *,
    heads: list[int], groups: int, scale: float, window: int = 0, hidden: Sequence[Spans] = (),
) -> dict[str, np.ndarray]:  # fmt: skip
    """Rows of some queries.

    Parameters
    ----------
    q : Tensor, shape (q, h, c)
    relative : Tensor, shape (q, h, extent)
    scaling, positions : Tensor, shape (q,)
    heads : list of int
        Of `q`'s heads, those that are wanted; `groups` of them share a key head.
    scale : float
        On q·k.
    window : int
        Keys a query sees, itself included; 0 for all.
    hidden : sequence of tuple of (int, int)
        For each of `heads`: spans of keys that queries at or after a span's end do not see; empty for none at all.

    Returns
    -------
    dict of ndarray
        As :mod:`engine.protocol.captures` has them, without ``attention.``; pooled values per pool of `wanted.edges`.
    """
    per_row = len(heads) * (wanted.tokens if wanted.keep == "whole" else KEYS)
    bound = WHOLE_VALUES if wanted.keep == "whole" else CHUNK_VALUES
    step = max(1, bound // per_row)
    found = []
    for start in range(0, len(q), step):
        part = slice(start, start + step)
        rows = _Rows(
            q[part][:, heads].float(), relative[part][:, heads].float(), scaling[part].float(), positions[part], wanted,
            kv=[head // groups for head in heads], scale=scale, window=window, hidden=hidden,
        )  # fmt: skip
        found.append(rows.run(keys))
    return {name: np.concatenate([piece[name] for piece in found]) for name in found[0]}


class _Rows:
    """One group of queries on its way over the keys; tensors are (h, q, …)."""

    def __init__(
        self, q: torch.Tensor, relative: torch.Tensor, scaling: torch.Tensor, positions: torch.Tensor, wanted: Wanted, *,
        kv: list[int], scale: float, window: int, hidden: Sequence[Spans],
    ) -> None:  # fmt: skip
        self.q, self.relative = q.transpose(0, 1) * scale, relative.transpose(0, 1)
        self.scaling, self.positions, self.wanted = scaling, positions.long(), wanted
        self.kv, self.window, self.hidden = kv, window, hidden
        self.extent = relative.shape[-1]
        shape, device = self.q.shape[:2], q.device
        self.largest = torch.full(shape, -torch.inf, device=device)
        self.sums = {name: torch.zeros(shape, device=device) for name in _SUMS}
        cells = {"pooled": len(wanted.edges) if wanted.edges is not None else 0, "whole": wanted.tokens, "topk": 0}[wanted.keep]
        fill = torch.nan if wanted.keep == "whole" else 0.0
        self.cells = [torch.full((*shape, cells), 0.0 if i == 0 else fill, device=device) for i in range(3)]
        self.best: list[torch.Tensor] | None = None

    def run(self, keys: ReadKeys) -> dict[str, np.ndarray]:
        last, first = int(self.positions.max()), int(self.positions.min())
        begin = max(0, first - self.window + 1) if self.window else 0
        for start in range(begin, last + 1, KEYS):
            self._chunk(start, keys(start, min(start + KEYS, last + 1)))
        return self._finished()

    def _chunk(self, start: int, keys: torch.Tensor) -> None:
        count = keys.shape[1]
        stop = start + count
        content = torch.bmm(self.q, keys[self.kv].transpose(1, 2))
        at = torch.arange(start, stop, device=keys.device)
        distance = self.positions[:, None] - at
        near = stop > int(self.positions.min()) - self.extent + 1
        unseen = self._unseen(distance, start, stop)
        bias = self._bias(distance) if near else None
        logit = content if bias is None else content + bias
        if unseen is not None:
            logit = logit.masked_fill(unseen, -torch.inf)
        peak = logit.amax(-1)
        if bias is not None:
            peak = torch.maximum(peak, _masked(content, unseen, -torch.inf).amax(-1))
        largest = torch.maximum(self.largest, peak).clamp(min=-1e30)
        self._rescale(torch.exp(self.largest - largest))
        self.largest = largest
        weight = torch.exp(logit - largest[..., None])
        self._add(weight, content, bias, distance, unseen)
        self._keep(start, weight, logit, content, bias, unseen)

    def _unseen(self, distance: torch.Tensor, start: int, stop: int) -> torch.Tensor | None:
        """Keys that cannot be seen, (q, k), or (h, q, k) where some are hidden; None where all are seen."""
        unseen = distance < 0 if stop - 1 > int(self.positions.min()) else None
        if self.window:
            outside = distance >= self.window
            unseen = outside if unseen is None else unseen | outside
        here = [[span for span in spans if span[0] < stop and span[1] > start] for spans in self.hidden]
        if any(here):
            whole = torch.zeros(len(self.kv), *distance.shape, dtype=torch.bool, device=distance.device)
            for row, spans in zip(whole, here, strict=True):
                for first, last in spans:
                    row[:, max(first, start) - start : min(last, stop) - start] |= (self.positions >= last)[:, None]
            unseen = whole if unseen is None else whole | unseen
        return unseen

    def _bias(self, distance: torch.Tensor) -> torch.Tensor:
        inside = (distance >= 0) & (distance < self.extent)
        index = distance.clamp(0, self.extent - 1).expand(len(self.relative), -1, -1)
        return torch.where(inside, self.relative.gather(2, index), 0.0)

    def _rescale(self, factor: torch.Tensor) -> None:
        if bool((factor == 1).all()):
            return
        for value in self.sums.values():
            value *= factor
        if self.wanted.keep == "pooled":
            for value in self.cells:
                value *= factor[..., None]

    def _add(self, weight: Any, content: Any, bias: Any, distance: Any, unseen: Any) -> None:
        sums = self.sums
        total = weight.sum(-1)
        sums["total"] += total
        sums["content"] += (weight * content).sum(-1)
        sums["size_content"] += (weight * content.abs()).sum(-1)
        sums["distance"] += torch.einsum("hqk,qk->hq", weight, distance.float())
        if bias is None:
            sums["total_content"] += total
            return
        inside = (distance < self.extent).float()
        plain = torch.exp(_masked(content, unseen, -torch.inf) - self.largest[..., None])
        sums["total_content"] += plain.sum(-1)
        sums["inside_content"] += torch.einsum("hqk,qk->hq", plain, inside)
        sums["inside"] += torch.einsum("hqk,qk->hq", weight, inside)
        sums["bias"] += (weight * bias).sum(-1)
        sums["size_bias"] += (weight * bias.abs()).sum(-1)

    def _keep(self, start: int, weight: Any, logit: Any, content: Any, bias: Any, unseen: Any) -> None:
        match self.wanted.keep:
            case "pooled":
                assert self.wanted.edges is not None
                edges, count = self.wanted.edges, weight.shape[2]
                low = int(np.searchsorted(edges, start, side="right")) - 1
                high = int(np.searchsorted(edges, start + count, side="left"))
                starts = np.maximum(edges[low:high] - start, 0)
                terms = [weight, weight * content, None if bias is None else weight * bias]
                for cell, term in zip(self.cells, terms, strict=True):
                    if term is not None:
                        cell[..., low:high] += _pooled(term, starts)
            case "whole":
                part = slice(start, start + weight.shape[2])
                # Logits for now: weights once the row's total is known.
                self.cells[0][..., part] = logit
                self.cells[1][..., part] = _masked(content, unseen, torch.nan)
                self.cells[2][..., part] = _masked(torch.zeros_like(content) if bias is None else bias, unseen, torch.nan)
            case "topk":
                self._best(start, logit, content, bias)

    def _best(self, start: int, logit: Any, content: Any, bias: Any) -> None:
        most = min(self.wanted.top, logit.shape[2])
        found = logit.topk(most, dim=-1)
        new = [
            found.values, content.gather(2, found.indices),
            torch.zeros_like(found.values) if bias is None else bias.gather(2, found.indices), (found.indices + start).double(),
        ]  # fmt: skip
        if self.best is not None:
            new = [torch.cat([old, more], dim=-1) for old, more in zip(self.best, new, strict=True)]
            order = new[0].topk(min(self.wanted.top, new[0].shape[2]), dim=-1).indices
            new = [value.gather(2, order) for value in new]
        self.best = new

    def _finished(self) -> dict[str, np.ndarray]:
        sums, tau = self.sums, self.scaling
        total = sums["total"]
        mean = {name: value / total for name, value in sums.items()}
        logsumexp = self.largest + total.log()
        without = self.largest + sums["total_content"].log()
        found: dict[str, Any] = {
            "logsumexp": logsumexp,
            "entropy": (logsumexp - mean["content"] - mean["bias"]).clamp(min=0) / LN2,
            "distance": mean["distance"],
            "inside": mean["inside"],
            "inside_content": sums["inside_content"] / sums["total_content"],
            "bias_bits": (mean["bias"] - logsumexp + without).clamp(min=0) / LN2,
            "size_content": mean["size_content"] / tau,
            "size_bias": mean["size_bias"] / tau,
        }
        found |= self._cells(total, logsumexp)
        return {name: value.transpose(0, 1).cpu().numpy() for name, value in found.items()}

    def _cells(self, total: torch.Tensor, logsumexp: torch.Tensor) -> dict[str, torch.Tensor]:
        tau = self.scaling[:, None]
        if self.wanted.keep == "pooled":
            weight, content, bias = (value / total[..., None] for value in self.cells)
            return {"weight": weight, "content": content / tau, "bias": bias / tau}
        if self.wanted.keep == "whole":
            logit, content, bias = self.cells
            seen = ~content.isnan()
            weight = torch.where(seen, torch.exp(logit - logsumexp[..., None]), 0.0)
            return {"weight": weight, "content": content / tau, "bias": bias / tau}
        assert self.best is not None
        logit, content, bias, key = self.best
        seen = logit > -torch.inf
        missing = self.wanted.top - logit.shape[2]

        def padded(value: torch.Tensor, fill: float) -> torch.Tensor:
            return torch.nn.functional.pad(value.where(seen, fill), (0, missing), value=fill)

        return {
            "weight": padded(torch.exp(logit - logsumexp[..., None]), 0.0), "content": padded(content / tau, torch.nan),
            "bias": padded(bias / tau, torch.nan), "key": padded(key, -1.0).int(),
        }  # fmt: skip


_SUMS = (
    "total", "content", "bias", "size_content", "size_bias", "distance", "inside", "total_content", "inside_content",
)  # fmt: skip


def _masked(value: torch.Tensor, unseen: torch.Tensor | None, fill: float) -> torch.Tensor:
    return value if unseen is None else value.masked_fill(unseen, fill)


def _pooled(values: torch.Tensor, starts: np.ndarray) -> torch.Tensor:
    """Sums over the pools that begin at `starts` along the last axis."""
    if values.device.type == "cpu":
        return torch.from_numpy(np.add.reduceat(values.numpy(), starts, axis=-1))
    sizes = np.diff(starts, append=values.shape[-1])
    index = torch.from_numpy(np.repeat(np.arange(len(starts)), sizes)).to(values.device)
    return torch.zeros(*values.shape[:-1], len(starts), device=values.device).index_add_(-1, index, values)
