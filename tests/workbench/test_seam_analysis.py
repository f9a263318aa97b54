"""Analyses in one line, against the same sums by hand; lazily read captures; files of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.protocol import AttentionPlan, ResidualPlan, SconvPlan
from tests.fabricated_capture import rendered
from tests.fabricated_insides import capture, plan_of
from workbench import Capture
from workbench.errors import SelectionError
from workbench.routing import group_tokens
from workbench.token_text import token_text

SOME = (5, 6, range(40, 60))


def test_sconv_taps_are_sums_over_tokens_and_shares_sum_to_one() -> None:
    cap, arrays = capture(plan_of(sconv=SconvPlan(tokens=SOME)))
    found = cap.sconv_taps(by="modality")
    positions = np.array([5, 6, *range(40, 60)])
    names, groups = group_tokens(cap.spans, "modality")
    for index, name in enumerate(names):
        rows = np.flatnonzero(groups[positions] == index)
        if not len(rows):
            assert np.isnan(found["share"].sel(group=name)).all()
            continue
        tap, term, inputs = (arrays[f"sconv.{key}"][rows].astype(np.float64).sum(0) for key in ("by_tap", "term", "input"))
        np.testing.assert_allclose(found["share"].sel(group=name), tap / term[..., None], rtol=1e-6)
        np.testing.assert_allclose(found["ratio"].sel(group=name), term / inputs, rtol=1e-6)
        np.testing.assert_allclose(found["share"].sel(group=name).sum("tap"), 1, rtol=1e-5)
    assert found.data["tokens"].sum() == len(positions)
    assert cap.sconv_taps().data.sizes == {"group": 1, "l": 6, "site": 4, "tap": 4}
    assert found.data["tap"].values.tolist() == [-3, -2, -1, 0]


def test_channels_of_a_convolution_from_its_inputs() -> None:
    """Tap by tap, from kernel and inputs, over stretches of tokens; a stretch's first tokens lack their predecessors."""
    tokens = (*range(6), *range(30, 45))
    cap, arrays = capture(plan_of(sconv=SconvPlan(keep="channels", tokens=(range(6), range(30, 45)))))
    found = cap.sconv_channels(5, "v")
    x, kernel = arrays["sconv.channel_input"][:, 5, 1].astype(float), arrays["sconv.kernel"][5, 1].astype(float)
    term = arrays["sconv.channel_term"][:, 5, 1].astype(float)
    at, rows = {t: row for row, t in enumerate(tokens)}, []
    along = np.zeros(kernel.shape)
    for t in tokens:
        back = [t - 3 + tap for tap in range(4)]
        if any(b >= 0 and b not in at for b in back):
            continue
        rows.append(at[t])
        for tap, b in enumerate(back):
            along[:, tap] += (x[at[b]] if b >= 0 else 0) * kernel[:, tap] * term[at[t]]
    assert found.data.attrs["tokens"] == len(rows) == 6 + 12
    np.testing.assert_allclose(found["share"], along / (term[rows] ** 2).sum(0)[:, None], rtol=1e-9)
    np.testing.assert_allclose(found["term"], np.sqrt((term[rows] ** 2).mean(0)), rtol=1e-9)
    np.testing.assert_allclose(found["input"], np.sqrt((x[rows] ** 2).mean(0)), rtol=1e-9)
    for wrong in ((9, "v"), (5, "gate")):
        with pytest.raises(SelectionError, match="was not recorded"):
            cap.sconv_channels(*wrong)
    from workbench.figures import png

    assert png(found.plot()).startswith(b"\x89PNG")


@pytest.mark.parametrize("keep", ["pooled", "whole", "topk"])
@pytest.mark.parametrize("by", ["part", "modality", "span"])
def test_attention_by_sums_the_weights_of_each_group(keep: str, by: str) -> None:
    cap, arrays = capture(plan_of(attention=AttentionPlan(queries=(9, 30), layers="all", keep=keep)))
    found = cap.attention_by(by)
    names, groups = group_tokens(cap.spans, by)
    weight = arrays["attention.weight"].astype(np.float64)
    if keep == "pooled":
        keys = np.broadcast_to([span.start for span in cap.spans], weight.shape)
    else:
        keys = arrays["attention.key"] if keep == "topk" else np.broadcast_to(np.arange(len(cap)), weight.shape)
    for index, name in enumerate(names):
        want = np.where(groups[keys] == index, weight, 0).sum(-1)
        # Names can repeat over spans of one label at one place only: groups are found by position here.
        np.testing.assert_allclose(found["weight"].values[..., index], want, atol=1e-6)
        assert str(found.data["group"].values[index]) == name
    np.testing.assert_allclose(found["weight"].sum("group"), 1, atol=1e-5)
    assert found.data["q"].values.tolist() == [9, 30]


def test_bias_share_is_a_mean_over_queries() -> None:
    cap, arrays = capture(plan_of(attention=AttentionPlan(queries=(9, 30, 31))))
    found = cap.bias_share()
    bias, content = (arrays[f"attention.size_{name}"].astype(np.float64).mean(0) for name in ("bias", "content"))
    np.testing.assert_allclose(found["share"], bias / (bias + content), rtol=1e-6)
    np.testing.assert_allclose(found["entropy"], arrays["attention.entropy"].mean(0), rtol=1e-5)
    assert found.data["l"].values.tolist() == [5]


def test_profiles_are_those_of_the_token() -> None:
    cap, arrays = capture(plan_of(attention=AttentionPlan(queries=(9, 30), profiles=True)))
    assert set(cap.distance_profiles().data) == {"bank"}
    np.testing.assert_array_equal(cap.distance_profiles(30)["profile"], arrays["attention.profile"][1])
    with pytest.raises(SelectionError, match="query token 8 was not recorded: there are 9, 30"):
        cap.distance_profiles(8)
    with pytest.raises(SelectionError, match="profiles=True"):
        capture(plan_of(attention=True))[0].distance_profiles(3)


def test_the_lens_shows_tokens_as_text() -> None:
    cap, arrays = capture(plan_of(residual=ResidualPlan(tokens=(3, 7), lens=5)))
    found = cap.lens(3)
    np.testing.assert_array_equal(found["token"], arrays["residual.lens_token"][0])
    assert found["text"].values[0, 0] == token_text(int(found["token"].values[0, 0]))
    assert "token 7" in cap.lens().title
    with pytest.raises(SelectionError, match="token 4 was not recorded"):
        cap.lens(4)
    with pytest.raises(SelectionError, match="lens_token"):
        capture(plan_of(residual=True))[0].lens()


def test_what_was_not_recorded_is_named() -> None:
    cap, _ = capture(plan_of(sconv=SconvPlan(keep="norms")))
    with pytest.raises(SelectionError, match="by_tap"):
        cap.sconv_taps()
    with pytest.raises(SelectionError, match="no attention"):
        cap.attention_by()
    with pytest.raises(SelectionError, match="by must be"):
        capture(plan_of(attention=True))[0].attention_by("colour")  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["sconv_taps", "attention_by", "bias_share", "distance_profiles", "lens"])
def test_every_result_shows_and_draws_itself(method: str) -> None:
    from workbench.figures import png

    plan = plan_of(sconv=True, attention=AttentionPlan(queries=(9, 30), layers="all"), residual=ResidualPlan(tokens="last", lens=4))
    result = getattr(capture(plan)[0], method)()
    assert png(result.plot()).startswith(b"\x89PNG")
    assert result.title in result._repr_html_()
    assert "random weights" in result._repr_html_()
    assert len(result.to_pandas()) > 0
    assert repr(result).startswith("Result(")


class Reader:
    """Blocks of arrays, and how much was asked for."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays, self.bytes = arrays, 0

    def __call__(self, name: str, where: tuple[slice, ...]) -> np.ndarray:
        found = self.arrays[name][where]
        self.bytes += found.nbytes
        return found


def test_a_lazy_capture_reads_what_is_indexed_and_nothing_else() -> None:
    whole, arrays = capture(plan_of(sconv=True, attention=AttentionPlan(queries=(9, 30, 31), keep="whole", layers="all")))
    reader = Reader(arrays)
    cap = Capture.from_reader(whole.manifest, reader, whole.rendered)
    assert reader.bytes == 0
    repr(cap), cap._repr_html_()
    assert reader.bytes == 0
    one = cap.attention["weight"].sel(q=30, l=5).isel(h=slice(1, 3), t=slice(10, 20))
    np.testing.assert_array_equal(one.values, arrays["attention.weight"][1, 5, 1:3, 10:20])
    assert reader.bytes == one.nbytes
    data = arrays["sconv.by_tap"]
    for index in (np.s_[3], np.s_[3:9:2], np.s_[::-1], np.s_[-4:], np.s_[5:5], np.array([1, 7, 2])):
        np.testing.assert_array_equal(cap.sconv["by_tap"].isel(t=index).values, data[index])
    np.testing.assert_array_equal(cap.sconv["by_tap"].mean("t").values, whole.sconv["by_tap"].mean("t").values)


def test_a_capture_of_every_seam_round_trips_through_a_file_without_being_held(tmp_path: Path) -> None:
    plan = plan_of(
        sconv=SconvPlan(keep="channels", tokens=SOME), attention=AttentionPlan(queries=(9, 30)), routing=True,
        residual=ResidualPlan(keep="vectors"),
    )  # fmt: skip
    cap, arrays = capture(plan, rendered(repeat=3), load=False)
    again = Capture.load(cap.save(tmp_path / "run.zarr"))
    for seam in cap.seams:
        assert again.seams[seam].identical(cap.seams[seam]), seam
        assert list(again.seams[seam]) == list(cap.seams[seam])
    np.testing.assert_array_equal(again.sconv["channel_term"].values, arrays["sconv.channel_term"])
    assert again.sconv["t"].values.tolist() == [5, 6, *range(40, 60)]
    assert again.attention_by().data.identical(cap.attention_by().data)
