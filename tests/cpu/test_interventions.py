"""Every intervention says what the same edit of transformers' modules says, and nobody else notices.

Log-probabilities of about -12 may differ by 2e-5: float32 sums in another order over four layers (seen: 6e-6).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import TINY
from .intervention_cases import CASES, MEDIA_CASE, SEEN
from .intervention_oracle import intervened
from .scenarios import picture, recording
from .seen import Seen
from .test_captures import SITES, check_routing
from .test_engine import check, reference, same

# Two dozen runs of an engine, and a second engine with two ranks: minutes where other work goes on.
pytestmark = pytest.mark.timeout(1200)

Ran = Callable[[str], dict[str, Any]]
CLOSE = 2e-5


@pytest.fixture(scope="module")
def eager(oracle: Any) -> Any:
    """The oracle with attention whose mask can be edited."""
    before = oracle.config._attn_implementation
    oracle.set_attn_implementation("eager")
    yield oracle
    oracle.set_attn_implementation(before)


CONFIGURATIONS = ["changed", pytest.param("changed-tp2", marks=pytest.mark.slow)]


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_an_intervention_is_the_same_edit_of_the_modules(ran: Ran, eager: Any, name: str, case: str) -> None:
    run = ran(name)["intervened"][case]
    with intervened(eager, CASES[case]):
        check(run, reference(eager, run), tolerance=CLOSE)
    # It does something: an edit without effect would pass the comparison too.
    plain = ran(name)["intervened"]["none"]
    moved = np.array([value for value, _ in run["prompt_logprobs"]]) - [value for value, _ in plain["prompt_logprobs"]]
    assert np.abs(moved).max() > 0.1


@pytest.mark.parametrize("case", SEEN)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_capture_shows_what_ran(ran: Ran, eager: Any, name: str, case: str) -> None:
    """Under masks, edited convolutions and edited biases: the same tolerances as without any."""
    run, folder = ran(name)["intervened"]["seen"][case], Path(ran(name)["folder"]) / f"seen-{case}"
    for ended in run["ended"]:
        assert ended["problems"] == []
        assert all(once == asked > 0 for once, asked in ended["coverage"].values())
    found = {array: np.load(folder / f"{array}.npy") for array in run["layout"]["arrays"]}
    with intervened(eager, CASES[case]):
        seen = Seen(eager, run["output"]["prompt"])
    check_routing(found, seen, run["layout"]["layers"]["routing"])
    queries = [10, 47, 48, *range(100, 150)]
    for layer in range(TINY.layers):
        got = found["attention.weight"][:, layer]
        np.testing.assert_allclose(got, seen.weight[layer][:, queries].transpose(1, 0, 2), atol=1e-5, rtol=0)
        np.testing.assert_allclose(got.sum(-1), 1.0, atol=1e-5)
        both = found["attention.content"][:, layer] + found["attention.bias"][:, layer]
        again = np.exp(found["attention.scaling"][:, layer, None, None] * both - found["attention.logsumexp"][:, layer, :, None])
        np.testing.assert_allclose(np.nan_to_num(again), got, atol=1e-5, rtol=0)
        # What a mask hides is not a number, and nothing else is.
        hidden = np.isnan(both) & (np.arange(150) <= np.array(queries)[:, None, None])
        assert (got[hidden] == 0).all()
        assert hidden.any() == (layer % 2 == 0 or case.startswith(("mask", "many")))
        for site, part in enumerate(SITES):
            x, term = seen.conv[layer, part]
            np.testing.assert_allclose(found["sconv.channel_input"][:, layer, site, : x.shape[1]], x, atol=1e-5)
            np.testing.assert_allclose(found["sconv.channel_term"][:, layer, site, : x.shape[1]], term, atol=1e-5)
            norm = np.linalg.norm(term, axis=1)
            np.testing.assert_allclose(found["sconv.by_tap"][:, layer, site].sum(-1), norm, atol=1e-5, rtol=1e-5)
        for site, part in enumerate(("attention", "mlp")):
            norm = np.linalg.norm(seen.residual[layer, part], axis=1)
            np.testing.assert_allclose(found["residual.norm"][:, layer, site], norm, rtol=1e-5)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_pools_under_a_mask_are_sums_of_rows(ran: Ran, name: str) -> None:
    folder = Path(ran(name)["folder"])
    whole = {part: np.load(folder / "seen-mask-heads" / f"attention.{part}.npy") for part in ("weight", "content", "bias")}
    for prefix, edges in (("", [0, 20, 60, 61]), ("bucket_", list(range(0, 150, 17)))):
        for part, values in whole.items():
            value = whole["weight"] * (1 if part == "weight" else np.nan_to_num(values))
            got = np.load(folder / "seen-pooled" / f"attention.{prefix}{part}.npy")
            np.testing.assert_allclose(got, np.add.reduceat(value, edges, axis=-1), atol=1e-5)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_pictures_and_recordings(ran: Ran, eager: Any, name: str) -> None:
    import torch
    from transformers import InklingFeatureExtractor
    from vllm.transformers_utils.processors.inkling import InklingImageProcessor

    run = ran(name)["intervened"]["media"]
    assert run["prompt"][2:17] == [200_054] * 15
    assert run["prompt"][20:32] == [200_053] * 12
    patches = InklingImageProcessor().preprocess(picture())["vision_patches_bthwc"]
    mels = InklingFeatureExtractor()(recording(), sampling_rate=16_000, return_tensors="pt")["input_features"]
    bins = (mels[..., None] - torch.linspace(-7.0, 2.0, 16)).abs().argmin(dim=-1)
    with intervened(eager, MEDIA_CASE):
        check(run, reference(eager, run, pixel_values=patches.float(), audio_input_ids=bins), tolerance=CLOSE)


@pytest.mark.parametrize("tokens", [0, 23])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_requests_of_one_batch_keep_to_themselves(ran: Ran, eager: Any, name: str, tokens: int) -> None:
    runs = ran(name)["intervened"]["shared"]
    if f"changed-{tokens}" not in runs:
        pytest.skip("with two ranks the scheduler is in another process, where no prompt can be split on demand")
    together, plain = runs[f"changed-{tokens}"], runs[f"plain-{tokens}"]
    # The matrix products of an expert have other rows when a neighbour is routed elsewhere: sums may round otherwise, no more.
    for other in (0, 2):
        same(together[other], plain[other], tolerance=1e-5)
    for row, case in ((1, "many"), (3, "force")):
        with intervened(eager, CASES[case]):
            check(together[row], reference(eager, together[row]), tolerance=CLOSE)
    check(plain[1], reference(eager, plain[1]), tolerance=CLOSE)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_cached_prefix_keeps_its_interventions_and_nothing_stays(ran: Ran, eager: Any, name: str) -> None:
    runs = ran(name)["intervened"]["shared"]
    miss, hit = runs["hits"]
    assert (miss["cached"], hit["cached"]) == (0, 1024)
    same(hit, miss)
    with intervened(eager, CASES["many"]):
        check(hit, reference(eager, hit), tolerance=CLOSE)
    check(runs["fresh"], reference(eager, runs["fresh"]), tolerance=CLOSE)
    assert set(runs["wrapped"]) == {0}
