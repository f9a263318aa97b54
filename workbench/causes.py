"""What an intervention changed, and which parts an answer depended on: causes, where captures show what went together.

    from workbench import attribute, compare

    changed = eng.generate(ctx, interventions=[…])
    compare(base, changed, engine=eng)                      # texts, log-probabilities, routing overlap, attention shift
    attribute(reply, by="part", engine=eng)                 # log-probability lost when a part is masked

Both judge the tokens of a reply that is already there, so sampling plays no part. Numbers are natural logarithms, "nats": a drop of
0.7 halves a probability. Masking a part shows what the answer loses without it; parts that say the same thing stand in for each
other, so drops need not add up. Knows nothing of HTTP; an engine is asked through its client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.protocol import CapturePlan, Intervention, MaskSpan, PrefillProgress, Reply, Span
from engine.protocol.intervention_sets import describe, from_json

from .comparisons import Comparison, attention_shift, routing_overlap, token_scores
from .errors import SelectionError
from .results import Result
from .routing import By, group_tokens

if TYPE_CHECKING:
    from engine import Engine

NOTE = (
    "A drop is what the answer loses when no later token may see the part and no convolution reaches into it. "
    "Parts that say the same stand in for each other."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionProgress:
    """`done` of `total` prefills are finished; `name` is being masked and its own prefill is at `prefill`."""

    done: int
    total: int
    name: str
    prefill: PrefillProgress | None = None


def interventions_of(reply: Reply) -> tuple[Intervention, ...]:
    """The interventions that are stamped on a reply."""
    return tuple(from_json(item) for item in reply.provenance.get("interventions", ()))


def compare(base: Reply, changed: Reply, *, engine: Engine | None = None, plan: CapturePlan | None = None) -> Comparison:
    """What became different between two replies to the same context, one of them under interventions or by an adapter.

    Parameters
    ----------
    base, changed : Reply
        Their interventions and adapters are the ones stamped on them.
    engine : Engine, optional
        Judges the tokens of `base` under both; default: the one that runs here (``engine.attach()``).
    plan : CapturePlan, optional
        With routing or attention: captured under both, for the overlap of the routing and the shift of the attention.

    Returns
    -------
    Comparison

    Raises
    ------
    SelectionError
        The replies answer different contexts.

    Notes
    -----
    Costs at most two prefills of context and reply, and two more for captures; what the prefix cache holds is not computed again.
    """
    from engine.connection import blocking

    return blocking(acompare(base, changed, engine=engine, plan=plan))


async def acompare(base: Reply, changed: Reply, *, engine: Engine | None = None, plan: CapturePlan | None = None) -> Comparison:
    """:func:`compare` for asynchronous callers."""
    if base.context != changed.context:
        raise SelectionError(
            f"these replies answer different contexts ({base.context[:19]}… and {changed.context[:19]}…): compare replies to one"
        )
    eng = _engine(engine)
    before, after = interventions_of(base), interventions_of(changed)
    # Who gave the base reply judges it, and then who gave the changed one.
    sides: list[dict[str, Any]] = [{"interventions": before}, {"interventions": after}]
    if changed.adapter != base.adapter:
        sides[1]["adapter"] = changed.adapter
    scores = [await eng.ascore(base, **side) for side in sides]
    captures = [await eng.acapture(base, plan, **side) for side in sides] if plan is not None else []
    recorded = set(captures[0].seams) if captures else set()
    return Comparison(
        base=base, changed=changed, interventions=tuple(describe(item) for item in after if item not in before),
        scores=token_scores(base, *scores),
        routing=routing_overlap(*captures) if "routing" in recorded else None,
        attention=attention_shift(*captures) if "attention" in recorded else None,
    )  # fmt: skip


def attribute(
    reply: Reply, by: By = "part", *, engine: Engine | None = None, sconv: bool = True,
    progress: Callable[[AttributionProgress], None] | None = None,
) -> Result:  # fmt: skip
    """How much log-probability a reply loses when each part of its context is masked.

    Parameters
    ----------
    reply : Reply
        As the engine gave it; interventions stamped on it stay in force.
    by : {"part", "span", "modality"}
        What is masked at a time. Framing that belongs to no part is never masked.
    engine : Engine, optional
        Default: the one that runs here (``engine.attach()``).
    sconv : bool
        Cut the short convolutions at the part's end too (see :class:`~engine.protocol.interventions.MaskSpan`).
    progress : callable, optional
        Told after every step; an exception from it, or Ctrl-C, ends the work within a step of the engine.

    Returns
    -------
    Result
        ``drop`` (part) and ``drop_by_token`` (part,t) in nats, `t` counting the reply's tokens; ``tokens`` (part) masked.

    Notes
    -----
    Costs at most one prefill for the reply as it is and one per part.
    """
    from engine.connection import blocking

    return blocking(aattribute(reply, by, engine=engine, sconv=sconv, progress=progress))


async def aattribute(
    reply: Reply, by: By = "part", *, engine: Engine | None = None, sconv: bool = True,
    progress: Callable[[AttributionProgress], None] | None = None,
) -> Result:  # fmt: skip
    """:func:`attribute` for asynchronous callers; cancelling it ends the prefill that is running."""
    import xarray as xr

    eng = _engine(engine)
    spans = eng.context_of(reply).spans
    masked = masks_by(spans, by, sconv=sconv)
    kept, total = interventions_of(reply), len(masked) + 1

    def told(done: int, name: str) -> Callable[[PrefillProgress], None]:
        def tell(prefill: PrefillProgress | None = None) -> None:
            if progress is not None:
                progress(AttributionProgress(done=done, total=total, name=name, prefill=prefill))

        tell()
        return tell

    whole = await eng.ascore(reply, interventions=kept, progress=told(0, "nothing"))
    drops = np.empty((len(masked), len(whole)))
    for number, (name, masks) in enumerate(masked.items()):
        without = await eng.ascore(reply, interventions=(*kept, *masks), progress=told(number + 1, name))
        drops[number] = whole - without
    told(total, "nothing")
    tokens = [sum(mask.stop - mask.start for mask in masks) for masks in masked.values()]
    data = xr.Dataset(
        {
            "drop": ((by,), drops.sum(1), {"units": "nat", "long_name": "log-probability lost"}),
            "tokens": ((by,), np.asarray(tokens)),
            "drop_by_token": ((by, "t"), drops, {"units": "nat"}),
        },
        coords={by: list(masked), "t": np.arange(len(whole))},
        attrs={"logprob": float(whole.sum()), "reply": reply.text, "ids": reply.token_ids.tolist()},
    )  # fmt: skip
    return Result(title=f"What the answer loses without each {by}", data=data, figure="causes:attribution", notes=(NOTE,))


def masks_by(spans: Sequence[Span], by: By, *, sconv: bool = True) -> dict[str, tuple[MaskSpan, ...]]:
    """Masks of each part, span or modality by name: one for every stretch of neighbouring tokens.

    Raises
    ------
    SelectionError
        An unknown `by`, or a context of framing only.
    """
    names, groups = group_tokens(spans, by)
    content = np.zeros(len(groups), bool)
    for span in spans:
        content[span.start : span.stop] = span.part is not None
    found: dict[str, tuple[MaskSpan, ...]] = {}
    for number, name in enumerate(names):
        inside = np.flatnonzero(np.diff(np.concatenate([[False], (groups == number) & content, [False]]).astype(np.int8)))
        runs = [(int(start), int(stop)) for start, stop in inside.reshape(-1, 2)]
        if runs:
            found[name] = tuple(MaskSpan(start=start, stop=stop, sconv=sconv) for start, stop in runs)
    if not found:
        raise SelectionError("this context has no parts to mask: framing only")
    return found


def _engine(given: Any) -> Any:
    if given is not None:
        return given
    import engine

    return engine.attach()
