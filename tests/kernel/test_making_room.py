"""Folders that are full or were cleaned while clients go on: nothing is lost that somebody holds, and an error says what to do."""

from __future__ import annotations

import dataclasses
import gc
import time
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.errors import BlobMissing, QuotaFull
from engine.kernel.capture_run import CaptureRun
from engine.kernel.contexts import StoredContext
from engine.kernel.jobs import CaptureJobs, _Job
from engine.kernel.quotas import KEPT_S
from engine.protocol import CaptureCost, ImageRule, places
from workbench import CapturePlan, Context, samples
from workbench.cli import main


def job(jobs: CaptureJobs, name: str, size: int, *, state: str = "done", idle_s: float = 2 * KEPT_S) -> _Job:
    context = StoredContext(id=name, token_ids=np.zeros(4, np.uint32), media=(), image_rule=ImageRule())
    run = CaptureRun(id=name, context=context, plan=CapturePlan(routing=True), spans=(), folder=jobs.folder / name)
    cost = CaptureCost(disk_bytes=size, memory_bytes=0, tokens=4, compute_tokens=4, seconds=None, seams={"routing": size})
    made = _Job(run, cost, state=state, used=time.monotonic() - idle_s)
    if state != "queued":
        run.folder.mkdir()
        (run.folder / "routing.npy").write_bytes(b"x" * size)
    jobs._jobs[name] = made
    return made


def held(jobs: CaptureJobs) -> set[str]:
    return {path.parent.name for path in jobs.folder.glob("*/routing.npy")}


@pytest.fixture
def jobs(tmp_path: Path) -> CaptureJobs:
    made = CaptureJobs(tmp_path / "captures" / "this")
    theirs = tmp_path / "captures" / "another-engines" / "one"
    theirs.mkdir(parents=True)
    (theirs / "routing.npy").write_bytes(b"x" * 100_000)
    return made


def test_the_oldest_that_nobody_reads_gives_way(jobs: CaptureJobs) -> None:
    for name in "abc":
        job(jobs, name, 300_000)
    job(jobs, "read", 300_000, idle_s=1)
    jobs._make_place(250_000, 1_500_000)
    assert held(jobs) == {"b", "c", "read"}
    assert list(jobs._jobs) == ["b", "c", "read"]


def test_what_does_not_fit_anyway_costs_nobody_anything(jobs: CaptureJobs) -> None:
    job(jobs, "idle", 300_000)
    job(jobs, "read", 300_000, idle_s=1)
    job(jobs, "running", 300_000, state="running")
    job(jobs, "waiting", 300_000, state="queued")
    with pytest.raises(QuotaFull, match=r"500,000 bytes.*captures_bytes.*clean --older-than 0") as caught:
        jobs._make_place(500_000, 1_200_000)
    assert caught.value.detail["used_bytes"] > 1_300_000, "what waits is counted, and so is what other engines keep"
    assert held(jobs) == {"idle", "read", "running"}


@pytest.fixture
def pictured(eng) -> tuple[Context, list[Path]]:
    """A context with a picture that the engine holds, and where its blobs lie."""
    context = Context(effort="none")
    context.add_text(f"Look. {time.time()}")
    context.add_image(samples.paths()["image"])
    context.ask("What is at row 2, column 1?")
    eng.generate(context, max_tokens=2, temperature=0)
    blobs = [places.engine_home() / "blobs" / item.blob.removeprefix("sha256:") for item in context.render(eng).media]
    if not all(path.is_file() for path in blobs):
        pytest.skip("this engine keeps its blobs elsewhere")
    return context, blobs


@pytest.mark.engine
def test_a_blob_that_is_gone_is_sent_again(eng, pictured: tuple[Context, list[Path]]) -> None:
    """By whatever comes first: an answer, a question to the cache, a capture, its cost, scores."""
    context, blobs = pictured
    capture = CapturePlan(routing=True)
    for ask in (
        lambda: eng.generate(context, max_tokens=2, temperature=0), lambda: eng.probe(context),
        lambda: eng.capture_cost(context, capture), lambda: eng.capture(context, capture), lambda: eng.score(context, first=20),
    ):  # fmt: skip
        for path in blobs:
            path.unlink()
        assert ask() is not None
        assert all(path.is_file() for path in blobs)


@pytest.mark.engine
def test_a_blob_that_nobody_holds_is_named_by_its_part(eng, pictured: tuple[Context, list[Path]]) -> None:
    context, blobs = pictured
    without = dataclasses.replace(context.render(eng), blobs={})
    assert eng.probe(without).prompt_tokens == len(without), "the engine has them"
    for path in blobs:
        path.unlink()
    for ask in (lambda: eng.generate(without, max_tokens=1), lambda: eng.probe(without)):
        with pytest.raises(BlobMissing, match=r"image 'chart\.png'.*add the file again"):
            ask()
    assert eng.generate(context, max_tokens=1, temperature=0).token_ids.size == 1, "who holds it goes on"


@pytest.mark.engine
def test_cleaning_under_a_running_engine_costs_an_upload(
    eng, pictured: tuple[Context, list[Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    context, blobs = pictured
    before = eng.generate(context, max_tokens=4, temperature=0)
    assert main(["engine", "clean", "--older-than", "0", "--json"]) == 0
    capsys.readouterr()
    assert not any(path.is_file() for path in blobs)
    after = eng.generate(context, max_tokens=4, temperature=0)
    assert after.token_ids.tolist() == before.token_ids.tolist()
    assert after.usage.cached_tokens > 0, "what is computed is the engine's own and stays"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_captures_that_are_held_stay_and_the_next_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On an engine whose captures may have little: what a client reads by the slice is there until it lets go."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("INKLING_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("INKLING_ENGINE_URL", raising=False)
    monkeypatch.setattr("engine.captures.FETCH_BYTES", 0)  # as if it were a large one: it stays on the engine
    recipe = tmp_path / "little.toml"
    demo = (Path(engine.__file__).parent / "recipes" / "demo.toml").read_text("utf-8")
    recipe.write_text(f"{demo}\n[limits]\ncaptures_bytes = 750000\n", "utf-8")
    eng = engine.start(recipe)
    try:
        context, plan = Context(effort="none"), CapturePlan(residual=True)
        context.ask("harbour " * 10_000)
        size = eng.capture_cost(context, plan).disk_bytes
        assert 400_000 < size < 600_000, "one fits, two do not"
        first = eng.capture(context, plan)
        with pytest.raises(QuotaFull, match=f"{size:,} bytes"):
            eng.capture(context, plan)
        name = next(iter(first.residual.data_vars))
        assert np.isfinite(np.asarray(first.residual[name][:2], np.float32)).all(), "it can be read after the refusal"
        del first
        gc.collect()
        assert eng.capture(context, plan).residual.sizes["t"] > 10_000
    finally:
        eng.stop()
