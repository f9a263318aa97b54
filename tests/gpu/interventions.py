"""On a GPU: do interventions do there what they do without one? Checks for :mod:`.looking`; never run yet.

For every intervention of a small set, on vLLM's own kernels:

1. an intervention without effect (factor 1) changes no token and no log-probability beyond rounding: the wrapped functions and the
   eager steps are vLLM's;
2. one with effect changes the answer's log-probabilities (dropping the log scaling from the model's own floor on only), and scoring
   the same tokens by one prefill gives the same numbers;
3. a request that runs beside an intervened one says what it says alone;
4. afterwards recorded graphs are replayed again: the same speed as before, within a fifth.

The same edits made on transformers' modules are the judge where they fit in memory (tests/cpu/test_interventions.py).
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import numpy as np

from workbench import Context
from workbench.interventions import (
    BanExperts,
    DropLogScaling,
    Intervention,
    MaskSpan,
    ScaleBias,
    ScaleSconv,
    ScaleSinks,
    StretchBias,
)

if TYPE_CHECKING:
    import engine

    from .looking import Report


def cases(layer: int) -> dict[str, tuple[Intervention | None, Intervention]]:
    """By name: an intervention without effect, where there is one, and one with."""
    return {
        "experts": (None, BanExperts(layer=layer, experts=tuple(range(8)))),
        "sinks": (ScaleSinks(factor=1.0), ScaleSinks(factor=0.0)),
        "sconv attention": (ScaleSconv(factor=1.0, sites=("attention",)), ScaleSconv(factor=0.5, sites=("attention",))),
        "sconv keys": (ScaleSconv(factor=1.0, sites=("k",)), ScaleSconv(factor=0.5, sites=("k",))),
        "bias": (ScaleBias(factor=1.0), ScaleBias(factor=0.0, layers="global")),
        "stretch": (StretchBias(factor=1.0), StretchBias(factor=2.0, layers="global")),
        "log scaling": (None, DropLogScaling()),
        "mask": (None, MaskSpan(start=4, stop=64, sconv=True)),
    }


def check(eng: engine.Engine, context: Context, report: Report, *, layer: int) -> None:
    """Effect, absence of effect and leaving nothing behind, on `context`."""
    shape = eng.info.architecture
    assert shape is not None
    greedy = {"max_tokens": 32, "temperature": 0.0, "logprobs": 0}
    base, before_s = answer(eng, context, greedy)
    for name, (idle, active) in cases(layer).items():
        if idle is not None:
            reply, _ = answer(eng, context, greedy, idle)
            report.line(f"{name}: factor 1", difference(base, reply), at_most=0.05)
        reply, _ = answer(eng, context, greedy, active)
        scored = eng.score(reply, interventions=[active])
        report.line(f"{name}: scored again", float(np.abs(scored - logprobs(reply)).max()), at_most=0.05)
        moved = float(np.abs(eng.score(base, interventions=[active]) - logprobs(base)).max())
        if name == "log scaling" and len(context.render(eng)) <= shape.log_floor:
            report.line(f"{name}: none before {shape.log_floor:,} tokens", moved, at_most=0.05)
        else:
            report.line(f"{name}: has an effect", moved, at_least=1e-3)
    report.line("beside an intervened request", asyncio.run(beside(eng, context, greedy, base)), at_most=0.05)
    after, after_s = answer(eng, context, greedy)
    report.line("afterwards", difference(base, after), at_most=0.05)
    report.line("afterwards: seconds per answer, ratio", after_s / before_s, at_most=1.2)


def answer(eng: engine.Engine, context: Context, greedy: dict, item: Intervention | None = None):
    """A reply and the seconds it took, the prompt cached."""
    items = [] if item is None else [item]
    eng.generate(context, interventions=items, **{**greedy, "max_tokens": 1})
    began = time.perf_counter()
    reply = eng.generate(context, interventions=items, **greedy)
    return reply, time.perf_counter() - began


async def beside(eng: engine.Engine, context: Context, greedy: dict, base) -> float:
    """Largest difference to `base` when it is asked beside an intervened request."""
    plain, _ = await asyncio.gather(
        eng.agenerate(context, **greedy), eng.agenerate(context, interventions=[ScaleSinks(factor=0.0)], **greedy)
    )
    return difference(base, plain)


def logprobs(reply) -> np.ndarray:
    """Log-probabilities of the reply's tokens."""
    return np.array([item.logprob for item in reply.logprobs])


def difference(one, other) -> float:
    """Largest difference of log-probabilities up to the first other token; infinite when that is the first one."""
    shared = min(len(one.token_ids), len(other.token_ids))
    differ = np.flatnonzero(one.token_ids[:shared] != other.token_ids[:shared])
    stop = int(differ[0]) if len(differ) else shared
    return float(np.abs(logprobs(one)[:stop] - logprobs(other)[:stop]).max()) if stop else float("inf")
