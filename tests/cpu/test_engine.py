"""vLLM's Inkling with the torch kernels says what transformers says, however a prompt is split, cached, batched or sharded.

Log-probabilities may differ by 1e-4: both are float32 sums in another order over four layers (seen: 2e-5). Where a router's scores
tie within rounding an expert may flip; the seeds here have no such tie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import engine.cpu
from engine.demo.shape import VOCABULARY

from .conftest import TINY
from .scenarios import picture, recording

Ran = Callable[[str], dict[str, Any]]
CLOSE = 1e-4
EXACT_CONFIGURATIONS = ["base", "block128", *(pytest.param(name, marks=pytest.mark.slow) for name in ("block8", "block32", "tp2"))]


def reference(oracle: Any, run: dict[str, Any], **media: Any) -> np.ndarray:
    """transformers' log-probabilities for the prompt and the answer of `run`, shape (t, vocabulary)."""
    import torch

    with torch.no_grad():
        logits = oracle(torch.tensor([run["prompt"] + run["ids"]]), **media).logits[0]
    return torch.log_softmax(logits, dim=-1).numpy()


def check(run: dict[str, Any], expected: np.ndarray, *, tolerance: float = CLOSE) -> None:
    """Prompt and answer log-probabilities agree, and every greedy token is the likeliest (or within 1e-3 of it)."""
    ids, first = run["prompt"] + run["ids"], len(run["prompt"])
    rows = np.arange(len(ids) - 1)
    wanted = expected[rows, ids[1:]]
    if "prompt_logprobs" in run:
        found = np.array([value for value, _ in run["prompt_logprobs"]])
        np.testing.assert_allclose(found, wanted[: first - 1], atol=tolerance, rtol=0)
        for row, (value, rank) in enumerate(run["prompt_logprobs"][:40]):
            # Equal up to ties within rounding.
            at_least = np.count_nonzero(expected[row] >= value + tolerance), np.count_nonzero(expected[row] >= value - tolerance)
            assert at_least[0] <= rank <= max(at_least)
    np.testing.assert_allclose(run["logprobs"], wanted[first - 1 :], atol=tolerance, rtol=0)
    best = expected[first - 1 : -1].max(axis=1)
    assert (best - wanted[first - 1 :] < 1e-3).all()


def same(left: dict[str, Any], right: dict[str, Any], *, tolerance: float = CLOSE) -> None:
    """Two runs of one prompt agree."""
    assert left["ids"] == right["ids"]
    np.testing.assert_allclose(left["logprobs"], right["logprobs"], atol=tolerance, rtol=0)


@pytest.mark.parametrize("name", EXACT_CONFIGURATIONS)
def test_text(ran: Ran, oracle: Any, name: str) -> None:
    run = ran(name)["text"]
    # Past the log scaling's floor, the window and the bias's extent.
    assert len(run["prompt"]) > max(TINY.log_floor, TINY.window, TINY.extent)
    check(run, reference(oracle, run))


def test_image(ran: Ran, oracle: Any) -> None:
    from vllm.transformers_utils.processors.inkling import InklingImageProcessor

    run = ran("base")["image"]
    # 90 × 50 becomes 180 × 100: three rows of five patches.
    assert run["prompt"][:2] + run["prompt"][17:18] == [200_000, 200_005, 200_010]
    assert run["prompt"][2:17] == [200_054] * 15
    patches = InklingImageProcessor().preprocess(picture())["vision_patches_bthwc"]
    check(run, reference(oracle, run, pixel_values=patches.float()))


def test_audio(ran: Ran, oracle: Any) -> None:
    import torch
    from transformers import InklingFeatureExtractor

    run = ran("base")["audio"]
    assert run["prompt"][2:14] == [200_053] * 12
    mels = InklingFeatureExtractor()(recording(), sampling_rate=16_000, return_tensors="pt")["input_features"]
    # dMel: the nearest of sixteen centres from -7 to 2.
    bins = (mels[..., None] - torch.linspace(-7.0, 2.0, 16)).abs().argmin(dim=-1)
    check(run, reference(oracle, run, audio_input_ids=bins))


@pytest.mark.parametrize("name", EXACT_CONFIGURATIONS[:4])
def test_a_split_prompt_is_the_whole_prompt(ran: Ran, oracle: Any, name: str) -> None:
    runs = ran(name)["splits"]
    check(runs["0"], reference(oracle, runs["0"]))
    for tokens in (1, 2, 3, 4, 5, 16):
        assert runs[str(tokens)]["steps"] >= 75 // tokens
        same(runs[str(tokens)], runs["0"])


@pytest.mark.parametrize("name", EXACT_CONFIGURATIONS[:4])
def test_a_cached_prefix_changes_nothing(ran: Ran, name: str) -> None:
    runs = ran(name)["prefixes"]
    assert [runs[key]["miss"]["cached"] for key in runs] == [0] * len(runs)
    assert runs["first"]["hit"]["cached"] == 0
    for key in ("one", "two", "nine", "again"):
        assert runs[key]["hit"]["cached"] >= 512
        same(runs[key]["hit"], runs[key]["miss"])
    same(runs["again"]["hit"], runs["first"]["miss"])


@pytest.mark.parametrize("name", EXACT_CONFIGURATIONS)
def test_concurrent_requests_do_not_touch_each_other(ran: Ran, oracle: Any, name: str) -> None:
    runs = ran(name)["together"]
    for alone, together in zip(runs["alone"], runs["together"], strict=True):
        same(together, alone)
    check(runs["alone"][0], reference(oracle, runs["alone"][0]))


def test_sampling_is_seeded_and_stays_in_the_vocabulary(ran: Ran) -> None:
    runs = ran("base")["sampled"]
    assert runs["same"][0] == runs["same"][1] != runs["other"]
    assert runs["all"] == VOCABULARY
    drawn = {token for ids in runs["hot"] for token in ids}
    assert len(drawn) > 500
    assert max(drawn) < VOCABULARY


def test_top_k_and_min_p_cut(ran: Ran, oracle: Any) -> None:
    run = ran("base")["sampled"]["top_k"]
    expected = reference(oracle, run)[len(run["prompt"]) - 1 : -1]
    third = np.sort(expected, axis=1)[:, -3]
    assert (expected[np.arange(len(run["ids"])), run["ids"]] >= third - CLOSE).all()
    # With min_p = 1 only the likeliest token is left, whatever the seed.
    greedy = {"prompt": run["prompt"], "ids": ran("base")["sampled"]["min_p"]}
    rows = reference(oracle, greedy)[len(run["prompt"]) - 1 : -1]
    assert (rows.max(axis=1) - rows[np.arange(len(greedy["ids"])), greedy["ids"]] < 1e-3).all()


def test_constraints(ran: Ran) -> None:
    runs = ran("base")["constrained"]
    assert set(runs["allowed"]) <= {11, 22, 33}
    assert set(runs["biased"]) == {77}
    assert runs["penalised"][0] == 77
    # Each said 77 costs 2, the first one 4: after 100 / 2 of them others win, so twelve are all 77.
    assert set(runs["penalised"]) == {77}
    assert len(set(runs["repeated"])) == len(runs["repeated"])
    assert runs["chosen"] in ("yes", "no")
    assert runs["bad"][0] != runs["free"][0]


def test_seams_and_sizes_are_reported(ran: Ran) -> None:
    model = ran("base")["capture"]["model"]
    assert {seam["name"]: seam["fires"] for seam in model["seams"]} == {
        "routing": True, "sconv": True, "attention": True, "residual": True, "drafts": False,
    }  # fmt: skip
    assert all(seam["reason"] for seam in model["seams"] if not seam["fires"])
    assert (model["architecture"]["moe_layers"], model["architecture"]["global_layers"]) == ([1, 2, 3], [1, 3])
    assert (model["architecture"]["vocabulary"], model["kernels"]) == (VOCABULARY, engine.cpu.kernels())


@pytest.mark.slow
def test_bfloat16_runs_and_is_near(ran: Ran, oracle: Any) -> None:
    runs = ran("bf16")
    # Rounding to eight bits moves logits by up to some tenths here and may flip experts: only the middle of the errors is bounded.
    run = runs["text"]
    expected = reference(oracle, run)
    found = np.array([value for value, _ in run["prompt_logprobs"]])
    wanted = expected[np.arange(len(found)), run["prompt"][1:]]
    assert np.median(np.abs(found - wanted)) < 0.1
    for tokens in (1, 3, 16):
        assert runs["splits"][str(tokens)]["ids"][0] == runs["splits"]["0"]["ids"][0]
