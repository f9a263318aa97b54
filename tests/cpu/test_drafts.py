"""Drafts change the speed of an answer and not the answer: greedy answers are those of an engine that does not draft.

The checkpoint drafts well enough that some drafts are accepted and some are not (:mod:`.agreeing`). Log-probabilities may differ by
1e-4 for the reason given in :mod:`.test_engine`; where two tokens tie within rounding a greedy answer may turn, and the seeds here
have no such tie.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.cpu import philox, rejection

from . import agreeing
from .agreeing import SHAPE
from .conftest import run_scenarios
from .draft_oracle import heads
from .test_engine import CLOSE, check, reference

Drafting = Callable[..., dict[str, Any]]

DEFAULT = ["few", "proposed"]
"""What the default run tries, on one engine with two drafts."""

# Two hundred prompts on two cores take minutes.
pytestmark = pytest.mark.timeout(1200)

ALL = ["few", "many", "some", "edges", "hits", "options", "drawn"]


@pytest.fixture(scope="session")
def agreeing_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agreeing.write(tmp_path_factory.mktemp("agreeing") / "checkpoint")


@pytest.fixture(scope="session")
def agreeing_oracle(agreeing_folder: Path) -> Any:
    """transformers' Inkling with the checkpoint's weights; it has no drafting blocks."""
    import torch
    from transformers import InklingForConditionalGeneration

    return InklingForConditionalGeneration.from_pretrained(agreeing_folder, dtype=torch.float32).eval()


@pytest.fixture(scope="session")
def drafting(agreeing_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Drafting:
    """What an engine with so many drafts said in the scenarios; each combination runs once, in its own process."""
    known: dict[Any, dict[str, Any]] = {}

    def run(drafts: int, scenarios: list[str] = ALL, *, parallel: int = 1) -> dict[str, Any]:
        key = drafts, tuple(scenarios), parallel
        if key not in known:
            arguments: dict[str, Any] = {"dtype": "float32", "block_size": 16, "tensor_parallel_size": parallel}
            if "routed" in scenarios:
                arguments["enable_return_routed_experts"] = True
            if drafts:
                arguments["speculative_config"] = {"method": "mtp", "num_speculative_tokens": drafts}
            folder = tmp_path_factory.mktemp(f"drafts-{drafts}-{parallel}")
            known[key] = run_scenarios(f"{drafts} drafts", agreeing_folder, arguments, scenarios, folder)
        return known[key]

    return run


def test_drafted_answers_are_the_models(drafting: Drafting, agreeing_oracle: Any) -> None:
    """Against transformers, position by position; and in fewer steps than tokens."""
    run = drafting(2, DEFAULT)["few"]
    for answer in run["answers"].values():
        check(answer, reference(agreeing_oracle, answer))
    assert run["steps"] < len(run["long"]) - 5, "some drafts are accepted"
    assert run["steps"] > len(run["long"]) / 3 + 2, "and some are not"


def test_captured_proposals_are_the_heads(drafting: Drafting, agreeing_oracle: Any, tmp_path: Path) -> None:
    """Every head's proposal and its log-probability behind every token, against transformers' layers with the blocks' weights."""
    run = drafting(2, DEFAULT)
    found, split, folder = run["proposed"], run["proposed"]["split"], Path(run["folder"]) / "proposed"
    ids = np.array(found["answer"]["prompt"] + found["answer"]["ids"])
    token, logprob, accepted = (np.load(folder / f"drafts.{name}.npy") for name in ("token", "logprob", "accepted"))
    assert (split["layout"]["layers"], split["ended"][0]["coverage"]) == ({"drafts": [1, 2]}, {"drafts": [100, 100]})
    assert found["model"]["architecture"]["draft_layers"] == 2
    assert {seam["name"]: seam["fires"] for seam in found["model"]["seams"]}["drafts"]
    wanted, chain = heads(agreeing_oracle, agreeing.weights(), SHAPE, ids.tolist(), 2, tmp_path), np.ones(100, bool)
    for column, expected in enumerate(wanted):
        rows = np.arange(100 - 1 - column)  # those whose head has seen nothing but the prompt
        np.testing.assert_array_equal(token[rows, column], expected[rows].argmax(1))
        np.testing.assert_allclose(logprob[rows, column], expected[rows].max(1), atol=CLOSE, rtol=0)
        place = np.arange(100) + 2 + column
        known = place < 100
        right = ids[np.minimum(place, 99)] == token[:, column]
        np.testing.assert_array_equal(accepted[:, column], np.where(~chain, 0, np.where(known, right, -1)))
        chain &= ~known | right
    assert (accepted == 1).sum() > 10
    assert (accepted == 0).sum() > 10


def test_captured_verdicts_are_what_the_engine_accepted(drafting: Drafting) -> None:
    """Walked through step by step, a capture of a greedy answer accepts as often, at each depth, as the engine did."""
    run = drafting(2, DEFAULT)
    answer, (drafted, taken) = run["proposed"]["answer"], run["proposed"]["counts"]
    accepted = np.load(Path(run["folder"]) / "proposed" / "drafts.accepted.npy")[39:]  # behind the prompt's last token and later
    at, steps, counts = 0, 0, np.zeros(2, int)
    while at < len(answer["ids"]) - 1:
        row = accepted[at] == 1
        steps, counts, at = steps + 1, counts + row, at + int(row.sum()) + 1
    assert drafted[0] == steps
    # The engine also counts what the last step accepted beyond the answer's end.
    assert all(0 <= mine - walked <= 1 for mine, walked in zip(taken, counts.tolist(), strict=True))
    assert counts[0] > 5


@pytest.mark.slow
def test_recorded_experts_are_the_gates(drafting: Drafting, agreeing_oracle: Any) -> None:
    """vLLM's ``routed_experts``, with drafts being rejected around it: transformers' choice, and what a capture saw."""
    import torch

    found = drafting(2, ["routed"])
    run, again = found["routed"]["first"], found["routed"]["again"]
    ids, experts = run["prompt"] + run["ids"][:-1], np.array(run["experts"])
    assert experts.shape == (len(ids), SHAPE.layers, SHAPE.experts_per_token)
    layers, chosen = agreeing_oracle.model.language_model.layers, {}
    hooks = [
        layers[layer].mlp.gate.register_forward_hook(lambda gate, args, out, layer=layer: chosen.update({layer: (gate, args[0])}))
        for layer in range(SHAPE.dense_layers, SHAPE.layers)
    ]
    with torch.no_grad():
        agreeing_oracle(torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    for layer, (gate, hidden) in chosen.items():
        scores = (hidden.reshape(-1, SHAPE.hidden).double() @ gate.weight.double().T).sigmoid()[:, : SHAPE.experts]
        wanted = (scores + gate.e_score_correction_bias.double()).topk(SHAPE.experts_per_token).indices
        np.testing.assert_array_equal(experts[:, layer], wanted.numpy())
    captured = np.load(Path(found["folder"]) / "routed" / "routing.expert.npy")
    np.testing.assert_array_equal(captured, experts[: len(run["prompt"]), SHAPE.dense_layers :])
    assert again["cached"] >= 16
    assert (again["ids"], again["experts"]) == (run["ids"], run["experts"])


@pytest.mark.slow
@pytest.mark.parametrize("drafts", [1, 2, 4, 8])
class TestGreedy:
    """An engine with drafts says what the same engine says without."""

    def test_two_hundred_prompts(self, drafting: Drafting, drafts: int) -> None:
        assert drafting(drafts)["many"] == drafting(0)["many"]

    def test_fewer_steps(self, drafting: Drafting, drafts: int) -> None:
        assert drafting(drafts)["few"]["long"] == drafting(0)["few"]["long"]
        assert drafting(drafts)["few"]["steps"] < drafting(0)["few"]["steps"]

    def test_log_probabilities(self, drafting: Drafting, drafts: int) -> None:
        for length, answer in drafting(drafts)["few"]["answers"].items():
            same(answer, drafting(0)["few"]["answers"][length])

    def test_prompts_split_over_steps_with_and_without_a_picture(self, drafting: Drafting, drafts: int) -> None:
        for answers in drafting(drafts)["edges"].values():
            for answer, plain in zip(answers, drafting(0)["edges"]["0"], strict=True):
                same(answer, plain)

    def test_cached_prefixes(self, drafting: Drafting, drafts: int) -> None:
        runs = drafting(drafts)["hits"]
        for name, answer in runs.items():
            same(answer, drafting(0)["hits"][name])
            assert (answer["cached"] >= 512) == (name != "first")

    def test_under_every_option(self, drafting: Drafting, drafts: int) -> None:
        assert drafting(drafts)["options"] == drafting(0)["options"]

    def test_seeds_hold(self, drafting: Drafting, drafts: int) -> None:
        """The same seed draws the same answer; that it is the one without drafts vLLM does not promise."""
        for first, again in drafting(drafts)["drawn"]:
            assert first == again


@pytest.mark.slow
def test_two_ranks_draft_as_one(drafting: Drafting) -> None:
    assert drafting(2, ["some"], parallel=2)["some"] == drafting(0)["some"]


def same(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert left["ids"] == right["ids"]
    np.testing.assert_allclose(left["logprobs"], right["logprobs"], atol=CLOSE, rtol=0)


def test_uniform_numbers_are_philoxs() -> None:
    """Known answer of Philox 4x32-10 for counter and key of zeros and of ones (Random123's kat_vectors)."""
    assert philox.philox32(0, 0) == 0x6627E8D5
    found = [philox.uniform(seed, place) for seed in range(40) for place in range(50)]
    assert 0 < min(found) < 0.01 < 0.99 < max(found) < 1
    assert abs(np.mean(found) - 0.5) < 4 * (1 / 12 / 2000) ** 0.5


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("proposed", [False, True])
def test_verified_tokens_follow_the_targets_distribution(blocks: bool, proposed: bool) -> None:
    """4,000 draws of two drafts: the first token's shares are the target's, each within four standard deviations."""
    import torch

    draws, heat = 4000, 0.8
    target = torch.tensor([[1.0, 0.0, 2.0, -1.0, 0.5], [0.0, 1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 3.0, 0.0, 0.0]])
    proposal = torch.tensor([[2.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 2.0, 0.0]])
    shares, lengths = np.zeros(5), np.zeros(4)
    for seed in range(draws):
        draw = torch.Generator().manual_seed(seed)
        chosen = [int((row / heat).softmax(0).multinomial(1, generator=draw)) for row in proposal] if proposed else [0, 3]
        sampled, count = rejection.rejection_sample(
            target / heat, proposal[None] if proposed else None, torch.tensor([0, *chosen]), torch.tensor([0, 3]),
            torch.tensor([7, 8, 9]), torch.tensor([0]), torch.zeros(3, dtype=torch.int64), torch.arange(3), torch.tensor([heat]),
            torch.tensor([seed * 7919]), 2, use_block_verification=blocks,
        )  # fmt: skip
        shares[int(sampled[0, 0])] += 1
        lengths[int(count)] += 1
    wanted = (target[0] / heat).softmax(0).numpy()
    assert (np.abs(shares / draws - wanted) <= 4 * np.sqrt(wanted * (1 - wanted) / draws)).all()
    assert (lengths[1:] > draws / 100).all(), "every number of accepted drafts occurs"
