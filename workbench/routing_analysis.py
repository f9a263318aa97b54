"""Routing in one line each: what :class:`~workbench.captures.Capture` answers about experts and sinks.

    cap.routing_by("modality")          cap.sinks(by="part")            cap.expert(3, 5).passages()
    cap.expert_load()                   cap.routing_entropy("part")     cap.coactivation(3)
    cap.balance("modality")             cap.margin()

Each returns a :class:`~workbench.results.Result`: a table, a labelled dataset and a figure. Shares are of all weight of a token,
sinks included; tokens that were never written count nowhere. Sums are exact, whatever the length; nothing here is sampled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from . import routing as numbers
from .errors import SelectionError
from .expert_views import ExpertView
from .results import Result
from .routing import By, blocks, check_cell, group_tokens
from .seam_analysis import notes_of

if TYPE_CHECKING:
    import xarray as xr

    from engine.protocol import Span

    from .captures import Capture

CORRELATION = "Routing shows what went together, not what caused it; an intervention does (docs/interventions.md)."


class RoutingAnalysis:
    """The part of a capture that answers about routing."""

    routing: xr.Dataset
    spans: tuple[Span, ...]

    def expert_load(self, by: By | None = None) -> Result:
        """How often each expert was chosen and what share of the weight it had, of all tokens or by group.

        Returns
        -------
        Result
            ``count`` (…,l,e), ``share`` (…,l,e), ``sink`` (…,l,s), ``tokens`` (…,l).
        """
        data = numbers.load(self.routing) if by is None else numbers.load_by(self.routing, self.spans, by)
        title = "Load of the experts" + (f" by {by}" if by else "")
        return self._result(title, data, "routing_analysis:load")

    def routing_by(self, by: By = "modality") -> Result:
        """Everything about routing by modality, part or span.

        Returns
        -------
        Result
            What :meth:`expert_load` has, and per group and layer ``entropy_bits`` (of the chosen experts' weights, mean),
            ``sink_mass`` (0 to 1) and ``balance`` (0 to 1, see :meth:`balance`).
        """
        data = numbers.load_by(self.routing, self.spans, by)
        data = data.assign(self._means(by)).assign(balance=_balance(data))
        return self._result(f"Routing by {by}", data, "routing_analysis:by_group")

    def sinks(self, by: By | None = None) -> Result:
        """Share of the weight that each sink takes, by layer, of all tokens or by group: ``sink`` (…,l,s) and ``mass`` (…,l)."""
        data = (numbers.load(self.routing) if by is None else numbers.load_by(self.routing, self.spans, by))[["sink", "tokens"]]
        data = data.assign(mass=data["sink"].sum("s", skipna=False))
        return self._result("Weight of the sinks" + (f" by {by}" if by else ""), data, "routing_analysis:sinks")

    def routing_entropy(self, by: By = "modality") -> Result:
        """Mean entropy of the chosen experts' weights, in bits, by group and layer: 0 (one takes all) to log2 k (all equal)."""
        return self._result(f"Entropy by {by}", self._means(by)[["entropy_bits", "tokens"]], "routing_analysis:entropy")

    def balance(self, by: By | None = None) -> Result:
        """How evenly the experts of a layer are used: entropy of the load over log2 of their number, 0 (one) to 1 (all alike)."""
        data = numbers.load(self.routing) if by is None else numbers.load_by(self.routing, self.spans, by)
        data = data[["tokens"]].assign(balance=_balance(data))
        return self._result("Balance of the load" + (f" by {by}" if by else ""), data, "routing_analysis:balance")

    def coactivation(self, layer: int) -> Result:
        """How often two experts of a layer are chosen for the same token.

        Returns
        -------
        Result
            ``count`` (e,other): tokens; the diagonal is how often one is chosen at all. ``lift`` (e,other): how many times as often
            as if experts were chosen independently; NaN on the diagonal and where one was never chosen.
        """
        import xarray as xr

        check_cell(self.routing, layer, 0)
        experts = int(self.routing.attrs["experts"])
        count, tokens = np.zeros((experts, experts), np.int64), 0
        for block in blocks(self.routing.sel(l=[layer])):
            chosen = block.expert[:, 0][~np.isnan(block.total[:, 0])].astype(np.int64)
            tokens += len(chosen)
            for first in range(chosen.shape[1]):
                for second in range(chosen.shape[1]):
                    pair = chosen[:, first] * experts + chosen[:, second]
                    count += np.bincount(pair, minlength=experts * experts).reshape(experts, experts)
        single = np.diag(count).astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            lift = count * tokens / (single[:, None] * single[None, :])
        np.fill_diagonal(lift, np.nan)
        lift[~np.isfinite(lift)] = np.nan
        data = xr.Dataset(
            {
                "count": (("e", "other"), count, {"units": "tokens"}),
                "lift": (("e", "other"), lift, {"units": "1", "long_name": "times as often as by chance"}),
            },
            coords={"e": np.arange(experts), "other": np.arange(experts)}, attrs={"l": layer, "tokens": tokens},
        )  # fmt: skip
        return self._result(f"Experts of layer {layer} chosen together, {tokens:,} tokens", data, "routing_analysis:coactivation")

    def margin(self, by: By = "modality") -> Result:
        """How far the last chosen expert was before the best one left out, in the router's score (a sigmoid, 0 to 1).

        Returns
        -------
        Result
            ``margin`` (…,l): mean over tokens. Without the selection bias, so it may be negative where the bias decides.

        Raises
        ------
        SelectionError
            The capture has no router logits.
        """
        import xarray as xr

        if "logits" not in self.routing:
            raise SelectionError("a margin needs the router's logits: capture again with RoutingPlan(logits=True)")
        names, groups = self._groups(by)
        experts, layers = int(self.routing.attrs["experts"]), self.routing.sizes["l"]
        total, count = np.zeros((len(names), layers)), np.zeros((len(names), layers), np.int64)
        for block in blocks(self.routing):
            rows = slice(block.start, block.start + len(block.expert))
            logits = self.routing["logits"].isel(t=rows).values[..., :experts]
            score = 1 / (1 + np.exp(-logits.astype(np.float64)))
            worst = np.take_along_axis(score, block.expert.astype(np.int64), -1).min(-1)
            np.put_along_axis(score, block.expert.astype(np.int64), -np.inf, -1)
            margin, written = worst - score.max(-1), ~np.isnan(block.total)
            for layer in range(layers):
                keep = written[:, layer]
                here = groups[rows][keep]
                total[:, layer] += np.bincount(here, weights=margin[keep, layer], minlength=len(names))
                count[:, layer] += np.bincount(here, minlength=len(names))
        with np.errstate(invalid="ignore"):
            mean = total / np.where(count, count, np.nan)
        data = xr.Dataset(
            {"margin": ((by, "l"), mean, {"units": "1"}), "tokens": ((by, "l"), count, {"units": "tokens"})},
            coords={by: names, "l": self.routing["l"].values},
        )
        note = "Scores without the selection bias, which a router adds for the choice."
        return self._result(f"Margin to the next expert by {by}", data, "routing_analysis:margin", note)

    def expert(self, layer: int, expert: int) -> ExpertView:
        """One expert: its favourite passages, patches and frames, and who uses it.

        Raises
        ------
        SelectionError
            The capture has no such layer, or the layer no such expert.
        """
        check_cell(self.routing, layer, expert)
        return ExpertView(self, layer, expert)  # pyright: ignore[reportArgumentType]

    def _groups(self, by: By) -> tuple[list[str], np.ndarray]:
        """Names of the groups, and the group of each recorded token."""
        names, groups = group_tokens(self.spans, by)
        return names, groups[self.routing["t"].values]

    def _means(self, by: By) -> xr.Dataset:
        """Mean entropy and sink mass by group and layer."""
        import xarray as xr

        names, groups = self._groups(by)
        shape = (len(names), self.routing.sizes["l"])
        sums = {"entropy_bits": np.zeros(shape), "sink_mass": np.zeros(shape)}
        tokens = np.zeros(shape, np.int64)
        for block in blocks(self.routing):
            here = groups[block.start : block.start + len(block.expert)]
            found = {"entropy_bits": numbers.entropy_bits(block.weight), "sink_mass": numbers.sink_mass(block)}
            held = ~np.isnan(found["sink_mass"])
            for layer in range(shape[1]):
                tokens[:, layer] += np.bincount(here[held[:, layer]], minlength=shape[0])
                for name, values in found.items():
                    weights = np.nan_to_num(values[held[:, layer], layer]).astype(np.float64)
                    sums[name][:, layer] += np.bincount(here[held[:, layer]], weights=weights, minlength=shape[0])
        units = {"entropy_bits": "bit", "sink_mass": "1"}
        with np.errstate(invalid="ignore", divide="ignore"):
            data: dict[str, Any] = {
                name: ((by, "l"), values / np.where(tokens, tokens, np.nan), {"units": units[name]})
                for name, values in sums.items()
            }
        data["tokens"] = ((by, "l"), tokens, {"units": "tokens"})
        return xr.Dataset(data, coords={by: names, "l": self.routing["l"].values})

    def _result(self, title: str, data: xr.Dataset, figure: str, *notes: str) -> Result:
        return Result(title=title, data=data, figure=figure, notes=(*notes_of(cast("Capture", self), *notes), CORRELATION))


def _balance(data: xr.Dataset) -> xr.DataArray:
    """Entropy of the load over log2 of the number of experts; NaN where there were no tokens."""
    count = data["count"]
    p = count / count.sum("e")
    terms = p * np.log2(p.where(p > 0))
    bits = -terms.fillna(0).sum("e")
    return (bits / np.log2(data.sizes["e"])).where(count.sum("e") > 0).assign_attrs(units="1")
