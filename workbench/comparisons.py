"""The numbers of a comparison: log-probabilities token by token, overlap of the routing, shift of the attention.

Works on replies, scores and captures that are there; runs nothing (:mod:`workbench.causes` does).
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.protocol import Reply

from .errors import SelectionError
from .results import Result
from .routing import blocks
from .token_text import token_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .captures import Capture


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Comparison:
    """Two replies to one context, the second under interventions.

    Attributes
    ----------
    base, changed : Reply
    interventions : tuple of str
        In words: what `changed` had and `base` had not.
    scores : Result
        ``base`` (t), ``changed`` (t), ``shift`` (t): log-probabilities of the base reply's tokens under both, in nats.
    routing : Result or None
        ``overlap`` (l), ``weight`` (l): see :func:`routing_overlap`.
    attention : Result or None
        ``shift`` (q,l,h): see :func:`attention_shift`.
    """

    base: Reply
    changed: Reply
    interventions: tuple[str, ...]
    scores: Result
    routing: Result | None = None
    attention: Result | None = None

    @property
    def same_tokens(self) -> int:
        """Tokens until the replies differ; all of them when one begins with the other."""
        shared = min(len(self.base.token_ids), len(self.changed.token_ids))
        differ = np.flatnonzero(self.base.token_ids[:shared] != self.changed.token_ids[:shared])
        return int(differ[0]) if len(differ) else shared

    @property
    def shift(self) -> float:
        """How much log-probability the base reply gains (above 0) or loses (below) under the interventions, in nats."""
        return float(self.scores["shift"].sum())

    def plot(self, **options: float) -> Figure:
        """The scores' figure."""
        return self.scores.plot(**options)

    def __repr__(self) -> str:
        what = "; ".join(self.interventions) or "no intervention"
        parts = [f"{what}: base reply {self.shift:+.3f} nats", f"{self.same_tokens} tokens alike"]
        if self.routing is not None:
            parts.append(f"routing overlap {float(self.routing['overlap'].mean()):.1%}")
        if self.attention is not None:
            parts.append(f"attention shift {float(self.attention['shift'].mean()):.1%}")
        return f"Comparison({', '.join(parts)})"

    def _repr_html_(self) -> str:
        cells = [
            ("Interventions", "; ".join(self.interventions) or "none"),
            ("Base", self.base.text),
            ("Changed", self.changed.text),
        ]
        cells.append(("Alike", f"the first {self.same_tokens} tokens"))
        cells.append(("Base reply's log-probability", f"{self.shift:+.3f} nats ({np.exp(self.shift):.3g} times as likely)"))
        if self.routing is not None:
            cells.append(("Routing overlap", f"{float(self.routing['overlap'].mean()):.1%} of the chosen experts"))
        if self.attention is not None:
            cells.append(("Attention shift", f"{float(self.attention['shift'].mean()):.1%} of the weight moved"))
        rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in cells)
        return f"<table><tbody>{rows}</tbody></table>{self.scores._repr_html_()}"


def token_scores(reply: Reply, base: NDArray[np.float64], changed: NDArray[np.float64]) -> Result:
    """Log-probabilities of a reply's tokens under both, and their difference."""
    import xarray as xr

    texts = [token_text(int(token)) for token in reply.token_ids]
    data = xr.Dataset(
        {
            "text": (("t",), np.asarray(texts, dtype=object)),
            "base": (("t",), base, {"units": "nat"}),
            "changed": (("t",), changed, {"units": "nat"}),
            "shift": (("t",), changed - base, {"units": "nat", "long_name": "changed minus base"}),
        },
        coords={"t": np.arange(len(base))},
    )  # fmt: skip
    return Result(
        title=f"The base reply under both: {(changed - base).sum():+.3f} nats", data=data, figure="causes:scores",
        notes=("The same tokens, judged twice; below 0 they have become less likely.",),
    )  # fmt: skip


def routing_overlap(base: Capture, changed: Capture) -> Result:
    """How alike two captures of the same tokens were routed.

    Returns
    -------
    Result
        By layer, means over the tokens: ``overlap`` (l), part of the chosen experts that both chose, 0 to 1; ``weight`` (l), weight
        that lies on the same experts and sinks in both (1 minus half the sum of the differences), 0 to 1.

    Raises
    ------
    SelectionError
        The captures are of different tokens or layers.
    """
    import xarray as xr

    _same_tokens(base, changed)
    left, right = base.routing, changed.routing
    if not np.array_equal(left["l"].values, right["l"].values):
        raise SelectionError(f"the captures have different layers: {left['l'].values.tolist()} and {right['l'].values.tolist()}")
    layers, k = left.sizes["l"], left.sizes["k"]
    overlap, weight, tokens = np.zeros(layers), np.zeros(layers), np.zeros(layers, np.int64)
    for one, other in zip(blocks(left), blocks(right), strict=True):
        written = ~(np.isnan(one.total) | np.isnan(other.total))
        same = one.expert[..., :, None] == other.expert[..., None, :]
        shares = [block.weight / block.total[..., None] for block in (one, other)]
        common = (same * np.minimum(shares[0][..., :, None], shares[1][..., None, :])).sum((-1, -2))
        common = common + np.minimum(one.sink / one.total[..., None], other.sink / other.total[..., None]).sum(-1)
        overlap += np.where(written, same.sum((-1, -2)) / k, 0).sum(0)
        weight += np.where(written, common, 0).sum(0)
        tokens += written.sum(0)
    with np.errstate(invalid="ignore"):
        data = xr.Dataset(
            {
                "overlap": (("l",), overlap / np.where(tokens, tokens, np.nan), {"units": "1"}),
                "weight": (("l",), weight / np.where(tokens, tokens, np.nan), {"units": "1"}),
                "tokens": (("l",), tokens, {"units": "tokens"}),
            },
            coords={"l": left["l"].values},
        )  # fmt: skip
    return Result(title="Routing alike in both", data=data, figure="causes:overlap", notes=("1 is the same routing.",))


def attention_shift(base: Capture, changed: Capture) -> Result:
    """How much attention weight went elsewhere, for every captured row.

    Returns
    -------
    Result
        ``shift`` (q,l,h): half the sum of the differences over keys, or over spans where rows are pooled: 0 (the same) to 1.

    Raises
    ------
    SelectionError
        Different tokens or rows, or rows of which only the largest keys were kept.
    """
    _same_tokens(base, changed)
    left, right = base.attention["weight"], changed.attention["weight"]
    along = next((dim for dim in ("span", "t") if dim in left.dims), None)
    if along is None or dict(left.sizes) != dict(right.sizes):
        raise SelectionError("a shift needs the same rows in both captures, whole or pooled: AttentionPlan(keep='pooled')")
    shift = 0.5 * abs(left.fillna(0) - right.fillna(0)).sum(along)
    how = "pooled by span" if along == "span" else "over single keys"
    return Result(
        title="Attention that went elsewhere", data=shift.to_dataset(name="shift"), figure="causes:shift",
        notes=(f"Half the sum of the differences, {how}: 0 is the same row, 1 nothing in common.",),
    )  # fmt: skip


def _same_tokens(base: Capture, changed: Capture) -> None:
    if not np.array_equal(base.token_ids, changed.token_ids):
        raise SelectionError("the captures are of different tokens: capture the same reply under both")
