"""Capture jobs on the real engine: order, progress, slices, refusals. What a seam records is tested where the seams are."""

from __future__ import annotations

import asyncio
import io
import time

import httpx
import numpy as np
import pytest

from engine.errors import CaptureRefused
from engine.protocol import CaptureJob, CapturePlan
from workbench import Context

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
    assert sum(int(np.prod(entry.shape)) * np.dtype(entry.dtype).itemsize for entry in manifest.arrays.values()) == job.cost_bytes
    for array, entry in manifest.arrays.items():
        answer = http.get(f"/workbench/captures/{name}/arrays/{array}", params={"start": 2, "stop": 5})
        rows = np.load(io.BytesIO(answer.content), allow_pickle=False)
        assert (rows.shape, rows.dtype) == ((3, *entry.shape[1:]), np.dtype(entry.dtype))
    assert http.delete(f"/workbench/captures/{name}").json()["state"] == "cancelled"
    assert http.get(f"/workbench/captures/{name}/arrays/routing.expert").status_code == 400


def test_captures_queue_and_a_waiting_one_can_be_cancelled(eng, http: httpx.Client, context: Context) -> None:
    names = [start(http, context, eng) for _ in range(3)]
    assert http.delete(f"/workbench/captures/{names[1]}").json()["state"] == "cancelled"
    assert [wait(http, name).state for name in names] == ["done", "cancelled", "done"]


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
    with pytest.raises(CaptureRefused, match="residual"):
        eng.capture(context, CapturePlan(residual=True))
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
