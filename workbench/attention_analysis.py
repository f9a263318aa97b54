"""Attention rows in one line each: where they look, by part and modality; what the relative bias does; its learned profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .errors import SelectionError
from .results import Result
from .routing import By
from .seam_analysis import CORRELATION, groups_of, listed, notes_of, position_of

if TYPE_CHECKING:
    import xarray as xr

    from .captures import Capture


class AttentionAnalysis:
    """Methods of a Capture that has ``attention``."""

    def attention_by(self, by: By = "part") -> Result:
        """How much of each row's weight goes to each part, modality or span.

        Returns
        -------
        Result
            ``weight`` (q,l,h,group): sums to 1 over groups. ``mean`` (l,group): over queries and heads. ``tokens`` (group): how
            many keys a group has; one that holds more attracts more.

        Raises
        ------
        SelectionError
            No attention was recorded, or not a grouping.
        """
        import xarray as xr

        capture = cast("Capture", self)
        data = capture.attention
        names, groups = groups_of(capture, np.arange(len(capture)), by)
        tokens, notes = np.bincount(groups, minlength=len(names)), [CORRELATION]
        if data.attrs["keep"] == "topk":
            weight, names = _topk_by(data, groups, names)
            tokens = np.append(tokens, 0)
            notes.append(f"Only the {data.sizes['k']} largest weights of a row were recorded; the rest is 'not recorded'.")
        elif data.attrs["keep"] == "whole":
            weight = _summed(data["weight"], "t", groups, len(names))
        else:
            spans = data["span"].values
            _same_spans(capture, spans)
            weight = _summed(data["weight"], "span", groups[spans], len(names))
        found = xr.Dataset(
            {
                "weight": (("q", "l", "h", "group"), weight, {"units": "1"}),
                "mean": (("l", "group"), np.nanmean(weight, axis=(0, 2)), {"units": "1"}),
                "tokens": (("group",), tokens, {"units": "tokens"}),
            },
            coords={"group": names, "q": data["q"].values, "l": data["l"].values, "h": _heads(data)},
        )
        title = f"Attention by {by}: {data.sizes['q']} query tokens"
        return Result(title=title, data=found, figure="attention:attention_by", notes=notes_of(capture, *notes))

    def bias_share(self) -> Result:
        """How much the relative bias decides, per layer and head, as a mean over the recorded query tokens.

        Returns
        -------
        Result
            ``share`` (l,h): magnitude of the bias's logit over that of bias and content together, weighted by the row. ``bits``
            (l,h): how far the bias moves the row (KL divergence from the row without it). ``inside`` and ``inside_content`` (l,h):
            weight within the bias's reach, with and without it. ``entropy`` (l,h) in bits, ``distance`` (l,h) in tokens.
        """
        import xarray as xr

        capture = cast("Capture", self)
        data = capture.attention
        names = ("size_bias", "size_content", "bias_bits", "inside", "inside_content", "entropy", "distance")
        mean = {name: data[name].values.astype(np.float64).mean(axis=0) for name in names}
        total = mean["size_bias"] + mean["size_content"]
        share = np.divide(mean["size_bias"], total, out=np.zeros_like(total), where=total > 0)
        units = {"entropy": "bit", "bits": "bit", "distance": "tokens"}
        values = {"share": share, "bits": mean["bias_bits"]} | {
            name: mean[name] for name in ("inside", "inside_content", "entropy", "distance")
        }
        found = xr.Dataset(
            {name: (("l", "h"), value, {"units": units.get(name, "1")}) for name, value in values.items()},
            coords={"l": data["l"].values, "h": _heads(data)},
        )
        note = f"Means over {data.sizes['q']} query tokens."
        return Result(
            title="What the relative bias decides", data=found, figure="attention:bias_share", notes=notes_of(capture, note)
        )

    def distance_profiles(self, token: int | None = None) -> Result:
        """The learned distance profiles: a layer's bank, and with `token` the bias each head mixes from it there.

        Parameters
        ----------
        token : int, optional
            A recorded query token; needs ``AttentionPlan(profiles=True)``.

        Returns
        -------
        Result
            ``bank`` (l,r,d), and ``profile`` (l,h,d); NaN beyond a layer's reach.

        Raises
        ------
        SelectionError
            No such query, or profiles were not recorded.
        """
        capture = cast("Capture", self)
        data = capture.attention
        found: Any = data[["bank"]].load()
        title = "Distance profiles: the banks"
        if token is not None:
            if "profile" not in data:
                raise SelectionError("this capture has no profiles of tokens: capture with AttentionPlan(profiles=True)")
            row = position_of(data, "q", token, "query token")
            found = found.assign(profile=(("l", "h", "d"), data["profile"].isel(q=row).values))
            title = f"Distance profiles of token {token}"
        return Result(title=title, data=found, figure="attention:distance_profiles", notes=notes_of(capture))


def _heads(data: xr.Dataset) -> Any:
    return data["h"].values if "h" in data.coords else np.arange(data.sizes["h"])


def _summed(weight: xr.DataArray, dim: str, groups: np.ndarray, count: int) -> np.ndarray:
    """Sums of weights over groups of a dimension, a query at a time: (q, l, h, group)."""
    order = np.argsort(groups, kind="stable")
    here, starts = np.unique(groups[order], return_index=True)
    out = np.zeros((*weight.shape[:3], count))
    for row in range(weight.sizes["q"]):
        values = weight.isel(q=row).transpose("l", "h", dim).values[..., order].astype(np.float64)
        out[row][..., here] = np.add.reduceat(values, starts, axis=-1)
    return out


def _topk_by(data: xr.Dataset, groups: np.ndarray, names: list[str]) -> tuple[np.ndarray, list[str]]:
    weight, key = data["weight"].values.astype(np.float64), data["key"].values
    out = np.zeros((*weight.shape[:3], len(names) + 1))
    group = np.where(key >= 0, groups[np.maximum(key, 0)], len(names))
    for index in range(len(names)):
        out[..., index] = np.where(group == index, weight, 0).sum(-1)
    out[..., -1] = 1 - out.sum(-1)
    return out, [*names, "not recorded"]


def _same_spans(capture: Capture, starts: np.ndarray) -> None:
    if not np.array_equal(starts, [span.start for span in capture.spans]):
        raise SelectionError(f"this capture was summed over other spans: they begin at {listed(starts)}")
