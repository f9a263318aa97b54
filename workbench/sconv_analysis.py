"""Short convolutions in one line each: how much they add, and which tap brings it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .results import Result
from .routing import By
from .seam_analysis import groups_of, notes_of, position_of, token_blocks, variables_of

if TYPE_CHECKING:
    from .captures import Capture

CHANNEL_TOKENS = 4_096
"""Tokens of one convolution's channels read at a time: 100 MB for Inkling's widest."""


class SconvAnalysis:
    """Methods of a Capture that has ``sconv``."""

    def sconv_taps(self, by: By | None = None) -> Result:
        """What each tap contributes to each convolution, over all recorded tokens or per group of them.

        Parameters
        ----------
        by : {"modality", "part", "span"}, optional

        Returns
        -------
        Result
            ``share`` (group,l,site,tap): part of the term's norm that a tap brings, along the term; the taps sum to 1 (one that
            works against the others is negative). ``ratio`` (group,l,site): norm of the term over norm of the input. ``cosine``
            (group,l,site). ``tokens`` (group).

        Raises
        ------
        SelectionError
            The plan did not record taps.
        """
        import xarray as xr

        capture = cast("Capture", self)
        data = capture.sconv
        variables_of(data, "sconv", "by_tap", "term", "input", "cosine")
        names, groups = groups_of(capture, data["t"].values, by)
        n_g, sizes = len(names), (data.sizes["l"], data.sizes["site"])
        tap, term = np.zeros((n_g, *sizes, data.sizes["tap"])), np.zeros((n_g, *sizes))
        inputs, cosine = np.zeros((n_g, *sizes)), np.zeros((n_g, *sizes))
        tokens = np.bincount(groups, minlength=n_g)
        wanted: Any = data[["by_tap", "term", "input", "cosine"]]
        for rows, block in token_blocks(wanted):
            here = groups[rows]
            for held, name in ((tap, "by_tap"), (term, "term"), (inputs, "input"), (cosine, "cosine")):
                np.add.at(held, here, np.nan_to_num(block[name].values.astype(np.float64)))
        with np.errstate(divide="ignore", invalid="ignore"):
            found = xr.Dataset(
                {
                    "share": (("group", "l", "site", "tap"), tap / term[..., None], {"units": "1"}),
                    "ratio": (("group", "l", "site"), term / inputs, {"units": "1"}),
                    "cosine": (("group", "l", "site"), cosine / tokens[:, None, None], {"units": "1"}),
                    "tokens": (("group",), tokens, {"units": "tokens"}),
                },
                coords={
                    "group": names, "l": data["l"].values, "site": data["site"].values,
                    "tap": np.arange(1 - data.sizes["tap"], 1),
                },
            )  # fmt: skip
        return Result(
            title="Short convolutions: what each tap brings" + (f", by {by}" if by else ""), data=found, figure="sconv:sconv_taps",
            notes=notes_of(capture, "Sums of norms over tokens; tap 0 is the current token, tap -3 looks back furthest."),
        )  # fmt: skip

    def sconv_channels(self, layer: int, site: str) -> Result:
        """What each tap brings to each channel of one convolution, over all recorded tokens whose taps' inputs were recorded too.

        Parameters
        ----------
        layer : int
            The model's index.
        site : {"k", "v", "attention", "mlp"}

        Returns
        -------
        Result
            ``share`` (c,tap): part of the channel's term, along it; the taps sum to 1. ``term``,
            ``input`` (c): root mean square. ``kernel`` (c,tap). Attribute ``tokens``.

        Raises
        ------
        SelectionError
            The plan did not keep channels, or not of that layer or site.
        """
        import xarray as xr

        capture = cast("Capture", self)
        data = capture.sconv
        variables_of(data, "sconv", "channel_input", "channel_term")
        row, column = position_of(data, "l", layer, "layer"), position_of(data, "site", site, "site")
        kernel = data["kernel"].isel(l=row, site=column).values.astype(np.float64)
        kernel = kernel[~np.isnan(kernel[:, 0])]
        channels, taps = kernel.shape
        along, term2, input2, tokens = np.zeros((channels, taps)), np.zeros(channels), np.zeros(channels), 0
        for first, last in _runs(data["t"].values):
            for start in range(first, last, CHANNEL_TOKENS):
                # With the inputs before the block; those before position 0 are zero.
                begin = max(first, start - taps + 1)
                rows = slice(begin, min(start + CHANNEL_TOKENS, last))
                cell: Any = data[["channel_input", "channel_term"]].isel(t=rows, l=row, site=column, c=slice(channels)).load()
                x, term = cell["channel_input"].values.astype(np.float64), cell["channel_term"].values.astype(np.float64)
                if int(cell["t"].values[0]) == 0:
                    x = np.concatenate([np.zeros((taps - 1, channels)), x])
                count = len(x) - taps + 1
                if count <= 0:
                    continue
                term = term[len(term) - count :]
                for tap in range(taps):
                    along[:, tap] += (x[tap : tap + count] * kernel[:, tap] * term).sum(0)
                term2, input2, tokens = term2 + (term**2).sum(0), input2 + (x[taps - 1 :] ** 2).sum(0), tokens + count
        with np.errstate(divide="ignore", invalid="ignore"):
            found = xr.Dataset(
                {
                    "share": (("c", "tap"), along / term2[:, None], {"units": "1"}),
                    "term": (("c",), np.sqrt(term2 / tokens), {"units": "1"}),
                    "input": (("c",), np.sqrt(input2 / tokens), {"units": "1"}),
                    "kernel": (("c", "tap"), kernel, {"units": "1"}),
                },
                coords={"c": np.arange(channels), "tap": np.arange(1 - taps, 1)}, attrs={"tokens": tokens},
            )  # fmt: skip
        return Result(
            title=f"Short convolution {site} of layer {layer}: what each tap brings to each channel", data=found,
            figure="sconv:sconv_channels", notes=notes_of(capture, f"Over {tokens:,} tokens; tap 0 is the current token."),
        )  # fmt: skip


def _runs(positions: np.ndarray) -> list[tuple[int, int]]:
    """Rows of neighbouring tokens: first and last + 1 of each stretch."""
    cuts = np.flatnonzero(np.diff(positions) != 1) + 1
    edges = [0, *cuts.tolist(), len(positions)]
    return list(itertools.pairwise(edges))
