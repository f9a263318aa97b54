"""On the demo checkpoint, whose weights are trained: what a capture records is what transformers computes.

The same prompts as for random weights: split over steps among other requests, with a picture, with a recording, and behind a cached
prefix. Where the router's choice differs, the scores of the experts in question must tie within rounding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.demo.shape import Shape

from .conftest import run_scenarios
from .scenarios import picture, recording
from .seen import Seen
from .test_captures import SITES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SHAPE = Shape()
MOE = list(range(SHAPE.dense_layers, SHAPE.layers))
CASES = {"split": ([3, 4, 60, 61, 89], 0), "image": ([26], 0), "audio": ([24], 0), "hit": ([1190, 1191, 1199], 1185)}
"""Query tokens of each case, and its first recorded token. A plan without queries records the global layer's last row."""


@pytest.fixture(scope="module")
def found(demo_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("demo-captures")
    return run_scenarios("demo captures", demo_folder, {"dtype": "float32", "block_size": 16}, ["capture"], folder)


@pytest.fixture(scope="module")
def seen(demo_folder: Path, found: dict[str, Any]) -> dict[str, Seen]:
    import torch
    from transformers import InklingFeatureExtractor, InklingForConditionalGeneration
    from vllm.transformers_utils.processors.inkling import InklingImageProcessor

    model = InklingForConditionalGeneration.from_pretrained(demo_folder, dtype=torch.float32).eval()
    patches = InklingImageProcessor().preprocess(picture())["vision_patches_bthwc"].float()
    mels = InklingFeatureExtractor()(recording(), sampling_rate=16_000, return_tensors="pt")["input_features"]
    bins = (mels[..., None] - torch.linspace(-7.0, 2.0, 16)).abs().argmin(dim=-1)
    media = {"image": {"pixel_values": patches}, "audio": {"audio_input_ids": bins}}
    return {case: Seen(model, found["capture"][case]["output"]["prompt"], **media.get(case, {})) for case in CASES}


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest, found: dict[str, Any], seen: dict[str, Seen]) -> tuple[str, dict[str, np.ndarray], Seen]:
    name, run = request.param, found["capture"][request.param]
    for ended in run["ended"]:
        assert ended["problems"] == []
    folder = Path(found["folder"]) / name
    return name, {array: np.load(folder / f"{array}.npy") for array in run["layout"]["arrays"]}, seen[name]


def test_routing(case: tuple[str, dict[str, np.ndarray], Seen]) -> None:
    name, arrays, seen = case
    first = CASES[name][1]
    for column, layer in enumerate(MOE):
        logits, weight, ids, sink = (part[first:] for part in seen.gate[layer])
        score = 1 / (1 + np.exp(-logits[:, : SHAPE.experts].astype(np.float64)))
        mine, theirs = np.sort(arrays["routing.expert"][:, column], 1), np.sort(ids, 1)
        same = (mine == theirs).all(1)
        for row in np.flatnonzero(~same):
            odd = sorted(set(mine[row].tolist()) ^ set(theirs[row].tolist()))
            assert np.ptp(score[row, odd]) < 0.05, "only experts whose scores lie together can change places"
        assert same.mean() > 0.99
        order, other = np.argsort(arrays["routing.expert"][:, column], 1)[same], np.argsort(ids, 1)[same]
        got = np.take_along_axis(arrays["routing.weight"][:, column][same], order, 1)
        np.testing.assert_allclose(got, np.take_along_axis(weight[same], other, 1), atol=1e-5)
        np.testing.assert_allclose(arrays["routing.sink"][:, column][same], sink[same], atol=1e-5)


def test_attention_rows(case: tuple[str, dict[str, np.ndarray], Seen]) -> None:
    name, arrays, seen = case
    queries = CASES[name][0]
    layers = range(SHAPE.layers) if name in ("split", "hit") else [SHAPE.layers - 1]
    for column, layer in enumerate(layers):
        got = arrays["attention.weight"][:, column]
        np.testing.assert_allclose(got, seen.weight[layer][:, queries].transpose(1, 0, 2), atol=1e-5)
        np.testing.assert_allclose(got.sum(-1), 1, atol=1e-5)


def test_convolutions_and_residual_stream(case: tuple[str, dict[str, np.ndarray], Seen]) -> None:
    name, arrays, seen = case
    first = CASES[name][1]
    for layer in range(SHAPE.layers):
        for site, part in enumerate(SITES):
            x, term = (value[first:] for value in seen.conv[layer, part])
            for array, values in (("input", x), ("term", term)):
                # Norms of trained weights go into the tens: relative, as float32 rounds.
                np.testing.assert_allclose(
                    arrays[f"sconv.{array}"][:, layer, site], np.linalg.norm(values, axis=1), atol=1e-5, rtol=1e-5
                )
            taps = arrays["sconv.by_tap"][:, layer, site].sum(-1)
            np.testing.assert_allclose(taps, np.linalg.norm(term, axis=1), atol=1e-5, rtol=1e-5)
        for site, part in enumerate(("attention", "mlp")):
            want = np.linalg.norm(seen.residual[layer, part][first:], axis=1)
            np.testing.assert_allclose(arrays["residual.norm"][:, layer, site], want, atol=1e-4, rtol=1e-5)


def test_lens_is_the_head(found: dict[str, Any], seen: dict[str, Seen]) -> None:
    folder, this = Path(found["folder"]) / "split", seen["split"]
    values, vectors = np.load(folder / "residual.lens_logprob.npy"), np.load(folder / "residual.vector.npy")
    for layer in range(SHAPE.layers):
        for site, part in enumerate(("attention", "mlp")):
            np.testing.assert_allclose(vectors[:, layer, site], this.residual[layer, part], atol=1e-4, rtol=1e-5)
        logprobs = this.head(this.residual[layer, "mlp"])
        np.testing.assert_allclose(values[:, layer], -np.sort(-logprobs, axis=1)[:, :5], atol=1e-4)
