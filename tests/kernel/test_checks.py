"""What is refused before weights are loaded."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from engine import recipes, starting
from engine.errors import BadRequest, EngineStartError
from engine.inkling import published
from engine.kernel import checks
from engine.kernel.launcher import environment
from tests.kernel.test_recipes import settings

INKLING = published("thinkingmachines/Inkling-NVFP4")


@pytest.mark.parametrize("block", [None, 8, 32, 64, 128])
def test_other_block_sizes_are_refused_with_what_they_would_do(block: int | None) -> None:
    with pytest.raises(EngineStartError, match=r"set it to 16.*wrong answers"):
        checks.check_sizes(INKLING, block_tokens=block, ranks=4)


def test_the_verified_block_size_passes() -> None:
    for ranks in (1, 2, 4, 8):
        checks.check_sizes(INKLING, block_tokens=16, ranks=ranks, dtype="bfloat16")
    checks.check_sizes(None, block_tokens=16, ranks=64)  # nothing is known about that checkpoint: vLLM will say


def test_sixteen_ranks_are_refused_with_the_key_value_heads() -> None:
    with pytest.raises(EngineStartError, match="8 \\(global\\)"):
        checks.check_sizes(INKLING, block_tokens=16, ranks=16)


def test_types_that_enlarge_the_convolutions_page_are_refused_for_vllms_kernels_only() -> None:
    small = {"block_tokens": 16, "ranks": 4, "dtype": "float32", "cache_dtype": "auto"}
    demo = recipes_shape()
    with pytest.raises(EngineStartError, match="page would hold"):
        checks.check_sizes(demo, **small)
    checks.check_sizes(demo, **small, fixed_conv_pages=False)


def recipes_shape():
    from engine.demo import shape_named
    from engine.inkling import ModelShape

    return ModelShape.from_config(shape_named("demo-tp4").config())


HARDWARE = {"gpu": "GB200", "count": 4, "capability": (100,)}


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ([], "no GPUs are visible"),
        ([(10, 0)] * 3, "3 GPUs are visible"),
        ([(12, 0)] * 4, r"capability 12\.0; .* capability 10\.0"),
        ([(10, 0)] * 3 + [(8, 0)], "GPU 3"),
    ],
)
def test_missing_and_unsuitable_gpus_are_refused(found, says: str) -> None:
    with pytest.raises(EngineStartError, match=says):
        checks.check_gpus(HARDWARE, found)


def test_the_right_gpus_and_cpu_recipes_pass() -> None:
    checks.check_gpus(HARDWARE, [(10, 0)] * 4)
    checks.check_gpus(None, [])


def test_a_quiet_fall_to_the_v1_runner_is_an_error() -> None:
    checks.check_runner(SimpleNamespace(use_v2_model_runner=True))
    with pytest.raises(EngineStartError, match="V1 model runner"):
        checks.check_runner(SimpleNamespace(use_v2_model_runner=False))
    assert environment(settings(recipes.load("demo")))[checks.RUNNER_ENV] == "1"


def test_no_recipe_may_turn_the_v2_runner_off(tmp_path) -> None:
    path = tmp_path / "old.toml"
    path.write_text("title='t'\nmodel='m'\n[env]\nVLLM_USE_V2_MODEL_RUNNER='0'", "utf-8")
    with pytest.raises(BadRequest, match="V2 model runner"):
        recipes.load(path)


def test_a_gpu_recipe_on_a_machine_without_a_driver_is_refused_at_once() -> None:
    if checks.visible_capabilities():
        pytest.skip("there are GPUs here")
    with pytest.raises(EngineStartError, match="4 × GB300; this machine has no NVIDIA driver"):
        starting.check_can_start(recipes.load("inkling-4xgb300"))


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_says_where_it_comes_from_and_what_is_verified(name: str) -> None:
    recipe = recipes.load(name)
    assert recipe.source
    assert recipe.verified
    if recipe.hardware is not None:
        assert "unverified on hardware" in recipe.verified
        assert recipe.hardware.count == recipe.args["tensor-parallel-size"]
