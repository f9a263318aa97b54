"""The planner against published facts, and the demo's plan against what the running engine counts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from engine import recipes
from engine.demo.shape import Shape
from engine.errors import BadRequest
from engine.inkling import ModelShape
from engine.planner import plan
from engine.planner.memory import weights_bytes
from engine.planner.speed import step_bytes
from workbench.cli import main


def of(name: str, **options):
    return plan(recipes.load(name), **options)


def test_a_million_tokens_fit_four_gb300_with_eight_drafts() -> None:
    found = of("inkling-4xgb300", context_tokens=1_048_576)
    assert (found.fits, found.settings.drafts, found.longest_context_tokens) == (True, 8, 1_048_576)
    # What the published recipe gives the cache must be free beside everything else.
    memory = found.memory
    assert memory.weights_bytes + memory.activations_bytes + memory.graphs_bytes + 109_521_666_048 <= memory.total_bytes


def test_the_published_cache_is_what_sizing_by_fraction_comes_to() -> None:
    recipe = recipes.load("inkling-4xgb300")
    free = {name: value for name, value in recipe.args.items() if name != "kv-cache-memory-bytes"}
    sized = plan(replace(recipe, args=free))
    assert sized.memory.pool_bytes == pytest.approx(recipe.published["cache_bytes_per_gpu"], rel=0.10)


def test_weights_are_592_gb_and_148_a_gpu() -> None:
    memory = of("inkling-4xgb300").memory
    assert memory.weights_bytes * 4 == pytest.approx(592e9, rel=0.10)
    assert memory.weights_bytes == pytest.approx(148e9, rel=0.10)


def test_four_h200_cannot_hold_inkling() -> None:
    found = of("inkling-4xgb300", gpu_name="H200")
    assert not found.fits
    assert "weights" in found.reasons[0]
    assert (found.longest_context_tokens, found.requests_that_fit) == (0, 0)


def test_a_million_tokens_do_not_fit_four_gb200_and_a_cap_is_offered() -> None:
    found = of("inkling-4xgb200", context_tokens=1_048_576)
    assert not found.fits
    assert f"{found.longest_context_tokens:,}" in found.reasons[0]
    assert of("inkling-4xgb200", context_tokens=found.longest_context_tokens).fits
    assert not of("inkling-4xgb200", context_tokens=found.longest_context_tokens + 32).fits


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_fits_its_own_hardware_at_its_own_limit(name: str) -> None:
    found = of(name)
    assert found.fits, found.reasons
    assert found.longest_context_tokens >= found.settings.context_tokens


def test_published_speeds_lie_below_the_bound() -> None:
    found = of("inkling-4xgb200", context_tokens=8192)
    assert found.speed is not None
    assert found.speed.tokens_s >= 140
    assert found.speed.tokens_s_drafts is not None
    assert found.speed.tokens_s_drafts >= 380


def test_longer_contexts_cost_more_of_everything() -> None:
    short, long = (of("inkling-4xgb300", context_tokens=tokens) for tokens in (65_536, 1_048_576))
    assert short.speed is not None
    assert long.speed is not None
    assert short.speed.prefill_s < long.speed.prefill_s
    assert short.speed.tokens_s > long.speed.tokens_s
    assert short.requests_that_fit > long.requests_that_fit


def test_retention_costs_what_its_resume_points_hold() -> None:
    recipe = recipes.load("inkling-4xgb300")
    costs = [
        plan(recipe.with_args({"prefix-cache-retention-interval": n})).memory.cache["retention"] for n in (1024, 2048, 4096, 8192)
    ]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] / costs[3] == pytest.approx(8, rel=0.02)  # one point more than whole intervals
    assert plan(recipe.with_args({"prefix-cache-retention-interval": 0})).memory.cache["retention"] < costs[3] / 100


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"context_tokens": 2_000_000}, "1,048,576"),
        ({"context_tokens": 0}, "1 to"),
        ({"requests": 0}, "at least one"),
        ({"gpu_name": "Z80"}, "GB300"),
        ({"gpu_count": 16}, "key/value heads"),
        ({"gpu_count": 0}, "at least one"),
    ],
)
def test_nonsense_is_refused_with_what_is_allowed(options: dict, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        of("inkling-4xgb300", **options)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("gpu-memory-utilization", "most"),
        ("gpu-memory-utilization", 92),
        ("prefix-cache-retention-interval", "often"),
        ("kv-cache-memory-bytes", "100G"),
        ("speculative-config", {"method": "mtp", "num_speculative_tokens": "all"}),
    ],
)
def test_an_option_that_cannot_be_read_is_refused_by_name(option: str, value) -> None:
    with pytest.raises(BadRequest, match=option if isinstance(value, (str, int)) else "num_speculative_tokens"):
        plan(recipes.load("inkling-4xgb300").with_args({option: value}))


def test_a_norm_that_the_draft_blocks_share_is_counted_with_the_first() -> None:
    with_norm = Shape().config()
    with_norm["mtp_config"]["chain_hidden_post_norm"] = True
    plain, normed = ModelShape.from_config(Shape().config()), ModelShape.from_config(with_norm)
    settings = replace(of("demo").settings, drafts=1)
    more = sum(weights_bytes(normed, settings).values()) - sum(weights_bytes(plain, settings).values())
    assert more == plain.hidden * settings.value_bytes
    read, before = (step_bytes(shape, settings, 128, tokens=2, drafts=1) for shape in (normed, plain))
    assert read - before == more
    assert step_bytes(normed, settings, 128, tokens=1, drafts=0) == step_bytes(plain, settings, 128, tokens=1, drafts=0)


def test_a_cpu_recipe_takes_no_gpus() -> None:
    with pytest.raises(BadRequest, match="CPU"):
        of("demo", gpu_count=4)


def test_the_command_prints_json_and_its_status_says_whether_it_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--recipe", "inkling-4xgb300", "--context", "1M", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["fits"] is True
    assert values["memory"]["global_kv_bytes_per_token"] == 44 * 1024
    assert values["assumptions"]
    assert main(["plan", "--recipe", "inkling-4xgb300", "--gpu", "H200", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["fits"] is False
    assert main(["plan", "--context", "many"]) == 2


def test_the_text_says_every_assumption_and_that_nothing_was_measured() -> None:
    found = of("inkling-4xgb200")
    text = str(found)
    assert all(item in text for item in found.assumptions)
    assert "Unverified on hardware" in text
    assert "published: 380" in text


@pytest.mark.engine
def test_the_demos_plan_is_what_the_engine_counts(eng) -> None:
    counted, found = eng.info.memory, of("demo")
    if eng.info.recipe != "demo":
        pytest.skip("another recipe's engine is attached")
    memory = found.memory
    assert counted["cache_blocks"] == memory.pool_blocks
    assert counted["cache_bytes"] == [memory.pool_blocks * memory.layout.block_bytes]
    held = memory.layout.blocks(found.context_tokens, found.settings.in_flight_tokens).total()
    assert counted["cache_requests"] == pytest.approx(memory.pool_blocks / held)
    # vLLM pads the router to a multiple of eight rows; nothing else differs.
    assert sum(counted["weights_bytes"]) == pytest.approx(memory.weights_bytes, rel=0.001)


@pytest.mark.parametrize(
    "args",
    [
        {"speculative-config": {"method": "mtp", "num_speculative_tokens": 3}},
        {"speculative-config": '{"method": "mtp", "num_speculative_tokens": 3}'},
        {"speculative-config.method": "mtp", "speculative-config.num_speculative_tokens": 3},
        {"speculative-config": {"method": "mtp", "num_speculative_tokens": 1}, "speculative-config.num-speculative-tokens": 3},
    ],
)
def test_drafts_are_read_in_every_spelling(args) -> None:
    recipe = recipes.load("inkling-4xgb300").with_drafts(0)
    assert plan(replace(recipe, args=recipe.args | args)).settings.drafts == 3


def test_a_draft_setting_that_is_no_table_is_refused() -> None:
    recipe = recipes.load("inkling-4xgb300").with_drafts(0)
    with pytest.raises(BadRequest, match="speculative-config"):
        plan(replace(recipe, args=recipe.args | {"speculative-config": "mtp"}))


def test_adapters_take_the_room_that_is_set_aside_for_them() -> None:
    """By hand: one routed layer of the demo's sizes has a pair for each side of each expert."""
    from engine.planner.adapters import Adapters, adapter_bytes

    shape = ModelShape.from_config(Shape().config(), name="demo")
    one = adapter_bytes(shape, Adapters(slots=1, rank=1), ranks=1, value_bytes=1)
    four = adapter_bytes(shape, Adapters(slots=2, rank=8), ranks=1, value_bytes=4)
    assert four == 64 * one
    routed = shape.layers - len(shape.dense_layers)
    shared = adapter_bytes(shape, Adapters(slots=1, rank=1, shared=True), ranks=1, value_bytes=1)
    assert one - shared == routed * 3 * shape.hidden * (shape.experts - 1), "three outer sides of every expert but one"
    assert adapter_bytes(shape, Adapters(), ranks=1, value_bytes=4) == 0


def test_adapters_of_the_full_model_do_not_fit_unshared_and_the_plan_says_so() -> None:
    recipe = recipes.load("inkling-4xgb300")
    lora = {"enable-lora": True, "max-loras": 4, "max-lora-rank": 16}
    whole = plan(replace(recipe, args=recipe.args | lora))
    assert whole.memory.weights["adapters"] > 40e9
    assert not whole.fits
    assert plan(replace(recipe, args=recipe.args | lora | {"enable-moe-shared-loras": True})).memory.weights["adapters"] < 10e9
