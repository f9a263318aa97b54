"""What the runner's bench makes of given times; the engines' own are measured, not tested."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.benchmarks import runner
from workbench.benchmarks.bench import Bench


class Given:
    """An engine whose jobs take the given time; `per_step` tokens each step after the first."""

    def __init__(self, seconds: float, step_s: float, per_step: float) -> None:
        self.seconds, self.step_s, self.per_step = seconds, step_s, per_step
        self.jobs: list[dict[str, Any]] = []

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        self.jobs.append(job)
        tokens = job["requests"] * job["tokens"]
        steps = round((job["tokens"] - 1) / self.per_step)
        return {"seconds": self.seconds, "tokens": tokens, "steps_s": [self.step_s] * steps}


@pytest.mark.parametrize("requests", [1, 4])
def test_ratios_break_even_and_tokens_per_step(requests: int) -> None:
    bench = Bench("runner", rounds=3)
    engines: dict[str, Any] = {"V1": Given(1.0, 0.01, 1), "V2": Given(1.25, 0.02, 1), "drafts": Given(1.0, 0.03, 2)}
    runner._measure(bench, engines, requests=requests, tokens=65, drafts=2)
    found = {row.name.partition(",")[0]: row for row in bench.rows}
    assert found["V2 over V1 in tokens per second"].median == pytest.approx(0.8)
    assert found["V2 over V1 in tokens per second"].met is False
    assert found["a step with 2 drafts over a plain step"].median == pytest.approx(1.5)
    assert found["tokens per step with 2 drafts"].median == pytest.approx(2)
    assert found["2 drafts over none in tokens per second"].median == pytest.approx(1.25)
    assert "from 1.50 tokens per step on" in bench.remarks[0]
    # Every side of a round answers the same prompts, every round others.
    seeds = [[job["seed"] for job in engine.jobs] for engine in engines.values()]
    assert seeds[0] == seeds[1] == seeds[2]
    assert len(set(seeds[0])) == len(seeds[0])
