"""What a capture records is what transformers computes: routing, convolutions, attention rows and the residual stream.

The same prompt runs split over steps among other requests, with an image, with a recording, and with most of it from the prefix
cache. Tolerances: both sides sum float32 in another order; weights, attention rows and terms of the convolutions stay within 1e-5,
the residual stream, whose values are larger and carry every layer's rounding, within 1e-4.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special

from .conftest import TINY
from .scenarios import picture, recording, text_ids
from .seen import Seen

# Engines run their scenarios when the first test asks: minutes where other work goes on.
pytestmark = pytest.mark.timeout(1200)

Ran = Callable[[str], dict[str, Any]]
SITES = ("k", "v", "attention", "mlp")
CONFIGURATIONS = ["base", pytest.param("tp2-capture", marks=pytest.mark.slow)]


def arrays(ran: dict[str, Any], case: str) -> dict[str, np.ndarray]:
    """Arrays of one captured case by name."""
    folder = Path(ran["folder"]) / case
    return {name: np.load(folder / f"{name}.npy") for name in ran["capture"][case]["layout"]["arrays"]}


@pytest.fixture(scope="module")
def seen(oracle: Any) -> Seen:
    """transformers on the prompt of most captures."""
    return Seen(oracle, text_ids(90, 10))


@pytest.fixture(scope="module")
def far(oracle: Any) -> Seen:
    """transformers on the long prompt."""
    return Seen(oracle, text_ids(1200, 13))


def check_routing(found: dict[str, np.ndarray], seen: Seen, layers: list[int], rows: slice = slice(None)) -> None:
    """Ids equal as sets per token, weights and sinks with them. A tie within rounding could swap two; these seeds have none."""
    for column, layer in enumerate(layers):
        _, weight, ids, sink = (part[rows] for part in seen.gate[layer])
        mine, theirs = np.argsort(found["routing.expert"][:, column], axis=1), np.argsort(ids, axis=1)
        np.testing.assert_array_equal(
            np.take_along_axis(found["routing.expert"][:, column], mine, 1), np.take_along_axis(ids, theirs, 1)
        )  # fmt: skip
        got = np.take_along_axis(found["routing.weight"][:, column], mine, 1)
        np.testing.assert_allclose(got, np.take_along_axis(weight, theirs, 1), atol=1e-5, rtol=0)
        np.testing.assert_allclose(found["routing.sink"][:, column], sink, atol=1e-5, rtol=0)


def check_attention(found: dict[str, np.ndarray], seen: Seen, queries: list[int], layers: list[int]) -> None:
    """Whole rows: weights, their sum, and that content, bias and scaling make the weights."""
    for column, layer in enumerate(layers):
        got = found["attention.weight"][:, column]
        np.testing.assert_allclose(got, seen.weight[layer][:, queries].transpose(1, 0, 2), atol=1e-5, rtol=0)
        np.testing.assert_allclose(got.sum(-1), 1.0, atol=1e-5)
        both = found["attention.content"][:, column] + found["attention.bias"][:, column]
        logits = found["attention.scaling"][:, column][:, None, None] * both
        again = np.exp(logits - found["attention.logsumexp"][:, column][..., None])
        np.testing.assert_allclose(np.where(np.isnan(again), 0, again), got, atol=1e-5, rtol=0)
        # Seen is what lies before the query, and in a local layer within its window.
        keys, at = np.arange(got.shape[-1]), np.array(queries)[:, None]
        visible = (keys <= at) & ((keys > at - TINY.window) | (layer % 2 == 1))
        np.testing.assert_array_equal(~np.isnan(both), np.broadcast_to(visible[:, None], both.shape))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_routing(ran: Ran, seen: Seen, name: str) -> None:
    found, run = arrays(ran(name), "split"), ran(name)["capture"]["split"]
    assert run["steps"] >= 10
    assert found["routing.expert"].dtype == np.uint8
    check_routing(found, seen, run["layout"]["layers"]["routing"])
    for column, layer in enumerate(run["layout"]["layers"]["routing"]):
        np.testing.assert_allclose(found["routing.logits"][:, column, : TINY.experts], seen.gate[layer][0], atol=1e-5)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_convolutions(ran: Ran, seen: Seen, name: str) -> None:
    found = arrays(ran(name), "split")
    for layer in range(TINY.layers):
        for site, part in enumerate(SITES):
            x, term = seen.conv[layer, part]
            channels = x.shape[1]
            np.testing.assert_allclose(found["sconv.channel_input"][:, layer, site, :channels], x, atol=1e-5)
            np.testing.assert_allclose(found["sconv.channel_term"][:, layer, site, :channels], term, atol=1e-5)
            assert np.isnan(found["sconv.channel_term"][:, layer, site, channels:]).all()
            norms = np.linalg.norm(x, axis=1), np.linalg.norm(term, axis=1)
            np.testing.assert_allclose(found["sconv.input"][:, layer, site], norms[0], atol=1e-5, rtol=1e-5)
            np.testing.assert_allclose(found["sconv.term"][:, layer, site], norms[1], atol=1e-5, rtol=1e-5)
            np.testing.assert_allclose(found["sconv.cosine"][:, layer, site], (x * term).sum(1) / (norms[0] * norms[1]), atol=1e-5)
            taps = found["sconv.by_tap"][:, layer, site]
            np.testing.assert_allclose(taps.sum(-1), norms[1], atol=1e-5, rtol=1e-5)
            # Tap by tap, from the kernel and the inputs.
            kernel = found["sconv.kernel"][layer, site, :channels]
            for tap in range(4):
                shifted = np.concatenate([np.zeros((3 - tap, channels), np.float32), x[: len(x) - 3 + tap]])
                want = (shifted * kernel[:, tap] * term).sum(1) / norms[1]
                np.testing.assert_allclose(taps[:, tap], want, atol=1e-5)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_attention_rows(ran: Ran, seen: Seen, name: str) -> None:
    found = arrays(ran(name), "split")
    check_attention(found, seen, [3, 4, 60, 61, 89], list(range(TINY.layers)))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_residual_and_lens(ran: Ran, seen: Seen, name: str) -> None:
    found = arrays(ran(name), "split")
    for layer in range(TINY.layers):
        for site, part in enumerate(("attention", "mlp")):
            want = seen.residual[layer, part]
            np.testing.assert_allclose(found["residual.vector"][:, layer, site], want, atol=1e-4)
            np.testing.assert_allclose(found["residual.norm"][:, layer, site], np.linalg.norm(want, axis=1), rtol=1e-5)
        logprobs = seen.head(seen.residual[layer, "mlp"])
        tokens = found["residual.lens_token"][:, layer]
        np.testing.assert_allclose(found["residual.lens_logprob"][:, layer], np.take_along_axis(logprobs, tokens, 1), atol=1e-4)
        np.testing.assert_allclose(found["residual.lens_logprob"][:, layer], -np.sort(-logprobs, axis=1)[:, :5], atol=1e-4)
    # After the last layer the lens is the model's own prediction.
    own = scipy.special.log_softmax(seen.logits[:, :200_058].astype(np.float64), axis=-1)
    np.testing.assert_allclose(found["residual.lens_logprob"][:, -1, 0], own.max(1), atol=1e-4)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_row_was_covered_once_and_the_seams_are_free_again(ran: Ran, name: str) -> None:
    capture = ran(name)["capture"]
    for case in ("split", "hit", "pooled", "topk"):
        for rank, ended in enumerate(capture[case]["ended"]):
            assert ended["problems"] == []
            assert all(once == asked > 0 for once, asked in ended["coverage"].values())
            assert rank or set(ended["coverage"]) == set(capture[case]["layout"]["layers"])
    assert capture["model"]["mode"] == "cpu"
    assert [seam["name"] for seam in capture["model"]["seams"] if seam["fires"]] == ["routing", "sconv", "attention", "residual"]
    assert all(set(seam["modes"]) == {"cpu", "gpu-eager", "gpu-graphs"} for seam in capture["model"]["seams"])


@pytest.mark.parametrize("kind", ["image", "audio"])
def test_media(ran: Ran, oracle: Any, kind: str) -> None:
    import torch

    run = ran("base")["capture"][kind]
    if kind == "image":
        from vllm.transformers_utils.processors.inkling import InklingImageProcessor

        media = {"pixel_values": InklingImageProcessor().preprocess(picture())["vision_patches_bthwc"].float()}
    else:
        from transformers import InklingFeatureExtractor

        mels = InklingFeatureExtractor()(recording(), sampling_rate=16_000, return_tensors="pt")["input_features"]
        media = {"audio_input_ids": (mels[..., None] - torch.linspace(-7.0, 2.0, 16)).abs().argmin(dim=-1)}
    ids = run["output"]["prompt"]
    found, seen = arrays(ran("base"), kind), Seen(oracle, ids, **media)
    check_routing(found, seen, [1, 2, 3])
    check_attention(found, seen, [len(ids) - 1], [1, 3])
    for layer in range(TINY.layers):
        for site, part in enumerate(SITES):
            want = np.linalg.norm(seen.conv[layer, part][1], axis=1)
            np.testing.assert_allclose(found["sconv.term"][:, layer, site], want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_cached_prefix_costs_no_second_prefill(ran: Ran, far: Seen, name: str) -> None:
    """Rows look back over the cache; the tokens that must be seen are computed, the ones before come from the cache."""
    run = ran(name)["capture"]["hit"]
    assert 1000 < run["output"]["cached"] <= 1185
    found = arrays(ran(name), "hit")
    check_attention(found, far, [1190, 1191, 1199], list(range(TINY.layers)))
    check_routing(found, far, [1, 2, 3], slice(1185, 1200))
    for layer in range(TINY.layers):
        np.testing.assert_allclose(
            found["residual.norm"][:, layer, 1], np.linalg.norm(far.residual[layer, "mlp"][1185:], axis=1), rtol=1e-4
        )
        for site, part in enumerate(SITES):
            want = np.linalg.norm(far.conv[layer, part][1][1185:], axis=1)
            np.testing.assert_allclose(found["sconv.term"][:, layer, site], want, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_pooled_is_the_sum_of_whole_and_topk_its_largest(ran: Ran, far: Seen, name: str) -> None:
    whole, pooled, top = (arrays(ran(name), case) for case in ("hit", "pooled", "topk"))
    # A repeated capture computes the same rows: within a step of its own, the sums are the same.
    starts = {"": [0, 3, 500, 501, 1195], "bucket_": list(range(0, 1200, -(-1200 // 7)))}
    for prefix, edges in starts.items():
        for name_of in ("weight", "content", "bias"):
            value = whole["attention.weight"] * (1 if name_of == "weight" else np.nan_to_num(whole[f"attention.{name_of}"]))
            want = np.add.reduceat(value, edges, axis=-1)
            np.testing.assert_allclose(pooled[f"attention.{prefix}{name_of}"], want, atol=1e-5)
    summaries = "entropy distance inside inside_content bias_bits size_content size_bias logsumexp scaling"
    for summary in summaries.split():
        np.testing.assert_allclose(pooled[f"attention.{summary}"], whole[f"attention.{summary}"], atol=1e-4, rtol=1e-4)
    some = whole["attention.weight"][:, :, 1:3]
    order, keys = np.argsort(-some, axis=-1, kind="stable")[..., :8], top["attention.key"].astype(np.int64)
    # 1e-5, not less: one run read its prefix from the cache, the other computed it.
    np.testing.assert_allclose(top["attention.weight"], np.take_along_axis(some, order, -1), atol=1e-5)
    np.testing.assert_allclose(top["attention.weight"], np.take_along_axis(some, keys, -1), atol=1e-5)


def test_summaries_of_a_row_from_the_row(ran: Ran) -> None:
    """Entropy, distance, reach and the bias's part, worked out from whole rows in float64."""
    found = arrays(ran("base"), "split")
    queries = np.array([3, 4, 60, 61, 89])
    p = found["attention.weight"].astype(np.float64)
    content, bias = np.nan_to_num(found["attention.content"]), np.nan_to_num(found["attention.bias"])
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(p > 0, p * np.log2(p), 0).sum(-1)
    np.testing.assert_allclose(found["attention.entropy"], entropy, atol=1e-4)
    distance = queries[:, None] - np.arange(90)
    np.testing.assert_allclose(found["attention.distance"], (p * distance[:, None, None]).sum(-1), atol=1e-3)
    reach = np.where(np.arange(TINY.layers) % 2 == 1, TINY.extent, TINY.window)
    inside = distance[:, None, None] < reach[:, None, None]
    np.testing.assert_allclose(found["attention.inside"], (p * inside).sum(-1), atol=1e-5)
    np.testing.assert_allclose(found["attention.size_bias"], (p * abs(bias)).sum(-1), atol=1e-4)
    np.testing.assert_allclose(found["attention.size_content"], (p * abs(content)).sum(-1), atol=1e-4)
    tau = found["attention.scaling"][..., None, None]
    seen = ~np.isnan(found["attention.content"])
    plain = np.where(seen, np.exp(tau * content), 0)
    plain /= plain.sum(-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.where(p > 0, p * np.log2(p / plain), 0).sum(-1)
    np.testing.assert_allclose(found["attention.bias_bits"], moved, atol=1e-4)
    np.testing.assert_allclose(found["attention.inside_content"], (plain * inside).sum(-1), atol=1e-5)


def test_profiles_are_the_bank_mixed_by_the_token(ran: Ran) -> None:
    """The bias of a row is its profile read at the distance of each key; a layer's profiles lie in the span of its bank."""
    found = arrays(ran("base"), "split")
    for row, query in enumerate([3, 4, 60, 61, 89]):
        for layer in range(TINY.layers):
            reach = TINY.extent if layer % 2 else TINY.window
            near = np.arange(max(0, query - reach + 1), query + 1)
            profile = found["attention.profile"][row, layer]
            np.testing.assert_allclose(found["attention.bias"][row, layer][:, near], profile[:, query - near], atol=1e-5)
            assert np.isnan(profile[:, reach:]).all()
            bank = found["attention.bank"][layer][:, :reach].astype(np.float64)
            mixed, *_ = np.linalg.lstsq(bank.T, profile[:, :reach].T.astype(np.float64), rcond=None)
            np.testing.assert_allclose(bank.T @ mixed, profile[:, :reach].T, atol=1e-4)
