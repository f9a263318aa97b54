"""What to record: capture plans, and how they select layers, heads and tokens.

Plans are data, checked when made, resolved against a context by the client (:meth:`CapturePlan.resolve`), and checked again by the
engine that is to fulfil them: a seam that cannot fire there refuses the plan before anything runs (``info.seams``).

**Semantics.** A capture of a context is one prefill of its rendered ids; a capture of a reply, of its prompt and reply ids. `t` is
the absolute position in either. Only computed tokens can be seen, so the prefix cache is read up to the first token that a plan
selects and not beyond: a plan over all tokens computes all of them anew, one over the last token computes little. Attention rows
need no more than their query tokens computed, whatever they look back at: keys come from the cache. Draft heads are asked behind
each chosen token with the context's own next tokens before them, so what is recorded does not depend on how an answer was drawn.

>>> plan = CapturePlan(routing=True, attention=AttentionPlan(queries=(90, 95)))
>>> plan.seams()
('routing', 'attention')
>>> plan.first_token(100)                      # routing selects all tokens
0
>>> CapturePlan(attention=AttentionPlan(queries=(90, 95))).first_token(100)
90
>>> CapturePlan(residual=ResidualPlan(tokens="last", lens=5)).resolve(100).first_token(100)
99
>>> CapturePlan(routing=RoutingPlan(tokens="reply")).resolve(100, reply_tokens=20).routing.tokens
(TokenRange(start=80, stop=100),)
>>> CapturePlan(routing=RoutingPlan(tokens="reply")).resolve(100)
Traceback (most recent call last):
engine.errors.CaptureRefused: tokens "reply" need a reply: capture(reply) has one, a context has none
>>> CapturePlan(drafts=DraftsPlan(tokens="reply")).resolve(100, reply_tokens=20).first_token(100)
80
>>> CapturePlan(sconv=SconvPlan(tokens=(7, 200))).resolve(100)
Traceback (most recent call last):
engine.errors.CaptureRefused: sconv selects token 200; there are tokens 0 to 99
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from .selectors import TokenRange, pieces, token_ranges

SEAMS = ("routing", "sconv", "attention", "residual", "drafts")
"""Every seam a plan can name."""

Site = Literal["k", "v", "attention", "mlp"]
SITES: tuple[Site, ...] = get_args(Site)
"""The short convolutions of a layer: on keys, on values, on what attention adds to the stream, on what the MLP adds."""

ADDITIONS = ("attention", "mlp")
"""Where the residual stream is seen in a layer: after the attention's addition, and after the MLP's."""

MAX_LENS = 64


Tokens = Literal["all", "last", "reply"] | Sequence[Any]
"""``"all"``, ``"last"``, ``"reply"`` (needs a capture of one), or positions, ranges and spans, alone or in a tuple."""

Layers = Literal["all", "global", "local"] | Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingPlan:
    """Expert ids, their weights and the sinks' weights.

    Attributes
    ----------
    layers : {"all", "global", "local"} or tuple of int
        Of the MoE layers.
    tokens : Tokens
    logits : bool
        Also the router's raw logits of every expert and sink: 4 bytes each.
    """

    layers: Any = "all"
    tokens: Any = "all"
    logits: bool = False

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SconvPlan:
    """Short convolutions.

    Attributes
    ----------
    layers, tokens
    sites : tuple of {"k", "v", "attention", "mlp"}
    keep : {"norms", "taps", "channels"}
        ``norms``: input and convolved term, their ratio and cosine. ``taps``: also what each tap contributes. ``channels``: also
        input and term of every channel, which is large.
    """

    layers: Any = "all"
    tokens: Any = "all"
    sites: tuple[str, ...] = SITES
    keep: Literal["norms", "taps", "channels"] = "taps"

    def __post_init__(self) -> None:
        _check(self)
        _one_of(self, "keep", ("norms", "taps", "channels"))
        object.__setattr__(self, "sites", tuple(self.sites))
        if not self.sites or set(self.sites) - set(SITES):
            raise ValueError(f"sites is {self.sites!r}: it takes some of {', '.join(SITES)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPlan:
    """Attention rows: for chosen query tokens, over all keys they can see.

    Attributes
    ----------
    queries : Tokens
        Query tokens, ``"last"`` by default.
    layers : {"all", "global", "local"} or tuple of int
    heads : "all" or tuple of int
    keep : {"pooled", "topk", "whole"}
        Summed over spans and over equal buckets; the keys with the largest weights; or every key.
    buckets : int
        For ``pooled``: how many buckets the context is cut into, 1 to 4096.
    top : int
        For ``topk``: keys per row, 1 to 1024.
    profiles : bool
        Also each query's relative bias by distance, as mixed from the layer's bank.
    """

    queries: Any = "last"
    layers: Any = "global"
    heads: Any = "all"
    keep: Literal["pooled", "topk", "whole"] = "pooled"
    buckets: int = 512
    top: int = 16
    profiles: bool = False

    def __post_init__(self) -> None:
        _check(self)
        _one_of(self, "keep", ("pooled", "topk", "whole"))
        for name, most in (("buckets", 4096), ("top", 1024)):
            if not 1 <= getattr(self, name) <= most:
                raise ValueError(f"{name} is {getattr(self, name)!r}: it takes 1 to {most}")

    @property
    def tokens(self) -> Any:
        """The query tokens."""
        return self.queries


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualPlan:
    """The residual stream.

    Attributes
    ----------
    layers, tokens
    keep : {"norms", "vectors"}
    lens : int
        So many likeliest next tokens after each chosen layer, by the model's own final norm, scaling and head; 0 for none, up to
        64. It costs one pass of the head per token and layer.
    """

    layers: Any = "all"
    tokens: Any = "all"
    keep: Literal["norms", "vectors"] = "norms"
    lens: int = 0

    def __post_init__(self) -> None:
        _check(self)
        _one_of(self, "keep", ("norms", "vectors"))
        if not 0 <= self.lens <= MAX_LENS:
            raise ValueError(f"lens is {self.lens!r}: it takes 0 to {MAX_LENS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftsPlan:
    """Draft heads: behind every chosen token each head's proposal, its log-probability, and whether it would be accepted.

    It costs one pass of the model's head per token and draft head.

    Attributes
    ----------
    tokens : Tokens
        Behind which tokens; the heads that stand behind token `t` know the next one and propose those after it.
    """

    tokens: Any = "all"

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePlan:
    """What one capture records; ``True`` for a seam stands for its plan's defaults.

    Attributes
    ----------
    routing : RoutingPlan or None
    sconv : SconvPlan or None
    attention : AttentionPlan or None
    residual : ResidualPlan or None
    drafts : DraftsPlan or None
        Needs an engine that drafts (``engine.start(…, drafts=N)``).
    """

    routing: Any = None
    sconv: Any = None
    attention: Any = None
    residual: Any = None
    drafts: Any = None

    def __post_init__(self) -> None:
        for name, kind in PLANS.items():
            given = getattr(self, name)
            value = kind() if given is True else None if given is False else given
            if isinstance(value, dict):
                value = kind(**value)
            if value is not None and not isinstance(value, kind):
                raise ValueError(f"{name} is {given!r}: it takes True, or a {kind.__name__}")
            object.__setattr__(self, name, value)
        if not self.seams():
            raise ValueError(f"an empty CapturePlan records nothing: set at least one of {', '.join(PLANS)}")

    def seams(self) -> tuple[str, ...]:
        """Names of the seams this plan needs, in the order of :data:`SEAMS`."""
        return tuple(name for name in SEAMS if getattr(self, name))

    def resolve(self, tokens: int, *, reply_tokens: int = 0) -> CapturePlan:
        """The same plan with its token selectors as ranges of a context of so many tokens, the last `reply_tokens` a reply's.

        Raises
        ------
        CaptureRefused
            A token outside the context, or ``"reply"`` without one.
        """
        changed: dict[str, Any] = {}
        for name in PLANS:
            if (plan := getattr(self, name)) is not None:
                ranges = token_ranges(plan.tokens, tokens, reply_tokens=reply_tokens, what=name)
                changed[name] = replace(plan, **{"queries" if name == "attention" else "tokens": ranges})
        return replace(self, **changed)

    def first_token(self, tokens: int) -> int:
        """The first token that must be computed: the prefix cache may serve those before it."""
        firsts = [
            token_ranges(plan.tokens, tokens, what=name)[0].start for name in PLANS if (plan := getattr(self, name)) is not None
        ]
        return min(firsts, default=0)

    def to_json(self) -> dict[str, Any]:
        """JSON values; what is not recorded is left out."""
        return {name: _plain(asdict(getattr(self, name))) for name in self.seams()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> CapturePlan:
        """The plan that :meth:`to_json` wrote.

        Raises
        ------
        ValueError, TypeError
            An unknown field or value.
        """
        given = dict(values)
        for name, kind in PLANS.items():
            inner = given.get(name)
            if isinstance(inner, dict):
                known = {item.name for item in fields(kind)}
                if unknown := set(inner) - known:
                    raise ValueError(f"{name} has no {sorted(unknown)}: it has {', '.join(sorted(known))}")
                given[name] = kind(**{key: _selector(value) for key, value in inner.items()})
        return cls(**given)


PLANS: dict[str, Any] = {
    "routing": RoutingPlan, "sconv": SconvPlan, "attention": AttentionPlan, "residual": ResidualPlan, "drafts": DraftsPlan,
}  # fmt: skip
"""The plan of each seam."""


def _check(plan: Any) -> None:
    """Selectors in their one form: words, or tuples."""
    for name in ("tokens", "queries", "layers", "heads"):
        if name not in plan.__slots__:
            continue
        value = getattr(plan, name)
        words = {"layers": ("all", "global", "local"), "heads": ("all",)}.get(name, ("all", "last", "reply"))
        if isinstance(value, str):
            if value not in words:
                raise ValueError(f"{name} is {value!r}: it takes {', '.join(map(repr, words))}, or numbers")
            continue
        if name in ("layers", "heads"):
            numbers = (value,) if isinstance(value, int) else tuple(value)
            if not numbers or not all(isinstance(item, int) and item >= 0 for item in numbers):
                raise ValueError(f"{name} is {value!r}: it takes {', '.join(map(repr, words))}, or numbers from 0")
            object.__setattr__(plan, name, tuple(sorted(set(numbers))))
            continue
        try:
            given = pieces(value)
        except TypeError:
            raise ValueError(f"{name} is {value!r}: it takes {', '.join(map(repr, words))}, positions, ranges or spans") from None
        object.__setattr__(plan, name, tuple(TokenRange(start, stop) for start, stop in given))


def _one_of(plan: Any, name: str, words: tuple[str, ...]) -> None:
    if getattr(plan, name) not in words:
        raise ValueError(f"{name} is {getattr(plan, name)!r}: it takes {', '.join(map(repr, words))}")


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Ranges as pairs."""

    def one(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return [[item["start"], item["stop"]] if isinstance(item, dict) else item for item in value]
        return value

    return {key: one(value) for key, value in values.items()}


def _selector(value: Any) -> Any:
    """Pairs as ranges."""
    if not isinstance(value, list):
        return value
    return tuple(TokenRange(*item) if isinstance(item, list) and len(item) == 2 else item for item in value)
