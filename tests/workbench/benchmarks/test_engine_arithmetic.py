"""What the engine's bench makes of given times: ratios, parts of a step, growth that goes on where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workbench.benchmarks import engine, engine_answering, engine_growth, engine_reading
from workbench.benchmarks.bench import Bench
from workbench.benchmarks.engine_kept import KERNEL, Kept
from workbench.benchmarks.engine_sides import NATIVE, THEIRS, TORCH, Sides


class Given(Sides):
    """Programs that take the given time for a thousand tokens, and the given time for a step."""

    def __init__(self, bench: Bench, prefill_s: dict[str, float], step_s: dict[str, float]) -> None:
        self._bench, self._below, self._label, self.threads = bench, 4_096, "S", dict.fromkeys(prefill_s, 2)
        self._asked = {}
        self.prefill_s, self.step_s, self.jobs = prefill_s, step_s, []

    def of(self, name: str) -> Any:
        return _Program(self, name)


class _Program:
    def __init__(self, given: Given, name: str) -> None:
        self.given, self.name = given, name

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        if "memory" in job:
            return {"bytes": 5}
        self.given.jobs.append((self.name, job))
        first, steps = self.given.prefill_s[self.name] * job["prompt_tokens"] / 1_000, job["tokens"] - 1 if "tokens" in job else 0
        step = self.given.step_s[self.name] * job.get("requests", 1) ** 0.5
        return {
            "first_s": first, "steps_s": [step] * steps, "bytes": 7, "layers_s": [first * 0.8] + [step * 0.5] * steps,
            "head_s": [first * 0.05] + [step * 0.1] * steps,
        }  # fmt: skip


def made(rounds: int = 3) -> tuple[Bench, Given]:
    bench = Bench("engine", rounds=rounds)
    return bench, Given(bench, {NATIVE: 0.04, TORCH: 0.05, THEIRS: 0.2}, {NATIVE: 0.004, TORCH: 0.004, THEIRS: 0.008})


def test_reading() -> None:
    bench, given = made()
    engine_reading.measure(bench, given, largest=16_384, one_go=4_096)
    rows = {row.name: row for row in bench.rows}
    ratio = rows["prefill, 4,096 tokens: transformers, chunks of 1,024 over engine"]
    assert ratio.median == pytest.approx(5)
    assert (ratio.aim, ratio.met) == ("≥ 4", True)
    ratio = rows["prefill, 4,096 tokens: transformers, one go over engine, torch attention"]
    assert ratio.median == pytest.approx(4)
    assert (ratio.aim, ratio.met) == ("≥ 12", False)
    assert rows["prefill, 16,384 tokens: the engine's time over its model's"].median == pytest.approx(1 / 0.85)
    assert not any("16,384" in name and "one go" in name for name in rows)
    assert all("S, 4,096 ids, 2 threads, median of 3 rounds" in row.note for row in bench.rows if row.kind != "value")
    # Every side of a round reads the same prompt, every round another one.
    seeds = {
        name: [job["seed"] for who, job in given.jobs if who == name and job["prompt_tokens"] == 1_024] for name in (NATIVE, THEIRS)
    }
    assert seeds[NATIVE] == seeds[THEIRS]
    assert len(set(seeds[NATIVE])) == len(seeds[NATIVE])


def test_answering() -> None:
    bench, given = made()
    engine_answering.measure(bench, given)
    rows = {row.name: row for row in bench.rows}
    assert rows["decode: one request over transformers, tokens per second"].median == pytest.approx(2)
    assert rows["decode: four requests over one, tokens per second"].median == pytest.approx(2)
    assert rows["decode: four requests over one, tokens per second"].met is False
    assert rows["a decode step, one request"].median == pytest.approx(4)
    assert rows["of it vLLM without a model, one request"].median == pytest.approx(4 * 0.4)


def test_growth_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INKLING_CACHE", str(tmp_path))
    Kept().put(f"{KERNEL}/65536", {"prefill_s": 8.0, "step_s": 0.1, "bytes": 9.0})
    another = ("another", 4_096, lambda tokens: {"prefill_s": 3.0, "step_s": 1.0, "bytes": float(tokens)})
    for again in (False, True):
        bench, given = made()
        engine_growth.measure(bench, given, to=16_384, theirs_to=4_096, folder=tmp_path / "page", beside=another)
        rows = {row.name: row for row in bench.rows}
        assert rows["log-log slope of prefill, engine, over the last lengths"].median == pytest.approx(1)
        assert rows["prefill 16,384 tokens, engine"].median == pytest.approx(0.04 * 16.384)
        assert ("from an earlier run" in rows["prefill 16,384 tokens, engine"].note) is again
        assert bool(given.jobs) is not again
        assert (rows["prefill 1,024 tokens, another"].median, rows["prefill 65,536 tokens, the engine kernel"].median) == (3.0, 8.0)
        assert "prefill 16,384 tokens, another" not in rows
    assert (tmp_path / "page" / "engine_growth.svg").read_text("utf-8").startswith("<?xml")


def test_its_parts_are_known() -> None:
    assert set(engine.DEFAULT) < set(engine.PARTS)
