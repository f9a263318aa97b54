"""Counts of drafts by request and depth, on a runner whose results are given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from engine.kernel.acceptance import Acceptance


class Runner:
    """What :class:`Acceptance` reads of a runner; `results` are what sampling says next."""

    num_speculative_steps, max_num_reqs, device = 3, 4, torch.device("cpu")

    def __init__(self) -> None:
        self.req_states = SimpleNamespace(req_id_to_index={"a-1": 2, "b-1": 0})
        self.results: Any = None

    def sample(self, hidden_states: Any, input_batch: Any, grammar: Any) -> Any:
        return "output", *self.results

    def _remove_request(self, request: str) -> bool:
        return self.req_states.req_id_to_index.pop(request, None) is not None

    def step(self, sampled: list[int], rejected: list[int]) -> None:
        self.results = torch.tensor(sampled), torch.tensor(rejected)
        batch = SimpleNamespace(idx_mapping=torch.tensor([2, 0]), num_draft_tokens_per_req=[3, 3])
        assert self.sample(None, batch, None)[0] == "output"


def test_counts_by_request_and_depth() -> None:
    runner = Runner()
    counts = Acceptance(runner)
    runner.step([3, 1], [1, 3])  # two of three accepted; none of three
    runner.step([1, 0], [1, 0])  # one drafted, not accepted; a prompt that is not done
    assert counts.of("a") == ([2, 1, 1], [1, 1, 0])
    assert counts.of("b") == ([1, 1, 1], [0, 0, 0])
    assert counts.of("c") == ([0, 0, 0], [0, 0, 0])


def test_counts_outlive_their_request_and_its_slot_begins_anew() -> None:
    runner = Runner()
    counts = Acceptance(runner)
    runner.step([3, 1], [1, 3])
    assert runner._remove_request("a-1")
    assert not runner._remove_request("a-1")
    runner.req_states.req_id_to_index["d-1"] = 2
    runner.step([4, 1], [0, 3])
    assert counts.of("a") == ([1, 1, 1], [1, 1, 0])
    assert counts.of("d") == ([1, 1, 1], [1, 1, 1])
    # A preempted request that comes back goes on counting.
    runner._remove_request("d-1")
    runner.req_states.req_id_to_index["d-1"] = 2
    runner.step([2, 1], [2, 3])
    assert counts.of("d") == ([2, 2, 2], [2, 1, 1])
