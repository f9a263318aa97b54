"""The interventions of one request together: as JSON, placed in a context, checked against an engine, salting its cache, in words.

Knows sizes of a model (:class:`~engine.protocol.info.Architecture`) and what an engine says it can change; runs nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from ..errors import InterventionRefused
from .info import Architecture, EngineInfo
from .interventions import (
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
    sentence,
)  # fmt: skip
from .spans import Span

_ONE: TypeAdapter[Intervention] = TypeAdapter(Annotated[Intervention, Field(discriminator="kind")])


def to_json(item: Intervention) -> dict[str, Any]:
    """An intervention as JSON values, its kind among them."""
    return json.loads(json.dumps(dataclasses.asdict(item)))


def from_json(values: Any) -> Intervention:
    """The intervention that :func:`to_json` wrote.

    Raises
    ------
    InterventionRefused
        An unknown kind or field, a missing one, or a value out of its range.
    """
    try:
        return _ONE.validate_python(values)
    except ValidationError as problem:
        name = str(values.get("kind")) if isinstance(values, dict) else type(values).__name__
        raise InterventionRefused(sentence(name, problem), intervention=name) from None


def salt(items: Sequence[Intervention]) -> str | None:
    """What keeps cached keys of intervened requests apart from all others; None without interventions.

    Equal interventions in any order share their cache, so a conversation under an intervention keeps its prefix.
    """
    if not items:
        return None
    texts = sorted(json.dumps(to_json(item), sort_keys=True) for item in items)
    return f"intervened-{hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:40]}"


def place(items: Intervention | Iterable[Intervention], spans: Iterable[Span]) -> tuple[Intervention, ...]:
    """`items`, or one of them, with the spans of every masked modality filled in.

    Raises
    ------
    InterventionRefused
        Something else than an intervention, or a modality that the context has none of.
    """
    spans, placed = tuple(spans), []
    for item in (items,) if isinstance(items, Intervention) else items:
        if not isinstance(item, Intervention):
            raise InterventionRefused(
                f"{item!r:.80} is not an intervention: there are BanExperts, ForceExperts, ReweightExperts, ScaleSinks, "
                "ScaleSconv, ScaleBias, StretchBias, DropLogScaling, MaskSpan and MaskModality in workbench.interventions"
            )
        if isinstance(item, MaskModality) and not item.spans:
            found = tuple((span.start, span.stop) for span in spans if span.modality == item.modality)
            if not found:
                there = ", ".join(dict.fromkeys(span.modality for span in spans))
                raise InterventionRefused(f"this context has no {item.modality} to mask; it has {there}", intervention=item.kind)
            item = dataclasses.replace(item, spans=found)
        placed.append(item)
    return tuple(placed)


def describe(item: Intervention) -> str:
    """One line that a reader of an answer or a figure understands."""
    match item:
        case BanExperts():
            return f"layer {item.layer}: experts {_list(item.experts)} banned"
        case ForceExperts():
            return f"layer {item.layer}: experts {_list(item.experts)} forced"
        case ReweightExperts():
            return f"layer {item.layer}: weight of experts {_list(item.experts)} × {item.factor:g}"
        case ScaleSinks():
            return f"{_where(item.layers)}: sinks {_list(item.sinks)} × {item.factor:g}"
        case ScaleSconv():
            taps = "" if item.taps == "all" else f", taps {_list(item.taps)}"
            return f"{_where(item.layers)}: short convolutions {_list(item.sites)}{taps} × {item.factor:g}"
        case ScaleBias() | StretchBias():
            what = "bias" if isinstance(item, ScaleBias) else "reach of the bias"
            heads = "" if item.heads == "all" else f" of heads {_list(item.heads)}"
            return f"{_where(item.layers)}: {what}{heads} × {item.factor:g}"
        case DropLogScaling():
            return f"{_where(item.layers)}: no log scaling"
        case MaskSpan():
            return f"{_where(item.layers)}: tokens {item.start:,} to {item.stop:,} masked" + (", convolutions cut" * item.sconv)
        case MaskModality():
            return f"{_where(item.layers)}: every {item.modality} masked" + (", convolutions cut" * item.sconv)


def _list(values: str | tuple[int | str, ...]) -> str:
    return values if isinstance(values, str) else ", ".join(map(str, values))


def _where(layers: str | tuple[int, ...]) -> str:
    return f"{layers} layers" if isinstance(layers, str) else f"layers {_list(layers)}"


def layers_of(item: Intervention, shape: Architecture) -> tuple[int, ...]:
    """The layers that an intervention acts in.

    Raises
    ------
    InterventionRefused
        A layer that the model does not have, or that has nothing of the kind.
    """
    match item:
        case BanExperts() | ForceExperts() | ReweightExperts():
            asked, able, what = (item.layer,), shape.moe_layers, "has no experts; layers with experts"
        case ScaleSinks():
            asked, able, what = item.layers, shape.moe_layers, "has no sinks; layers with sinks"
        case DropLogScaling():
            asked, able, what = item.layers, shape.global_layers, "has no log scaling; global layers"
        case _:
            asked, able, what = item.layers, tuple(range(shape.layers)), "is not in this model; its layers"
    if isinstance(asked, str):
        found = tuple(layer for layer in shape.layers_called(asked) if layer in able)
        if not found:
            raise InterventionRefused(f"{item.kind}: none of the {asked} layers {what}: {_list(able)}", intervention=item.kind)
        return found
    for layer in asked:
        if layer not in able:
            raise InterventionRefused(f"{item.kind}: layer {layer} {what}: {_list(able)}", intervention=item.kind, layer=layer)
    return tuple(asked)


def check(items: Sequence[Intervention], info: EngineInfo, tokens: int) -> None:
    """Refuse what an engine cannot do to a prompt of so many tokens; nothing has run yet.

    Raises
    ------
    InterventionRefused
        The first intervention that cannot be had, and what is allowed instead.
    """
    shape = info.architecture
    for item in items:
        seam = info.intervention(item.seam)
        if not seam.fires or shape is None:
            raise InterventionRefused(
                f"{item.kind}: {seam.name} cannot be changed by this engine: {seam.reason}", intervention=item.kind
            )
        layers_of(item, shape)
        match item:
            case BanExperts() | ForceExperts() | ReweightExperts():
                _numbers(item, "expert", item.experts, shape.experts)
            case ScaleSinks():
                _numbers(item, "sink", item.sinks, shape.sinks)
            case ScaleSconv():
                _numbers(item, "tap", item.taps, shape.conv_taps)
            case ScaleBias() | StretchBias():
                _numbers(item, "head", item.heads, shape.heads)
            case MaskSpan():
                _numbers(item, "head", item.heads, shape.heads)
                _span(item, item.start, item.stop, tokens)
            case MaskModality():
                _numbers(item, "head", item.heads, shape.heads)
                for start, stop in item.spans:
                    _span(item, start, stop, tokens)
                if not item.spans:
                    raise InterventionRefused(f"{item.kind}: no spans of {item.modality} are given", intervention=item.kind)
    if items and shape is not None:
        _choices(items, shape)


def _choices(items: Sequence[Intervention], shape: Architecture) -> None:
    """A router must be left enough to choose from, and no more forced on it than it chooses."""
    for layer in shape.moe_layers:
        banned = {e for item in items if isinstance(item, BanExperts) and item.layer == layer for e in item.experts}
        forced = {e for item in items if isinstance(item, ForceExperts) and item.layer == layer for e in item.experts}
        if both := sorted(banned & forced):
            raise InterventionRefused(f"layer {layer}: experts {_list(tuple(both))} are both banned and forced", layer=layer)
        if shape.experts - len(banned) < shape.experts_per_token:
            raise InterventionRefused(
                f"layer {layer}: {len(banned)} of {shape.experts} experts are banned and a token needs {shape.experts_per_token}: "
                f"ban at most {shape.experts - shape.experts_per_token}", layer=layer,
            )  # fmt: skip
        if len(forced) > shape.experts_per_token:
            raise InterventionRefused(
                f"layer {layer}: {len(forced)} experts are forced, a token has {shape.experts_per_token}", layer=layer
            )


def _numbers(item: Intervention, what: str, numbers: str | tuple[int, ...], count: int) -> None:
    for number in () if isinstance(numbers, str) else numbers:
        if number >= count:
            raise InterventionRefused(
                f"{item.kind}: no {what} {number}: this model has 0 to {count - 1}", intervention=item.kind, **{what: number}
            )


def _span(item: Intervention, start: int, stop: int, tokens: int) -> None:
    if not start < stop <= tokens:
        raise InterventionRefused(
            f"{item.kind}: tokens {start:,} to {stop:,} are not a span of this prompt of {tokens:,} tokens", intervention=item.kind,
            start=start, stop=stop,
        )  # fmt: skip
