"""Capture jobs on the real engine: order, progress, slices, refusals. What a seam records is tested where the seams are."""

from __future__ import annotations

import asyncio
import io
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

import engine
from engine.errors import CaptureRefused, EngineDied
from engine.protocol import AttentionPlan, CaptureJob, CapturePlan, ResidualPlan, RoutingPlan, SconvPlan
from engine.recipes import FOLDER
from workbench import Capture, Context

pytestmark = pytest.mark.engine

ROUTING = {"routing": True}


@pytest.fixture(scope="module")
def http(eng):
    headers = {"authorization": f"Bearer {eng._connection.token}"}
    with httpx.Client(base_url=eng.url, headers=headers, timeout=60) as http:
        yield http


@pytest.fixture
def context(eng) -> Context:
    context = Context()
    context.ask("Which experts do you take for these words?")
    eng.generate(context, max_tokens=1, temperature=0)  # the context is on the engine, and in its prefix cache
    return context


def wait(http: httpx.Client, name: str) -> CaptureJob:
    deadline = time.monotonic() + 120
    while True:
        job = CaptureJob.model_validate(http.get(f"/workbench/captures/{name}").raise_for_status().json())
        if job.state not in ("queued", "running"):
            return job
        assert time.monotonic() < deadline
        time.sleep(0.1)


def start(http: httpx.Client, context: Context, eng) -> str:
    answer = http.post("/workbench/captures", json={"context": context.render(eng).id, "plan": ROUTING})
    assert answer.status_code == 202
    return answer.json()["id"]


def test_a_capture_covers_every_token_although_the_prefix_was_cached(eng, http: httpx.Client, context: Context) -> None:
    name, tokens = start(http, context, eng), len(context.render(eng))
    job = wait(http, name)
    assert (job.state, job.done_tokens, job.error) == ("done", tokens, None)
    manifest = job.manifest
    assert manifest is not None
    assert (manifest.complete, manifest.covered_tokens, manifest.tokens) == (True, tokens, tokens)
    assert manifest.context == context.render(eng).id
    assert manifest.provenance["architecture"]["experts"] == eng.info.architecture.experts
    written = sum(int(np.prod(entry.shape)) * np.dtype(entry.dtype).itemsize for entry in manifest.arrays.values())
    assert written == job.cost.disk_bytes
    for array, entry in manifest.arrays.items():
        answer = http.get(f"/workbench/captures/{name}/arrays/{array}", params={"start": 2, "stop": 5})
        rows = np.load(io.BytesIO(answer.content), allow_pickle=False)
        assert (rows.shape, rows.dtype) == ((3, *entry.shape[1:]), np.dtype(entry.dtype))
        answer = http.get(f"/workbench/captures/{name}/arrays/{array}", params={"start": 2, "stop": 5, "index": "1:3,0:1"})
        assert np.array_equal(np.load(io.BytesIO(answer.content), allow_pickle=False), rows[:, 1:3, 0:1])
    assert http.delete(f"/workbench/captures/{name}").json()["state"] == "cancelled"
    assert http.get(f"/workbench/captures/{name}/arrays/routing.expert").status_code == 400


def test_captures_queue_and_a_waiting_one_can_be_cancelled(eng, http: httpx.Client, context: Context) -> None:
    names = [start(http, context, eng) for _ in range(3)]
    assert http.delete(f"/workbench/captures/{names[1]}").json()["state"] == "cancelled"
    assert [wait(http, name).state for name in names] == ["done", "cancelled", "done"]


def test_a_capture_cancelled_while_it_is_being_armed_leaves_the_seams_free(eng, http: httpx.Client, context: Context) -> None:
    names = []
    for _ in range(6):
        names.append(start(http, context, eng))
        http.delete(f"/workbench/captures/{names[-1]}")
    assert {wait(http, name).state for name in names} == {"cancelled"}
    assert wait(http, start(http, context, eng)).state == "done"


def test_the_client_builds_a_capture_of_a_context_and_of_a_reply(eng, context: Context) -> None:
    shown = context.render(eng)
    capture = eng.capture(context, CapturePlan(routing=True))
    assert capture.routing.sizes["t"] == len(shown)
    reply = eng.generate(context, max_tokens=5, temperature=0)
    longer = eng.capture(reply, CapturePlan(routing=True))
    assert longer.routing.sizes["t"] == len(shown) + len(reply.token_ids)
    # The prompt's tokens are routed alike whatever follows them.
    assert np.array_equal(longer.routing.expert.values[: len(shown)], capture.routing.expert.values)


def test_a_plan_that_cannot_be_fulfilled_is_refused_before_anything_runs(eng, http: httpx.Client, context: Context) -> None:
    with pytest.raises(CaptureRefused, match=r"this engine drafts nothing: start one that does"):
        eng.capture(context, CapturePlan(drafts=True))
    for plan, words in (
        (CapturePlan(routing=RoutingPlan(layers=(0,))), "layer 0 has no routing: layers 1"),
        (CapturePlan(attention=AttentionPlan(heads=(99,))), "there is no head 99"),
        (CapturePlan(sconv=SconvPlan(tokens=(10**6,))), "there are tokens 0 to"),
        (CapturePlan(attention=AttentionPlan(queries="reply")), "need a reply"),
    ):
        with pytest.raises(CaptureRefused, match=words):
            eng.capture(context, plan)
    for plan in ({}, {"routing": False}, {"colour": True}, {"attention": {"queries": "all of them", "rows": 1}}):
        answer = http.post("/workbench/captures", json={"context": context.render(eng).id, "plan": plan})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad-request")


@pytest.mark.parametrize(
    ("array", "rows"), [("routing.expert", {"start": 9, "stop": 3}), ("../manifest", {}), ("nothing", {}), ("x", {"start": -1})]
)
def test_slices_that_are_not_there(eng, http: httpx.Client, context: Context, array: str, rows) -> None:
    name = start(http, context, eng)
    wait(http, name)
    assert http.get(f"/workbench/captures/{name}/arrays/{array}", params=rows).status_code in (400, 404)
    http.delete(f"/workbench/captures/{name}")


def test_cancelling_a_capture_in_the_client_ends_it_in_the_engine(eng, http: httpx.Client) -> None:
    context = Context()
    context.add_text("A long text. " * 20_000)
    context.ask("x")

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(eng.acapture(context, CapturePlan(routing=True)), timeout=3)

    asyncio.run(leave())
    deadline = time.monotonic() + 30
    while eng.status()["requests"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    # The next one finds the seams free.
    small = Context()
    small.ask("Still there?")
    assert eng.capture(small, CapturePlan(routing=True)).routing.sizes["t"] == len(small.render(eng))


def test_the_cost_is_told_before_and_is_what_was_written(eng, http: httpx.Client, context: Context) -> None:
    plan = CapturePlan(
        routing=RoutingPlan(logits=True), sconv=True, residual=ResidualPlan(tokens="last", lens=3),
        attention=AttentionPlan(queries="last", layers="all", profiles=True),
    )  # fmt: skip
    cost = eng.capture_cost(context, plan)
    run = eng.start_capture(context, plan)
    assert run.cost.disk_bytes == cost.disk_bytes
    job = wait(http, run.job.id)
    assert job.manifest is not None
    sizes = [Path(job.folder, f"{name}.npy").stat().st_size for name in job.manifest.arrays]
    # Every file has a header of at most 128 bytes before its values.
    assert cost.disk_bytes <= sum(sizes) <= cost.disk_bytes + 128 * len(sizes)
    assert (cost.tokens, cost.compute_tokens) == (job.total_tokens, job.total_tokens)
    assert eng.capture_cost(context, CapturePlan(attention=True)).compute_tokens == 1
    shape, rows = eng.info.architecture, (cost.tokens, cost.tokens)
    layers = (shape.layers, shape.layers)
    assert job.manifest.coverage == {"routing": rows, "sconv": rows, "attention": layers, "residual": (1, 1)}
    capture = run.result()
    assert capture.complete
    assert set(capture.seams) == {"routing", "sconv", "attention", "residual"}
    # One line each, over what an engine wrote.
    assert capture.lens().data.sizes == {"l": shape.layers, "k": 3}
    np.testing.assert_allclose(capture.attention_by("part")["weight"].sum("group"), 1, atol=1e-5)
    np.testing.assert_allclose(capture.sconv_taps()["share"].sum("tap"), 1, atol=1e-4)
    assert capture.bias_share().data.sizes == {"l": shape.layers, "h": shape.heads}
    assert "profile" in capture.distance_profiles(len(capture) - 1).data


def test_a_plan_that_is_too_large_is_refused_with_a_smaller_one(eng) -> None:
    context = Context()
    context.add_text("A long text. " * 3_000)
    context.ask("x")
    plan = CapturePlan(attention=AttentionPlan(queries="all", layers="all", keep="whole"))
    with pytest.raises(CaptureRefused, match=r"bytes.*AttentionPlan\(keep=.topk.\) needs"):
        eng.capture(context, plan)


def test_a_cancelled_capture_keeps_what_was_written_and_says_that_it_is_partial(eng, http: httpx.Client) -> None:
    context = Context()
    context.add_text("A long text. " * 20_000)
    context.ask("y")
    run = eng.start_capture(context, CapturePlan(routing=True, sconv=True))
    deadline = time.monotonic() + 120
    while run.refresh().done_tokens < 4_000:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    # Its folder opens alone, as it would had the engine died just now.
    left = Capture.load(run.job.folder)
    assert not left.complete
    capture = run.cancel()
    assert capture is not None
    assert not capture.complete
    assert 0 < capture.manifest.covered_tokens < len(capture)
    assert left.manifest.covered_tokens <= capture.manifest.covered_tokens
    once, asked = capture.manifest.coverage["routing"]
    written = capture.routing["weight"].sum(("k", "l")).values > 0
    assert (int(written.sum()), len(written)) == (once, asked)
    assert written[:once].all()
    assert "PARTIAL" in repr(capture)


@pytest.mark.slow
def test_an_engine_that_dies_during_a_capture_leaves_a_readable_part(tmp_path_factory: pytest.TempPathFactory) -> None:
    import psutil

    recipe = tmp_path_factory.mktemp("recipes") / "demo-dies.toml"
    recipe.write_text((FOLDER / "demo.toml").read_text("utf-8"), "utf-8")
    running = engine.start(recipe)
    context = Context()
    context.add_text("A long text. " * 20_000)
    context.ask("z")
    last = len(context.render(running)) - 1
    plan = CapturePlan(routing=True, sconv=True, attention=AttentionPlan(queries=(300, last)))
    run = running.start_capture(context, plan)
    deadline = time.monotonic() + 200
    while run.refresh().done_tokens < 4_000:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    (found,) = [item for item in engine.list() if item.url == running.url]
    (core,) = [child for child in psutil.Process(found.presence.pid).children() if "EngineCore" in " ".join(child.cmdline())]
    core.kill()
    with pytest.raises(EngineDied, match=r"Capture\.load") as caught:
        run.result()
    left = Capture.load(caught.value.detail["folder"])
    assert not left.complete
    assert 0 < left.manifest.covered_tokens < len(left)
    once, asked = left.manifest.coverage["routing"]
    assert 4_000 <= once < asked == len(left)
    # What was written is whole, and what was not is told apart from it.
    weight = left.routing["weight"].values + 0
    assert (weight[:once].sum(-1) > 0).all()
    assert left.manifest.coverage["attention"] == (1, 2)
    np.testing.assert_allclose(left.attention["weight"].sel(q=300).sum("span"), 1, atol=1e-5)
    assert "PARTIAL" in repr(left)
    assert "Partial" in " ".join(left.routing_by("modality").notes)


def test_attention_of_a_reply_looks_back_over_its_cached_prompt(eng, context: Context) -> None:
    reply = eng.generate(context, max_tokens=4, temperature=0)
    capture = eng.capture(reply, CapturePlan(attention=AttentionPlan(queries="reply", layers="all", keep="whole")))
    prompt = len(context.render(eng))
    assert capture.attention["q"].values.tolist() == list(range(prompt, prompt + len(reply.token_ids)))
    np.testing.assert_allclose(capture.attention["weight"].sum("t"), 1, atol=1e-5)
    again = eng.capture(reply, CapturePlan(routing=True, attention=AttentionPlan(queries="reply", layers="all", keep="whole")))
    # Prefix hit and miss: the same rows, but for float32 sums in another order.
    np.testing.assert_allclose(again.attention["weight"], capture.attention["weight"], atol=1e-5)
