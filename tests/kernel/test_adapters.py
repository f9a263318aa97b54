"""Adapters over HTTP on an engine of their own: load, list, choose, unload; and every bad one leaves the engine answering."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openai
import pytest

import engine
from engine.demo.shape import Shape
from engine.errors import AdapterRefused, AdapterUnknown, BadRequest, EngineStartError, FeatureUnsupported
from engine.protocol import CapturePlan, Rendered, Reply, ResidualPlan, Span, Timings, Usage
from tests.cpu.adapter_files import random_adapter, write_adapter
from workbench import compare
from workbench.cli import main

SHAPE = Shape()
"""The demo checkpoint's."""


def rendered(ids) -> Rendered:
    ids = np.asarray(ids, dtype=np.uint32)
    return Rendered(token_ids=ids, spans=(Span(start=0, stop=len(ids), part=None, label="ids", modality="text", message=0),))


PROMPT = rendered(np.random.default_rng(3).integers(0, 199_998, 200))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two good adapters and a bad one."""
    folder = tmp_path_factory.mktemp("adapters")
    write_adapter(folder / "first", random_adapter(SHAPE, seed=1, rank=4))
    write_adapter(folder / "second", random_adapter(SHAPE, seed=2, rank=8, parts=["qkvr", "experts"]))
    write_adapter(folder / "bad", random_adapter(SHAPE, seed=3, rank=32, parts=["output"]))
    return folder


@pytest.fixture(scope="module")
def own(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[engine.Engine]:
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        patch.setenv("JUPYTER_RUNTIME_DIR", str(home / "runtime"))
        patch.setenv("INKLING_CACHE", str(home / "cache"))
        patch.delenv("INKLING_ENGINE_URL", raising=False)
        running = engine.start("demo", adapters=folder, args={"max_loras": 2, "max_cpu_loras": 3})
        try:
            yield running
        finally:
            running.stop()


@pytest.fixture(autouse=True)
def none_left_loaded(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "own" in request.fixturenames:
        own = request.getfixturevalue("own")
        for item in own.adapters.list():
            own.adapters.unload(item.name)


def greedy(eng: engine.Engine, adapter: str | None = None, prompt: Rendered = PROMPT, tokens: int = 10) -> list[int]:
    return eng.generate(prompt, max_tokens=tokens, temperature=0, adapter=adapter).token_ids.tolist()


def apart(one: Reply, other: Reply) -> bool:
    """Whether two models answered: the first token is another one, or its log-probability is, far beyond rounding."""
    (first, *_), (second, *_) = one.logprobs or (), other.logprobs or ()
    return first.token_id != second.token_id or abs(first.logprob - second.logprob) > 1e-3


slow = pytest.mark.slow


@slow
def test_load_choose_and_unload(own: engine.Engine, folder: Path) -> None:
    support = own.info.adapters
    assert (support.enabled, support.max_rank, support.max_per_step, support.max_loaded) == (True, 16, 2, 3)
    assert support.folders == (str(folder),)
    assert own.adapters.list() == []
    assert own.adapters.available() == ["bad", "first", "second"]
    base = greedy(own)
    info = own.adapters.load("first")
    assert (info.name, info.rank, info.folder) == ("first", 4, str(folder / "first"))
    assert own.status()["adapters"] == ["first"]
    assert engine.attach(own.url, own._connection.token).info.adapters.loaded == ("first",)
    reply = own.generate(PROMPT, max_tokens=10, temperature=0, logprobs=0, adapter="first")
    assert reply.adapter == "first"
    assert reply.provenance["adapter"]["id"] == info.id
    # A trained model says the same of noise under many a small change; how likely it finds it tells them apart.
    assert apart(reply, own.generate(PROMPT, max_tokens=10, temperature=0, logprobs=0))
    assert own.generate(PROMPT, max_tokens=1, temperature=0).adapter is None
    assert greedy(own) == base, "the model alone answers as before"
    assert own.adapters.unload("first").name == "first"
    with pytest.raises(AdapterUnknown, match="'first'"):
        greedy(own, "first")
    assert greedy(own) == base


@slow
def test_several_adapters_and_the_model_alone_run_together(own: engine.Engine, folder: Path) -> None:
    own.adapters.load("first")
    own.adapters.load(folder / "second", name="other")
    own.adapters.load("second", name="third")
    names = [None, "first", "other", "third", None, "first", "other", "third"]
    contexts = [rendered(np.random.default_rng(number).integers(0, 199_998, 90)) for number in range(len(names))]
    alone = [greedy(own, name, context) for name, context in zip(names, contexts, strict=True)]

    async def together():
        asked = (own.agenerate(c, max_tokens=10, temperature=0, adapter=n) for n, c in zip(names, contexts, strict=True))
        return await asyncio.gather(*asked)

    replies = asyncio.run(together())
    assert [reply.token_ids.tolist() for reply in replies] == alone
    assert [reply.adapter for reply in replies] == names


@slow
def test_a_reply_is_looked_at_by_the_adapter_that_gave_it(own: engine.Engine, folder: Path) -> None:
    own.adapters.load("first")
    replies = {name: own.generate(PROMPT, max_tokens=10, temperature=0, logprobs=0, adapter=name) for name in (None, "first")}
    reply = replies["first"]
    said = np.array([item.logprob for item in reply.logprobs])
    # One prefill instead of single steps: float32 sums over batches of another size.
    np.testing.assert_allclose(own.score(reply), said, atol=1e-4)
    assert np.abs(own.score(reply, adapter=None) - said).max() > 0.01
    plan = CapturePlan(routing=True, residual=ResidualPlan(keep="vectors", lens=1))
    capture = own.capture(reply, plan)
    assert capture.provenance["adapter"]["id"] == reply.provenance["adapter"]["id"]
    # The lens after the last layer is the adapter's own prediction of every token of its greedy answer.
    first = len(PROMPT) - 1
    lens = capture.residual["lens_token"].values[first : first + len(reply.token_ids), -1, 0]
    np.testing.assert_array_equal(lens, reply.token_ids)
    alone = own.capture(own.context_of(reply), plan)
    assert "adapter" not in alone.provenance
    assert np.abs(alone.residual["vector"].values - capture.residual["vector"].values).max() > 0.01
    assert own.capture(PROMPT, plan, adapter="first").provenance["adapter"]["name"] == "first"
    compared = compare(replies[None], reply, engine=own, plan=CapturePlan(routing=True))
    np.testing.assert_allclose(compared.scores["base"], own.score(replies[None]), atol=1e-4)
    np.testing.assert_allclose(compared.scores["changed"], own.score(replies[None], adapter="first"), atol=1e-4)
    # Another adapter of the same name is not the one that answered.
    own.adapters.unload("first")
    with pytest.raises(AdapterUnknown, match="'first'"):
        own.capture(reply, plan)
    own.adapters.load("second", name="first")
    for look in (lambda: own.capture(reply, plan), lambda: own.score(reply)):
        with pytest.raises(AdapterUnknown, match="has that name now"):
            look()


@slow
def test_an_adapter_has_a_prefix_cache_of_its_own(own: engine.Engine, folder: Path) -> None:
    own.adapters.load("first")
    prompt = rendered(np.random.default_rng(11).integers(0, 199_998, 400))
    runs = {name: own.generate(prompt, max_tokens=4, temperature=0, adapter=name) for name in (None, "first")}
    assert [run.usage.cached_tokens for run in runs.values()] == [0, 0], "what the model cached is not the adapter's"
    for name, run in runs.items():
        again = own.generate(prompt, max_tokens=4, temperature=0, adapter=name)
        assert again.usage.cached_tokens > 300
        assert again.token_ids.tolist() == run.token_ids.tolist()
    # Another adapter under the same name and from the same folder does not find what the first one left.
    own.adapters.unload("first")
    other = folder / "changing"
    write_adapter(other, random_adapter(SHAPE, seed=21, rank=4, parts=["qkvr"]))
    try:
        own.adapters.load("changing", name="first")
        one = own.generate(prompt, max_tokens=4, temperature=0, logprobs=0, adapter="first")
        own.adapters.unload("first")
        shutil.rmtree(other)
        write_adapter(other, random_adapter(SHAPE, seed=22, rank=4, parts=["qkvr"]))
        own.adapters.load("changing", name="first")
        two = own.generate(prompt, max_tokens=4, temperature=0, logprobs=0, adapter="first")
        assert (one.usage.cached_tokens, two.usage.cached_tokens) == (0, 0)
        assert apart(one, two)
        assert one.provenance["adapter"]["id"] != two.provenance["adapter"]["id"]
    finally:
        shutil.rmtree(other)


@slow
def test_loaded_adapters_are_models_of_v1(own: engine.Engine) -> None:
    own.adapters.load("first")
    with openai.OpenAI(base_url=f"{own.url}/v1", api_key=own._connection.token, max_retries=0) as client:
        assert [model.id for model in client.models.list().data] == [own.info.model, "first"]
        answer = client.completions.create(
            model="first", prompt=PROMPT.token_ids.tolist(), max_tokens=10, temperature=0, extra_body={"return_token_ids": True}
        )
        assert answer.model == "first"
        assert answer.choices[0].token_ids == greedy(own, "first")  # type: ignore[attr-defined]
        # Ranks of a prompt's tokens ask for the head of every token at once.
        body = {"prompt_logprobs": 1}
        client.completions.create(model="first", prompt=PROMPT.token_ids.tolist(), max_tokens=1, extra_body=body)
        own.adapters.unload("first")
        assert [model.id for model in client.models.list().data] == [own.info.model]
        with pytest.raises(openai.NotFoundError, match="first"):
            client.completions.create(model="first", prompt="x", max_tokens=1)
        for path in ("load_lora_adapter", "unload_lora_adapter"):
            with pytest.raises(openai.NotFoundError):
                client.post(f"/{path}", body={"lora_name": "x", "lora_path": "/etc"}, cast_to=object)


@slow
def test_what_cannot_be_loaded_leaves_the_engine_as_it_was(own: engine.Engine, folder: Path, tmp_path: Path) -> None:
    base = greedy(own)
    outside = write_adapter(tmp_path / "outside", random_adapter(SHAPE, seed=1, rank=4, parts=["output"]))
    (folder / "link").symlink_to(outside)
    halfway = folder / "halfway"
    write_adapter(halfway, random_adapter(SHAPE, seed=1, rank=4, parts=["output"]))
    weights = halfway / "adapter_model.safetensors"
    weights.unlink()
    weights.symlink_to(outside / "adapter_model.safetensors")
    try:
        for which in (outside, "../outside", "link", "nothing", "..", ".", "", "/etc", str(folder)):
            with pytest.raises((AdapterUnknown, BadRequest)):
                own.adapters.load(which)
        with pytest.raises(AdapterRefused, match="link out of"):
            own.adapters.load("halfway")
        with pytest.raises(AdapterRefused, match=r"rank is 32 .* takes 16"):
            own.adapters.load("bad")
        with pytest.raises(BadRequest):
            own.adapters.load("first", name="a/b")
        with pytest.raises(AdapterRefused, match="model's own name"):
            own.adapters.load("first", name=own.info.model)
        own.adapters.load("first")
        with pytest.raises(AdapterRefused, match="is loaded"):
            own.adapters.load("first")
        own.adapters.load("first", name="b")
        own.adapters.load("first", name="c")
        with pytest.raises(AdapterRefused, match="unload one of first, b, c"):
            own.adapters.load("second")
        with pytest.raises(AdapterUnknown):
            own.adapters.unload("nobody")
        with pytest.raises(AdapterUnknown):
            greedy(own, "nobody")
        assert greedy(own) == base
        assert greedy(own, "first") == greedy(own, "c")
    finally:
        (folder / "link").unlink()
        shutil.rmtree(halfway)


@slow
def test_an_unloaded_adapter_finishes_what_it_runs_and_its_name_is_free(own: engine.Engine) -> None:
    """The old and the new adapter of one name run in the same steps, which vLLM takes for one adapter."""
    own.adapters.load("first", name="name")
    wanted = {"first": greedy(own, "name", tokens=120)}
    own.adapters.unload("name")
    own.adapters.load("second", name="name")
    wanted["second"] = greedy(own, "name", tokens=20)
    own.adapters.unload("name")
    own.adapters.load("first", name="name")

    async def overlap():
        running = asyncio.create_task(own.agenerate(PROMPT, max_tokens=120, temperature=0, adapter="name"))
        while not any(request["generated_tokens"] for request in await asyncio.to_thread(lambda: own.status()["requests"])):
            await asyncio.sleep(0.02)
        await asyncio.to_thread(own.adapters.unload, "name")
        await asyncio.to_thread(own.adapters.load, "second", "name")
        return await own.agenerate(PROMPT, max_tokens=20, temperature=0, adapter="name"), await running

    second, first = asyncio.run(overlap())
    assert (first.token_ids.tolist(), second.token_ids.tolist()) == (wanted["first"], wanted["second"])


@slow
def test_the_command_line(own: engine.Engine, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> tuple[int, dict]:
        token = own._connection.token or ""
        code = main(["engine", "adapters", *words, "--json", "--url", own.url, "--token", token])
        return code, json.loads(capsys.readouterr().out)

    assert run("load", "second", "--name", "s")[1]["rank"] == 8
    code, shown = run("list")
    assert (code, [item["name"] for item in shown["loaded"]], shown["limits"]["max_rank"]) == (0, ["s"], 16)
    assert run("unload", "s")[0] == 0
    code, shown = run("unload", "s")
    assert (code, shown["error"]["code"]) == (2, "adapter-unknown")
    code, shown = run("load", "bad")
    assert (code, shown["error"]["code"]) == (2, "adapter-refused")


@slow
def test_a_running_engine_without_the_folder_says_so(own: engine.Engine, tmp_path: Path) -> None:
    with pytest.raises(EngineStartError, match="stop it, then start it"):
        engine.start("demo", adapters=tmp_path, say=lambda _: None)


def test_a_folder_that_is_none_starts_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="is not a folder"):
        engine.start("demo", adapters=tmp_path / "nothing")


@pytest.mark.engine
def test_an_engine_without_adapters_says_how_to_have_them(eng: engine.Engine) -> None:
    assert not eng.info.adapters.enabled
    looking = CapturePlan(routing=True)
    for attempt in (
        lambda: eng.adapters.load("x"), lambda: eng.generate(PROMPT, adapter="x"), lambda: eng.score(PROMPT, first=9, adapter="x"),
        lambda: eng.capture(PROMPT, looking, adapter="x"),
    ):  # fmt: skip
        with pytest.raises(FeatureUnsupported, match="--adapters FOLDER"):
            attempt()


def test_a_replys_own_adapter_is_asked_for_unless_another_is_named() -> None:
    from engine.looking import adapter_of
    from engine.protocol.wire import AdapterChoice

    reply = Reply(
        text="", reasoning="", tool_calls=(), token_ids=np.array([1], np.uint32), finish_reason="stop", context="sha256:0",
        usage=Usage(prompt_tokens=1, cached_tokens=0, completion_tokens=1), timings=Timings(first_token_s=0, total_s=0),
        request_id="r", adapter="sailor", provenance={"adapter": {"id": "sha256:1"}},
    )  # fmt: skip
    assert adapter_of(reply, ...) == AdapterChoice(name="sailor", id="sha256:1")
    assert adapter_of(reply, None) is adapter_of(PROMPT, ...) is None
    assert adapter_of(reply, "notary") == AdapterChoice(name="notary")
