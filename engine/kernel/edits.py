"""Interventions of one request, worked out for one model: what each layer is to do differently.

Bookkeeping: from what was declared (:mod:`engine.protocol.interventions`) and the model's sizes to factors and ranges by layer.
Knows no vLLM and no tensors; lives as long as the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..protocol import Architecture
from ..protocol.intervention_sets import layers_of
from ..protocol.interventions import (
    BanExperts,
    DropLogScaling,
    ForceExperts,
    Intervention,
    MaskModality,
    MaskSpan,
    ReweightExperts,
    ScaleBias,
    ScaleSconv,
    ScaleSinks,
    StretchBias,
)  # fmt: skip
from ..protocol.plans import SITES, Site


@dataclass(slots=True)
class GateEdit:
    """What one router does differently; `factors` has the experts first and then the sinks, as the router numbers them."""

    factors: list[float]
    banned: set[int] = field(default_factory=set)
    forced: set[int] = field(default_factory=set)
    renormalise: bool = False


@dataclass(slots=True)
class BiasEdit:
    """Factor and stretch of each head's relative bias, and whether the logarithmic factor is left out."""

    factors: list[float]
    stretch: list[float]
    flat: bool = False


@dataclass(frozen=True, slots=True)
class Hidden:
    """Keys `start` to `stop` that tokens at or after `stop` do not see; of all heads, or of some."""

    start: int
    stop: int
    heads: frozenset[int] | None = None


@dataclass(slots=True)
class Edits:
    """Everything one request changes, by layer. A layer that is not named runs as ever.

    Attributes
    ----------
    taps : dict
        By layer and site: a factor for each tap, by how far it reaches back (0: the token itself).
    cuts : dict
        By layer: spans that no later token's taps may reach into.
    """

    gates: dict[int, GateEdit] = field(default_factory=dict)
    biases: dict[int, BiasEdit] = field(default_factory=dict)
    taps: dict[tuple[int, Site], list[float]] = field(default_factory=dict)
    cuts: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    hidden: dict[int, list[Hidden]] = field(default_factory=dict)

    def families(self) -> set[str]:
        """Which of the model's functions must be wrapped for these changes, as :data:`.layer_places.PLACES` names them."""
        found = {"gate"} if self.gates else set()
        found |= {"prep"} if self.biases or self.cuts or any(site in ("k", "v") for _, site in self.taps) else set()
        found |= {"convolve"} if self.cuts or any(site in ("attention", "mlp") for _, site in self.taps) else set()
        return found | ({"attention"} if self.hidden else set())

    def tap_factors(self, layer: int, site: Site, first: int, count: int, taps: int) -> dict[tuple[float, ...], list[int]]:
        """Tokens `first` to ``first + count`` of the request grouped by their taps' factors; those with all 1 are left out.

        Returns
        -------
        dict
            From factors, by how far a tap reaches back, to the tokens' numbers from 0.
        """
        base = tuple(self.taps.get((layer, site), (1.0,) * taps))
        odd: dict[int, list[float]] = {}
        for start, stop in self.cuts.get(layer, ()):
            for t in range(max(stop, first), min(stop + taps - 1, first + count)):
                factors = odd.setdefault(t - first, list(base))
                for back in range(1, taps):
                    if start <= t - back < stop:
                        factors[back] = 0.0
        groups: dict[tuple[float, ...], list[int]] = {}
        for token, factors in odd.items():
            groups.setdefault(tuple(factors), []).append(token)
        if any(factor != 1.0 for factor in base):
            groups.setdefault(base, []).extend(token for token in range(count) if token not in odd)
        groups.pop((1.0,) * taps, None)
        return groups

    def hidden_spans(self, layer: int, head: int) -> tuple[tuple[int, int], ...]:
        """Spans of keys that are hidden from a head of a layer, each for the tokens at or after its end."""
        found = self.hidden.get(layer, ())
        return tuple(sorted({(item.start, item.stop) for item in found if item.heads is None or head in item.heads}))


def compile_edits(items: Sequence[Intervention], shape: Architecture) -> Edits:
    """The edits that `items` amount to; they have passed :func:`engine.protocol.intervention_sets.check`."""
    edits = Edits()
    for item in items:
        for layer in layers_of(item, shape):
            _add(edits, item, layer, shape)
    return edits


def _add(edits: Edits, item: Intervention, layer: int, shape: Architecture) -> None:
    heads = shape.heads
    match item:
        case BanExperts():
            _gate(edits, layer, shape).banned.update(item.experts)
        case ForceExperts():
            _gate(edits, layer, shape).forced.update(item.experts)
        case ReweightExperts():
            _weigh(_gate(edits, layer, shape), item.experts, item.factor, renormalise=item.renormalise)
        case ScaleSinks():
            sinks = range(shape.sinks) if item.sinks == "all" else item.sinks
            gate = _gate(edits, layer, shape)
            _weigh(gate, [shape.experts + sink for sink in sinks], item.factor, renormalise=item.renormalise)
        case ScaleSconv():
            for site in SITES if item.sites == "all" else item.sites:
                factors = edits.taps.setdefault((layer, site), [1.0] * shape.conv_taps)
                for back in range(shape.conv_taps) if item.taps == "all" else item.taps:
                    factors[back] *= item.factor
        case ScaleBias():
            bias = _bias(edits, layer, heads)
            for head in range(heads) if item.heads == "all" else item.heads:
                bias.factors[head] *= item.factor
        case StretchBias():
            bias = _bias(edits, layer, heads)
            for head in range(heads) if item.heads == "all" else item.heads:
                bias.stretch[head] *= item.factor
        case DropLogScaling():
            _bias(edits, layer, heads).flat = True
        case MaskSpan() | MaskModality():
            chosen = None if item.heads == "all" else frozenset(item.heads)
            for start, stop in [(item.start, item.stop)] if isinstance(item, MaskSpan) else item.spans:
                edits.hidden.setdefault(layer, []).append(Hidden(start, stop, chosen))
                if item.sconv:
                    edits.cuts.setdefault(layer, []).append((start, stop))


def _gate(edits: Edits, layer: int, shape: Architecture) -> GateEdit:
    return edits.gates.setdefault(layer, GateEdit([1.0] * (shape.experts + shape.sinks)))


def _weigh(gate: GateEdit, numbers: Sequence[int], factor: float, *, renormalise: bool) -> None:
    for number in numbers:
        gate.factors[number] *= factor
    gate.renormalise = gate.renormalise or renormalise


def _bias(edits: Edits, layer: int, heads: int) -> BiasEdit:
    return edits.biases.setdefault(layer, BiasEdit([1.0] * heads, [1.0] * heads))
