"""Short convolutions in one line each: how much they add, and which tap brings it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .results import Result
from .routing import By
from .seam_analysis import groups_of, notes_of, token_blocks, variables_of

if TYPE_CHECKING:
    from .captures import Capture


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
