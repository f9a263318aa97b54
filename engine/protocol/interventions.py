"""Interventions: declared changes of a running model, as data.

A change is made at one of the model's seams, for one request: other requests that run beside it are not touched, and nothing of it
stays behind. What is declared is checked before anything runs, salts the prefix cache (:mod:`engine.protocol.intervention_sets`),
and is stamped on what came of it. Several act together: factors multiply, masks add up, whatever their order::

    seam           class            what it changes
    experts        BanExperts       experts the router may not choose; it takes its next best
                   ForceExperts     experts the router must choose; the rest of the k is chosen as ever
                   ReweightExperts  the weight of an expert wherever it is chosen
    sinks          ScaleSinks       the weight of the shared experts
    sconv          ScaleSconv       the convolved term of a short convolution, or of some of its taps
    bias           ScaleBias        the relative bias; 0 removes it
                   StretchBias      the distances at which it acts
    log-scaling    DropLogScaling   the growth of queries and bias with the position, in global layers
    mask           MaskSpan         keys that no later token may attend to
                   MaskModality     the same for every span of a modality

Index letters: ``t`` token, ``l`` layer, ``h`` head, ``e`` expert, ``s`` sink. Layers are the model's indices, from 0.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal, TypeVar, dataclass_transform

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from ..errors import InterventionRefused
from .plans import SITES as SITES
from .plans import Site
from .spans import Modality, Span

T = TypeVar("T")

INTERVENTION_SEAMS = ("experts", "sinks", "sconv", "bias", "log-scaling", "mask")
"""What can be changed, by name; ``info.interventions`` says which of them can here."""


def _index(value: Any) -> Any:
    """A whole number of any library as Python's, but no truth value; anything else for pydantic to refuse."""
    try:
        return value if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return value


def _several(value: Any) -> Any:
    """One number, or several, each once, in the order given; words as they are."""
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return tuple(dict.fromkeys(_index(item) for item in value))
    return (_index(value),)


def _sites(value: Any) -> Any:
    return value if value == "all" else (value,) if isinstance(value, str) else tuple(dict.fromkeys(value))


Number = Annotated[int, BeforeValidator(_index), Field(ge=0, strict=True)]
Numbers = Annotated[tuple[Number, ...], BeforeValidator(_several), Field(min_length=1)]
Chosen = Annotated[Literal["all"] | Annotated[tuple[Number, ...], Field(min_length=1)], BeforeValidator(_several)]
Layers = Annotated[
    Literal["all", "global", "local"] | Annotated[tuple[Number, ...], Field(min_length=1)], BeforeValidator(_several)
]
Sites = Annotated[Literal["all"] | Annotated[tuple[Site, ...], Field(min_length=1)], BeforeValidator(_sites)]
Weight = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Factor = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]


@dataclass_transform(kw_only_default=True, frozen_default=True)
def _declared(kind: type[T]) -> type[T]:
    """A frozen dataclass whose fields are checked when it is made, with our error."""
    made: Any = dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))(kind)
    checked: Callable[..., None] = made.__init__

    def __init__(self: Any, **values: Any) -> None:
        try:
            checked(self, **values)
        except ValidationError as problem:
            raise InterventionRefused(sentence(kind.__name__, problem), intervention=kind.__name__) from None

    made.__init__ = __init__
    return made


def sentence(name: str, problem: ValidationError) -> str:
    """What is wrong with the first bad field, and what it may be."""
    errors = problem.errors()
    place = _field(errors[0])
    of_field = [error for error in errors if _field(error) == place]
    said = list(dict.fromkeys(error["msg"].removeprefix("Input ").removeprefix("should be ") for error in of_field))
    said = [text for text in said if "after validation" not in text] or ["one number or more"]
    if errors[0]["type"] in ("missing", "missing_keyword_only_argument"):
        return f"{name}: {place} is missing"
    given = repr(errors[0].get("input"))
    return f"{name}: {place} is {given if len(given) <= 80 else given[:77] + '…'}: it should be {' or '.join(said)}"


def _field(error: Any) -> str:
    """The field of an error: pydantic's path also names the members of unions."""
    path = [str(part) for part in error["loc"] if str(part) not in _KINDS and not re.search(r"[\[(]", str(part))]
    return path[0] if path else "it"


_KINDS = (
    "ban-experts", "force-experts", "reweight-experts", "scale-sinks", "scale-sconv", "scale-bias", "stretch-bias",
    "drop-log-scaling", "mask-span", "mask-modality",
)  # fmt: skip


@_declared
class BanExperts:
    """The router of `layer` may not choose `experts`.

    Examples
    --------
    >>> BanExperts(layer=3, experts=5)
    BanExperts(layer=3, experts=(5,))
    """

    kind: Literal["ban-experts"] = field(default="ban-experts", repr=False)
    layer: Number
    experts: Numbers
    seam: ClassVar[str] = "experts"


@_declared
class ForceExperts:
    """The router of `layer` must choose `experts`; their weights follow from their own logits, as for any chosen one."""

    kind: Literal["force-experts"] = field(default="force-experts", repr=False)
    layer: Number
    experts: Numbers
    seam: ClassVar[str] = "experts"


@_declared
class ReweightExperts:
    """The weights of `experts` in `layer`, where chosen, times `factor`.

    Attributes
    ----------
    factor : float
        0 or more; 0 lets a chosen expert say nothing.
    renormalise : bool
        Scale all weights of the token, sinks included, so that they sum to what they did before.
    """

    kind: Literal["reweight-experts"] = field(default="reweight-experts", repr=False)
    layer: Number
    experts: Numbers
    factor: Weight
    renormalise: bool = False
    seam: ClassVar[str] = "experts"


@_declared
class ScaleSinks:
    """The weights of the shared experts ("sinks") times `factor`; 0 removes them.

    Attributes
    ----------
    sinks : "all" or tuple of int
        Which of a layer's sinks, from 0.
    renormalise : bool
        As for :class:`ReweightExperts`: the experts take over what the sinks lose.
    """

    kind: Literal["scale-sinks"] = field(default="scale-sinks", repr=False)
    factor: Weight = 0.0
    layers: Layers = "all"
    sinks: Chosen = "all"
    renormalise: bool = False
    seam: ClassVar[str] = "sinks"


@_declared
class ScaleSconv:
    """The convolved term of short convolutions times `factor`; 0 drops it and leaves the site's input as it is.

    Attributes
    ----------
    sites : "all" or tuple of {"k", "v", "attention", "mlp"}
    taps : "all" or tuple of int
        Taps by how far they reach back: 0 is the token itself, 1 the one before it.
    """

    kind: Literal["scale-sconv"] = field(default="scale-sconv", repr=False)
    factor: Factor = 0.0
    sites: Sites = "all"
    layers: Layers = "all"
    taps: Chosen = "all"
    seam: ClassVar[str] = "sconv"


@_declared
class ScaleBias:
    """The relative bias times `factor`; 0 removes it."""

    kind: Literal["scale-bias"] = field(default="scale-bias", repr=False)
    factor: Factor = 0.0
    layers: Layers = "all"
    heads: Chosen = "all"
    seam: ClassVar[str] = "bias"


@_declared
class StretchBias:
    """The bias at distance `d` is what it was at ``d / factor``, between two distances linearly.

    It ends where it always did, at the layer's extent: with a factor above 1 the far part is cut off, with one below 1 the bias is
    0 from ``extent × factor`` on.
    """

    kind: Literal["stretch-bias"] = field(default="stretch-bias", repr=False)
    factor: Annotated[float, Field(gt=0, le=1e3, allow_inf_nan=False)]
    layers: Layers = "all"
    heads: Chosen = "all"
    seam: ClassVar[str] = "bias"


@_declared
class DropLogScaling:
    """Queries and relative bias of global layers do not grow with the position (sliding layers never do)."""

    kind: Literal["drop-log-scaling"] = field(default="drop-log-scaling", repr=False)
    layers: Layers = "global"
    seam: ClassVar[str] = "log-scaling"


@_declared
class MaskSpan:
    """No token at or after `stop` may attend to tokens `start` to `stop`; within the span they still see each other.

    Attributes
    ----------
    start, stop : int
        Absolute positions in the prompt.
    sconv : bool
        Cut the short convolutions too: taps of later tokens that reach back into the span read nothing. Without it the three tokens
        behind the span still carry something of it.
    """

    kind: Literal["mask-span"] = field(default="mask-span", repr=False)
    start: Number
    stop: Number
    layers: Layers = "all"
    heads: Chosen = "all"
    sconv: bool = False
    seam: ClassVar[str] = "mask"

    @classmethod
    def of(cls, span: Span, **options: Any) -> MaskSpan:
        """The mask of a rendered context's span."""
        return cls(start=span.start, stop=span.stop, **options)


@_declared
class MaskModality:
    """:class:`MaskSpan` for every span of a modality.

    Attributes
    ----------
    spans : tuple of (int, int)
        Where that modality lies; filled in from the rendered context by whoever sends it.
    """

    kind: Literal["mask-modality"] = field(default="mask-modality", repr=False)
    modality: Modality
    layers: Layers = "all"
    heads: Chosen = "all"
    sconv: bool = False
    spans: tuple[tuple[Number, Number], ...] = ()
    seam: ClassVar[str] = "mask"


Intervention = (
    BanExperts | ForceExperts | ReweightExperts | ScaleSinks | ScaleSconv | ScaleBias | StretchBias | DropLogScaling | MaskSpan
    | MaskModality
)  # fmt: skip
