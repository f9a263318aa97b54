"""What a plan costs and whether it may run, from a model's sizes; no engine."""

from __future__ import annotations

import pytest

from engine.errors import CaptureRefused
from engine.kernel.capture_costs import MEMORY_BYTES, RECOMPUTE_TOKENS, Speed, check_cost, cost_of
from engine.protocol import (
    Architecture,
    AttentionPlan,
    CapturePlan,
    EngineInfo,
    Limits,
    ResidualPlan,
    RoutingPlan,
    SconvPlan,
    Seam,
)  # fmt: skip
from engine.protocol.costs import entries, size_bytes

INKLING = Architecture(
    layers=66, global_layers=tuple(range(5, 66, 6)), moe_layers=tuple(range(2, 66)), experts=256, experts_per_token=6, sinks=2,
    hidden=6144, vocabulary=201_024, heads=64, kv_heads=8, local_kv_heads=16, head_dim=128, window=512, extent=1024, profiles=16,
    conv_taps=4,
)  # fmt: skip
INFO = EngineInfo(
    kind="workbench", model="inkling", limits=Limits(context_tokens=1_048_575), architecture=INKLING,
    seams=(*(Seam(name=name, fires=True) for name in ("routing", "sconv", "attention", "residual")),
           Seam(name="drafts", fires=False, reason="not built yet")),
    engine_args={"max_num_batched_tokens": 8192},
)  # fmt: skip
MILLION = 1_048_000


def cost(plan: CapturePlan, tokens: int = MILLION, spans: int = 50):
    return cost_of(INFO, plan.resolve(tokens), tokens, spans=spans, speed=Speed())


def test_routing_of_the_large_model_keeps_under_forty_bytes_per_token_and_layer() -> None:
    found = cost(CapturePlan(routing=True))
    assert found.disk_bytes / MILLION / 64 == 38
    assert found.compute_tokens == MILLION


def test_a_million_tokens_are_recorded_in_little_memory() -> None:
    assert cost(CapturePlan(routing=True, sconv=SconvPlan(keep="norms"), residual=True)).memory_bytes < MEMORY_BYTES
    assert cost(CapturePlan(attention=AttentionPlan(queries="last", layers="all"))).memory_bytes < MEMORY_BYTES


def test_every_layer_kind_has_its_own_channels_and_reach() -> None:
    sconv = SconvPlan(keep="channels", layers=(5,), sites=("k",))
    found = entries(CapturePlan(sconv=sconv, attention=AttentionPlan(layers="local")).resolve(100), INKLING, 100, spans=3)
    assert found["sconv"]["sconv.kernel"][1] == (1, 1, 8 * 128, 4)
    assert found["attention"]["attention.bank"][1] == (55, 16, 512)


@pytest.mark.parametrize(
    ("plan", "tokens", "words"),
    [
        (CapturePlan(attention=AttentionPlan(queries="all", keep="whole", layers="all")), 50_000, r"needs [\d,]+$|select fewer"),
        (CapturePlan(sconv=SconvPlan(keep="channels")), 900_000, r'SconvPlan\(keep="taps"\) needs|keep="norms"\) needs'),
        (CapturePlan(routing=RoutingPlan(logits=True)), 1_000_000, r"RoutingPlan\(logits=False\) needs"),
        (CapturePlan(residual=ResidualPlan(keep="vectors")), 900_000, r'ResidualPlan\(keep="norms"\) needs'),
    ],
)
def test_what_does_not_fit_is_refused_with_a_smaller_plan(plan: CapturePlan, tokens: int, words: str) -> None:
    with pytest.raises(CaptureRefused, match=words):
        check_cost(
            cost(plan, tokens), plan.resolve(tokens), INFO, tokens, spans=50, free_bytes=60_000_000_000, recompute=True
        )  # fmt: skip


def test_what_recording_would_hold_too_much_of_is_refused_with_a_smaller_plan() -> None:
    plan, tokens = CapturePlan(residual=ResidualPlan(keep="vectors", layers=tuple(range(8)))), 9_000
    found = cost(plan, tokens)
    assert found.disk_bytes < 16e9
    with pytest.raises(
        CaptureRefused, match=r"holds [\d,]+ bytes in every worker.*ResidualPlan\(keep=.norms.\) needs [\d,]+$"
    ) as caught:
        check_cost(found, plan.resolve(tokens), INFO, tokens, spans=50, free_bytes=1 << 50, recompute=True)
    assert caught.value.detail == {"memory_bytes": found.memory_bytes, "limit_bytes": MEMORY_BYTES}
    smaller = CapturePlan(residual=ResidualPlan(layers=tuple(range(8))))
    check_cost(cost(smaller, tokens), smaller.resolve(tokens), INFO, tokens, spans=50, free_bytes=1 << 50, recompute=True)


def test_draft_heads_are_counted() -> None:
    drafting = INFO.model_copy(update={
        "architecture": INKLING.model_copy(update={"draft_layers": 8}), "seams": (Seam(name="drafts", fires=True),),
    })  # fmt: skip
    plan = CapturePlan(drafts=True).resolve(MILLION)
    found = cost_of(drafting, plan, MILLION, spans=0, speed=Speed())
    # An id, a log-probability and a verdict per token and head.
    assert found.disk_bytes == MILLION * 8 * (4 + 4 + 1)
    assert found.memory_bytes < MEMORY_BYTES


def test_many_cached_tokens_are_computed_again_only_when_asked_for() -> None:
    plan, tokens = CapturePlan(routing=True), RECOMPUTE_TOKENS + 1
    found, rest = cost(plan, tokens), {"spans": 50, "free_bytes": 1 << 50}
    with pytest.raises(CaptureRefused, match=r"262,145 tokens anew.*recompute=True"):
        check_cost(found, plan.resolve(tokens), INFO, tokens, recompute=False, **rest)
    check_cost(found, plan.resolve(tokens), INFO, tokens, recompute=True, **rest)
    late = CapturePlan(routing=RoutingPlan(tokens=(range(tokens - 10, tokens),)))
    check_cost(cost(late, tokens), late.resolve(tokens), INFO, tokens, recompute=False, **rest)


def test_a_seam_that_does_not_fire_says_why() -> None:
    with pytest.raises(CaptureRefused, match="drafts cannot be captured by this engine: not built yet"):
        cost(CapturePlan(drafts=True))


def test_seconds_are_those_of_the_nearest_prefill() -> None:
    speed = Speed()
    assert speed.seconds(100) is None
    speed.add(1_000, 1.0)
    speed.add(100_000, 400.0)
    assert speed.seconds(2_000) == pytest.approx(2.0)
    assert speed.seconds(90_000) == pytest.approx(360.0)


def test_sizes_are_sums() -> None:
    plan = CapturePlan(routing=True, sconv=True).resolve(1000)
    parts = entries(plan, INKLING, 1000)
    assert cost(plan, 1000).disk_bytes == sum(size_bytes(part) for part in parts.values()) == sum(cost(plan, 1000).seams.values())
