"""On a GPU: is what a capture records what ran, and what does it cost? Checks for :mod:`.looking`; never run yet.

There is no second implementation of the weights at hand, so what is recorded is held against the engine's own answers and counts,
against other ways of recording the same, and against the sums it must have. Values are bfloat16's: 8 bits, hence tolerances of
some percent.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.protocol import AttentionPlan, CapturePlan, MaskSpan, ResidualPlan, RoutingPlan, SconvPlan
from workbench import Context

if TYPE_CHECKING:
    import engine

    from .looking import Report

TOKENS = 4_000
PAIRS = 5
EVERYTHING: dict[str, Any] = {
    "routing": RoutingPlan(logits=True), "sconv": SconvPlan(keep="taps"), "residual": ResidualPlan(tokens="last", lens=5),
    "attention": AttentionPlan(queries="last", layers="all", keep="whole"),
}  # fmt: skip
GREEDY: dict[str, Any] = {"max_tokens": 32, "temperature": 0.0, "logprobs": 5}


def check(eng: engine.Engine, context: Context, report: Report) -> None:
    """Parity and cost of captures of `context`."""
    missing = [seam.name for seam in eng.info.seams if not seam.fires and seam.name in EVERYTHING]
    report.line(f"seams that do not fire: {missing or 'none'}", len(missing), at_most=0)
    plan = CapturePlan(**{name: value for name, value in EVERYTHING.items() if name not in missing})
    before = eng.generate(context, **GREEDY)
    capture = eng.capture(context, plan)
    report.line("rows that were not seen once", len(capture) - capture.manifest.covered_tokens, at_most=0)
    _lens(capture, before, report)
    _weights(capture, report)
    _rows(eng, context, report)
    if eng.info.seam("drafts").fires:
        _drafts(eng, before, report)
    after = eng.generate(context, **GREEDY)
    report.line("other tokens after captures", int((after.token_ids != before.token_ids).sum()), at_most=0)
    # Recorded graphs replay again: decoding is not slower than it was, beyond noise.
    report.line("seconds of an answer, after over before", after.timings.total_s / before.timings.total_s, at_most=3)
    _cost(eng, report)


def _lens(capture, reply, report: Report) -> None:
    """After the last layer the lens is the model's prediction: the answer's first token, with its log-probability."""
    lens, alternatives = capture.lens(), reply.logprobs[0].alternatives
    pairs = zip(lens["token"].values[-1].tolist(), lens["logprob"].values[-1].tolist(), strict=True)
    apart = [abs(alternatives[token] - value) for token, value in pairs if token in alternatives]
    report.line("lens after the last layer, against the answer", max(apart, default=np.inf), at_most=0.1)


def _weights(capture, report: Report) -> None:
    """Weights and sinks are the sigmoids of the chosen logits, shared out."""
    routing = capture.routing
    experts = routing.attrs["experts"]
    sigmoid = 1 / (1 + np.exp(-routing["logits"].values.astype(np.float64)))
    chosen = np.take_along_axis(sigmoid[..., :experts], routing["expert"].values.astype(np.int64), -1)
    parts = np.concatenate([chosen, sigmoid[..., experts:]], -1)
    both = np.concatenate([routing["weight"].values, routing["sink"].values], -1)
    apart = np.abs(both / both.sum(-1, keepdims=True) - parts / parts.sum(-1, keepdims=True)).max()
    report.line("weights from the logits", float(apart), at_most=1e-4)


def _rows(eng: engine.Engine, context: Context, report: Report) -> None:
    """Whole rows sum to 1, pools are their sums, and what a mask hides has no weight."""
    ask: dict[str, Any] = {"queries": "last", "layers": "all"}
    whole = eng.capture(context, CapturePlan(attention=AttentionPlan(**ask, keep="whole"))).attention["weight"]
    pooled = eng.capture(context, CapturePlan(attention=AttentionPlan(**ask, keep="pooled", buckets=32))).attention
    report.line("attention rows sum to 1", float(np.abs(whole.sum("t") - 1).max()), at_most=1e-4)
    sums = np.add.reduceat(whole.values, pooled["b"].values, axis=-1)
    report.line("pools are sums of rows", float(np.abs(sums - pooled["bucket_weight"].values).max()), at_most=0.02)
    mask, plan = MaskSpan(start=4, stop=64), CapturePlan(attention=AttentionPlan(**ask, keep="whole"))
    masked = eng.capture(context, plan, interventions=[mask]).attention["weight"]
    report.line("weight of masked keys", float(masked.isel(t=slice(4, 64)).max()), at_most=0)
    report.line("masked rows sum to 1", float(np.abs(masked.sum("t") - 1).max()), at_most=1e-4)


def _drafts(eng: engine.Engine, reply, report: Report) -> None:
    """Walked through step by step, the captured verdicts give the steps that the engine took."""
    steps = eng.capture(reply, CapturePlan(drafts=True)).draft_steps().data.attrs["steps"]
    report.line("steps with drafts, captured less counted", abs(steps - reply.usage.drafted[0]), at_most=1)


def _cost(eng: engine.Engine, report: Report) -> None:
    """Seconds of a prefill with a capture over one without, in turns; said, not judged."""
    plan, took = CapturePlan(routing=True, sconv=SconvPlan(keep="norms")), {"plain": [], "captured": []}
    if not eng.info.seam("sconv").fires:
        plan = CapturePlan(routing=True)
    for number in range(PAIRS + 1):
        for name, runs in took.items():
            fresh = Context(effort="none")
            fresh.ask(f"{name} {number}: " + "The ferry leaves at seven. " * (TOKENS // 6))
            began = time.perf_counter()
            if name == "plain":
                eng.generate(fresh, max_tokens=1, temperature=0)
            else:
                run = eng.start_capture(fresh, plan)
                while run.refresh().state in ("queued", "running"):
                    time.sleep(0.01)
                run.discard()
            runs.append(time.perf_counter() - began)
    ratio = statistics.median(b / a for a, b in zip(took["plain"][1:], took["captured"][1:], strict=True))
    report.line(f"capture over plain prefill of about {TOKENS:,} tokens", ratio)
