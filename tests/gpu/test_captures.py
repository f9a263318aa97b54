"""Captures on a GPU: whether what is recorded is what ran, and what it costs. Written against the released source; never run yet.

``pytest -m gpu tests/gpu -s`` against an engine that runs (``INKLING_ENGINE_URL``, ``INKLING_ENGINE_TOKEN``) on the checkpoint of
your choice, started with ``LAMPORT_RS_SCONV=0``. Under ten minutes: a few prompts of some thousand tokens. There is no second
implementation of the weights at hand, so what is recorded is held against the engine's own answers, against other ways of
recording the same, and against the sums it must have. Values are bfloat16's: 8 bits, hence tolerances of some percent.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import numpy as np
import pytest

from engine.protocol import AttentionPlan, CapturePlan, ResidualPlan, RoutingPlan, SconvPlan
from workbench import Context

pytestmark = [pytest.mark.gpu, pytest.mark.engine]

TOKENS = 4_000
EVERYTHING = CapturePlan(
    routing=RoutingPlan(logits=True), sconv=SconvPlan(keep="taps"), residual=ResidualPlan(tokens="last", lens=5),
    attention=AttentionPlan(queries="last", layers="all", keep="whole"),
)  # fmt: skip


@pytest.fixture(scope="module")
def on_gpu(eng: Any) -> Any:
    if not eng.info.mode.startswith("gpu"):
        pytest.skip(f"the engine runs in mode {eng.info.mode!r}")
    return eng


@pytest.fixture(scope="module")
def context() -> Context:
    context = Context(effort="none")
    context.add_text("The ferry leaves the north quay at seven, and again at noon. " * (TOKENS // 14))
    context.ask("When does the ferry leave?")
    return context


def test_every_seam_fires_and_covers(on_gpu: Any, context: Context) -> None:
    missing = {seam.name: seam.reason for seam in on_gpu.info.seams if not seam.fires and seam.name != "drafts"}
    assert not missing
    capture = on_gpu.capture(context, EVERYTHING)
    assert capture.complete, capture.manifest.problems


def test_the_lens_after_the_last_layer_is_the_answers_first_token(on_gpu: Any, context: Context) -> None:
    reply = on_gpu.generate(context, max_tokens=1, temperature=0, logprobs=5)
    lens = on_gpu.capture(context, EVERYTHING).lens()
    alternatives = reply.logprobs[0].alternatives
    for token, logprob in zip(lens["token"].values[-1], lens["logprob"].values[-1], strict=True):
        if int(token) in alternatives:
            assert abs(alternatives[int(token)] - logprob) < 0.1
    assert int(reply.token_ids[0]) in lens["token"].values[-1].tolist()


def test_weights_follow_from_the_logits_and_sum_up(on_gpu: Any, context: Context) -> None:
    routing = on_gpu.capture(context, CapturePlan(routing=RoutingPlan(logits=True))).routing
    experts = routing.attrs["experts"]
    logits = routing["logits"].values.astype(np.float64)
    sigmoid = 1 / (1 + np.exp(-logits))
    chosen = np.take_along_axis(sigmoid[..., :experts], routing["expert"].values.astype(np.int64), -1)
    parts = np.concatenate([chosen, sigmoid[..., experts:]], -1)
    both = np.concatenate([routing["weight"].values, routing["sink"].values], -1)
    np.testing.assert_allclose(both / both.sum(-1, keepdims=True), parts / parts.sum(-1, keepdims=True), atol=1e-4)


def test_attention_rows_sum_to_one_and_pools_to_rows(on_gpu: Any, context: Context) -> None:
    plan = {"queries": "last", "layers": "all"}
    whole = on_gpu.capture(context, CapturePlan(attention=AttentionPlan(**plan, keep="whole"))).attention
    pooled = on_gpu.capture(context, CapturePlan(attention=AttentionPlan(**plan, keep="pooled", buckets=32))).attention
    np.testing.assert_allclose(whole["weight"].sum("t"), 1, atol=1e-4)
    edges = pooled["b"].values
    np.testing.assert_allclose(np.add.reduceat(whole["weight"].values, edges, axis=-1), pooled["bucket_weight"], atol=0.02)


def test_a_capture_leaves_the_engine_as_it_was(on_gpu: Any, context: Context) -> None:
    before = on_gpu.generate(context, max_tokens=32, temperature=0)
    on_gpu.capture(context, EVERYTHING)
    after = on_gpu.generate(context, max_tokens=32, temperature=0)
    assert after.token_ids.tolist() == before.token_ids.tolist()
    # Recorded graphs replay again: decoding is not slower than it was, beyond noise.
    assert after.timings.total_s < 3 * before.timings.total_s + 1


def test_what_it_costs(on_gpu: Any, record_property: Any, capsys: Any) -> None:
    """Printed, not judged: seconds of a prefill with and without, in turns."""
    plan, took = CapturePlan(routing=True, sconv=SconvPlan(keep="norms")), {"plain": [], "captured": []}
    for number in range(6):
        for name in took:
            fresh = Context(effort="none")
            fresh.ask(f"{name} {number}: " + "The ferry leaves at seven. " * (TOKENS // 6))
            began = time.perf_counter()
            if name == "plain":
                on_gpu.generate(fresh, max_tokens=1, temperature=0)
            else:
                run = on_gpu.start_capture(fresh, plan)
                while run.refresh().state in ("queued", "running"):
                    time.sleep(0.01)
                run.discard()
            took[name].append(time.perf_counter() - began)
    ratio = statistics.median(b / a for a, b in zip(took["plain"][1:], took["captured"][1:], strict=True))
    record_property("captured_over_plain", ratio)
    with capsys.disabled():
        sys.stdout.write(f"capture over plain prefill of about {TOKENS:,} tokens: {ratio:.2f}; {took}\n")
