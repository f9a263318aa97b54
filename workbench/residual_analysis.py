"""The residual stream in one line each: what the head would say after every layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from .results import Result
from .seam_analysis import notes_of, position_of, variables_of
from .token_text import token_text

if TYPE_CHECKING:
    from .captures import Capture


class ResidualAnalysis:
    """Methods of a Capture that has ``residual``."""

    def lens(self, token: int | None = None) -> Result:
        """Likeliest next tokens after each layer, were it the last: by the model's own final norm, scaling and head.

        Parameters
        ----------
        token : int, optional
            A recorded token; the last recorded one without it.

        Returns
        -------
        Result
            ``token`` (l,k) ids, ``text`` (l,k), ``logprob`` (l,k).

        Raises
        ------
        SelectionError
            The token was not recorded, or the plan had no lens.
        """
        import numpy as np
        import xarray as xr

        capture = cast("Capture", self)
        data = capture.residual
        variables_of(data, "residual", "lens_token", "lens_logprob")
        row = data.sizes["t"] - 1 if token is None else position_of(data, "t", token, "token")
        at = int(data["t"].values[row])
        ids, logprob = data["lens_token"].isel(t=row).values, data["lens_logprob"].isel(t=row).values
        text = np.array([[token_text(int(item)) for item in line] for line in ids])
        found = xr.Dataset(
            {
                "token": (("l", "k"), ids),
                "text": (("l", "k"), text),
                "logprob": (("l", "k"), logprob, {"units": "nat"}),
            },
            coords={"l": data["l"].values},
        )
        note = f"After token {at:,}; the row of the last layer is the model's own prediction."
        return Result(title=f"Logit lens at token {at:,}", data=found, figure="residual:lens", notes=notes_of(capture, note))
