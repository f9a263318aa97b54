"""Draft heads in one line each: how often they are right, by depth and group, and what drafting would have given over the context.

    cap.drafts_by("modality")           cap.draft_steps()

A proposal stands at the token behind which it was made; groups are those of the tokens that were proposed. Verdicts are teacher
forced: heads saw the context's own tokens, as they do in a step up to the first wrong proposal. Knows no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from .errors import SelectionError
from .results import Result
from .routing import By
from .seam_analysis import groups_of, notes_of

if TYPE_CHECKING:
    from .captures import Capture


class DraftsAnalysis:
    """Methods of a Capture that has ``drafts``."""

    def drafts_by(self, by: By | None = None) -> Result:
        """How often each draft head is right, over all recorded tokens or per group of the proposed ones.

        Returns
        -------
        Result
            ``right`` (group,depth): share of proposals that are the context's token. ``accepted`` (group,depth): share of those
            that a step would accept, all smaller depths being right too. ``logprob`` (group,depth): mean, by the head, in nats.
            ``tokens`` (group,depth): proposals; those for places behind the end count nowhere.
        """
        import xarray as xr

        capture = cast("Capture", self)
        data = capture.drafts
        names, groups = groups_of(capture, np.arange(len(capture)), by)
        depths, sizes = data["depth"].values, (len(names), data.sizes["depth"])
        sums = {name: np.zeros(sizes) for name in ("right", "accepted", "logprob", "tokens")}
        for column, depth in enumerate(depths):
            place = data["t"].values + 1 + depth
            inside = np.flatnonzero(place < len(capture))
            here, part = groups[place[inside]], data.isel(depth=column, t=inside).load()
            values = {
                "right": part["token"].values == capture.token_ids[place[inside]], "accepted": part["accepted"].values == 1,
                "logprob": part["logprob"].values, "tokens": np.ones(len(inside)),
            }  # fmt: skip
            for name, value in values.items():
                sums[name][:, column] = np.bincount(here, weights=value.astype(np.float64), minlength=len(names))
        count = np.where(sums["tokens"] > 0, sums["tokens"], np.nan)
        found = xr.Dataset(
            {
                "right": (("group", "depth"), sums["right"] / count, {"units": "1"}),
                "accepted": (("group", "depth"), sums["accepted"] / count, {"units": "1"}),
                "logprob": (("group", "depth"), sums["logprob"] / count, {"units": "nat"}),
                "tokens": (("group", "depth"), sums["tokens"].astype(np.int64), {"units": "tokens"}),
            },
            coords={"group": names, "depth": depths},
        )
        note = "Heads saw the context's own tokens; a step accepts proposals up to the first wrong one."
        title = "Draft heads: how often they are right" + (f", by {by}" if by else "")
        return Result(title=title, data=found, figure="drafts:drafts_by", notes=notes_of(capture, note))

    def draft_steps(self, first: int | None = None) -> Result:
        """The steps in which an engine that drafts would have written the context from token `first` on.

        Parameters
        ----------
        first : int, optional
            The first token that it writes; by default the first of the reply, or where there is none the second recorded one.

        Returns
        -------
        Result
            ``accepted`` (step): drafts accepted; ``written`` (step): tokens, one more; coordinate ``token`` (step): the first token
            that the step verifies. Attributes ``steps`` and ``tokens_per_step``.

        Raises
        ------
        SelectionError
            A token behind which nothing was recorded: the walk needs every one from ``first - 1`` on.

        Notes
        -----
        A prefill writes token `first`; each step then verifies the proposals that were made behind the token before the last one
        written. For a greedy reply of an engine with drafts these are the steps it took, but for ties within rounding.
        """
        import xarray as xr

        capture = cast("Capture", self)
        data = capture.drafts
        recorded, accepted = data["t"].values, (data["accepted"].values == 1).sum(axis=1)
        if first is None:
            replies = [span.start for span in capture.spans if span.label == "reply"]
            first = replies[-1] if replies else int(recorded[0]) + 1
        row = first - 1 - int(recorded[0])
        whole = recorded[-1] == len(capture) - 1 and len(recorded) == recorded[-1] - recorded[0] + 1
        if not whole or not 0 <= row < len(recorded):
            raise SelectionError(
                f"drafts were not recorded behind every token from {first - 1:,} on: capture with "
                f"DraftsPlan(tokens=range({max(0, first - 1)}, {len(capture)}))", first=first,
            )  # fmt: skip
        steps: list[tuple[int, int]] = []
        at = first - 1
        # The last token is written when at + 1 is the last one.
        while at + 1 < len(capture) - 1:
            steps.append((at + 2, int(accepted[at - int(recorded[0])])))
            at += steps[-1][1] + 1
        token, taken = np.array(steps, np.int64).reshape(-1, 2).T
        found = xr.Dataset(
            {"accepted": (("step",), taken, {"units": "tokens"}), "written": (("step",), taken + 1, {"units": "tokens"})},
            coords={"token": (("step",), token)},
            attrs={"steps": len(steps), "tokens_per_step": float((taken + 1).mean()) if steps else float("nan"), "first": first},
        )
        note = f"{len(steps):,} steps for {len(capture) - 1 - first:,} tokens behind the first written one."
        return Result(
            title=f"Steps with drafts from token {first:,} on", data=found, figure="drafts:draft_steps",
            notes=notes_of(capture, note),
        )  # fmt: skip
