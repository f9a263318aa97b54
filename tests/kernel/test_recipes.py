"""Recipes: their form here, their options by the installed vLLM's own parser."""

import pytest

import engine.cpu
from engine import recipes
from engine.errors import BadRequest, EngineStartError
from engine.kernel.launcher import ALWAYS, parse_args, refuse_unsupported
from engine.protocol.presence import KernelSettings


def settings(recipe: recipes.Recipe) -> KernelSettings:
    return KernelSettings(
        model=recipe.model, args=recipe.argv(), recipe=recipe.name, token="t" * 16, nonce="n", home="", run="", runtime=""
    )


@pytest.mark.parametrize("name", recipes.names())
def test_vllm_accepts_every_recipe(name: str) -> None:
    recipe = recipes.load(name)
    args = parse_args(settings(recipe), "some-folder")
    assert args.block_size == 16, "every recipe states the block size that short convolutions are verified with"
    assert args.worker_extension_cls == ALWAYS[1]
    assert args.model == "some-folder"
    assert args.enable_prompt_tokens_details


@pytest.mark.parametrize("changes", [{"no-such-option": 1}, {"block_size": "many"}, {"dtype": "complex64"}])
def test_an_option_that_vllm_does_not_take_is_named(changes) -> None:
    recipe = recipes.load("demo").with_args(changes)
    with pytest.raises(EngineStartError, match="vLLM refuses") as caught:
        parse_args(settings(recipe), "some-folder")
    assert str(next(iter(changes))).replace("_", "-") in caught.value.message.replace("_", "-")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"speculative-config": {"method": "ngram", "num_speculative_tokens": 2}}, "mtp"),
        ({"speculative-config": {"method": "mtp", "num_speculative_tokens": 2, "enable_adaptive_verification": True}}, "adaptive"),
        ({"speculative-config.method": "eagle"}, "mtp"),
        ({"decode-context-parallel-size": 2}, "context parallelism"),
        ({"enable-prompt-embeds": True}, "kernels"),
        ({"kv-transfer-config": {"kv_connector": "ExampleConnector", "kv_role": "kv_producer"}}, "moving a cache"),
        ({"kv-offloading-size": 1.0}, "moving a cache"),
    ],
)
def test_an_option_without_kernels_here_is_refused_by_name(changes, says: str) -> None:
    if not engine.cpu.active():
        pytest.skip("a GPU has the kernels")
    with pytest.raises(EngineStartError, match=says) as caught:
        refuse_unsupported(parse_args(settings(recipes.load("demo").with_args(changes)), "some-folder"))
    assert next(iter(changes)).partition(".")[0] in caught.value.message


def test_drafts_by_the_models_own_blocks_are_taken() -> None:
    recipe = recipes.load("demo").with_args({"speculative-config": {"method": "mtp", "num_speculative_tokens": 2}})
    args = parse_args(settings(recipe), "some-folder")
    refuse_unsupported(args)
    assert args.speculative_config["num_speculative_tokens"] == 2


def test_the_older_runner_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")
    with pytest.raises(EngineStartError, match="older runner"):
        refuse_unsupported(parse_args(settings(recipes.load("demo")), "some-folder"))


@pytest.mark.parametrize("name", ["nothing", "../demo", "", "nowhere.toml"])
def test_an_unknown_recipe_lists_the_known_ones(name: str) -> None:
    with pytest.raises(BadRequest, match="demo"):
        recipes.load(name)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("title = 1 2", "not a recipe"),
        ("title = 't'", "model"),
        ("title='t'\nmodel='m'\nspeed='high'", "speed"),
        ("title='t'\nmodel='m'\n[args]\nport=1", "port"),
        ("title='t'\nmodel='m'\n[env]\nA=1", "string"),
    ],
)
def test_a_file_that_is_no_recipe_says_why(tmp_path, text: str, says: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(BadRequest, match=says):
        recipes.load(path)


def test_options_become_vllms_words() -> None:
    recipe = recipes.Recipe(name="x", title="", model="m", args={"a": True, "b": False, "c": {"k": [1]}, "d": 2.5, "e": "s"})
    assert recipe.argv() == ["--a", "--no-b", "--c", '{"k": [1]}', "--d", "2.5", "--e", "s"]


def test_drafts_are_an_option_of_any_recipe() -> None:
    demo = recipes.load("demo")
    assert demo.with_drafts(None) == demo
    two = demo.with_drafts(2)
    assert '{"method": "mtp", "num_speculative_tokens": 2}' in two.argv()
    assert two.with_drafts(0).argv() == demo.with_drafts(0).argv()
    assert "--speculative-config" not in two.with_drafts(0).argv()
    with pytest.raises(BadRequest, match="drafts=-1"):
        demo.with_drafts(-1)
