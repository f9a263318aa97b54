"""The convolution view's answers, against the same sums by hand."""

from __future__ import annotations

import numpy as np
import pytest

from engine.protocol import SconvPlan
from tests.fabricated_capture import rendered
from tests.fabricated_insides import capture, plan_of
from workbench.captures import Capture
from workbench.sconv_views import SconvSubject, answer, traits

SOME = (5, 6, range(40, 140))


def subject(**options):
    cap, arrays = capture(plan_of(sconv=SconvPlan(**options)), rendered(repeat=2))
    return SconvSubject.of(cap), arrays


def ask(view, verb, **args):
    reply, buffers = answer(view, {"id": 1, "verb": verb, "args": args})
    assert reply["ok"], reply
    return reply["result"], buffers


@pytest.mark.parametrize("metric", ["ratio", "cosine", "tap"])
def test_a_strip_is_means_of_tokens_at_any_zoom(metric):
    view, arrays = subject()
    term, inputs, cosine = (arrays[f"sconv.{name}"][:, :, 3] for name in ("term", "input", "cosine"))
    want = {"ratio": term / inputs, "cosine": cosine, "tap": arrays["sconv.by_tap"][:, :, 3, 4 - 1 - 2] / term}[metric]
    tokens = len(view.capture)
    for start, stop, buckets in ((0, tokens, 7), (30, 50, 100), (13, 90, 10)):
        result, (values,) = ask(view, "strip", metric=metric, site="mlp", tap=2, start=start, stop=stop, buckets=buckets)
        low, high = result["limits"]
        shown = low + np.frombuffer(values, np.uint8).reshape(6, -1) / 254 * (high - low)
        for b in range(result["buckets"]):
            keys = slice(result["start"] + b * result["width"], result["start"] + (b + 1) * result["width"])
            mean = np.clip(want[keys].mean(0), low, high)
            # A colour index is a 254th of the scale: half of that is lost by rounding.
            np.testing.assert_allclose(shown[:, b], mean, atol=(high - low) / 254 * 0.51)


def test_tokens_that_were_not_recorded_are_missing_and_count_nowhere():
    view, _ = subject(tokens=SOME)
    result, (values,) = ask(view, "strip", metric="ratio", site="k", start=0, stop=80, buckets=80)
    grey = np.frombuffer(values, np.uint8).reshape(6, -1)[0] == 255
    assert np.flatnonzero(~grey).tolist() == [5, 6, *range(40, 80)]
    assert result["width"] == 1
    groups = ask(view, "taps", layer=2, site="v", start=0, stop=41)[0]["groups"]
    assert sum(group["tokens"] for group in groups) == 3


def test_taps_of_a_range_are_the_analysis_of_all_of_it():
    view, _ = subject()
    groups = ask(view, "taps", layer=4, site="attention", start=0, stop=len(view.capture))[0]["groups"]
    want = view.capture.sconv_taps("modality").data.sel(l=4, site="attention")
    assert {group["name"] for group in groups} == {str(name) for name in want["group"].values}
    for group in groups:
        one = want.sel(group=group["name"])
        assert group["ratio"] == pytest.approx(float(one["ratio"]), abs=1e-5)  # the page's numbers have five places
        assert group["cosine"] == pytest.approx(float(one["cosine"]), abs=1e-5)
        assert group["share"] == pytest.approx(one["share"].values[::-1].tolist(), abs=1e-5)


def test_kernels_are_their_weights_with_tap_0_first():
    view, arrays = subject()
    kernel = arrays["sconv.kernel"]  # (l, site, c, tap), the last tap is the current token's
    quantiles = np.frombuffer(traits(view)["kernels"], "<f4").reshape(6, 4, 4, 5)
    np.testing.assert_allclose(quantiles[3, 1, 0, 2], np.nanmedian(kernel[3, 1, :, 3]), rtol=1e-6)
    np.testing.assert_allclose(quantiles[3, 1, 2, 4], np.nanquantile(kernel[3, 1, :, 1], 0.9), rtol=1e-6)
    result, (values,) = ask(view, "kernel", layer=3, site="v")
    shown = np.frombuffer(values, "<f4").reshape(result["taps"], result["shown"])
    order = np.argsort(-np.abs(kernel[3, 1]).max(-1), kind="stable")
    np.testing.assert_array_equal(shown, kernel[3, 1][order].T[::-1])


def test_norms_alone_have_no_taps():
    view, _ = subject(keep="norms")
    assert traits(view)["meta"]["taps"] == 0
    assert ask(view, "taps", layer=0, site="k", start=0, stop=50)[0]["groups"][0]["share"] == []
    reply, _ = answer(view, {"id": 1, "verb": "strip", "args": {"metric": "tap", "site": "k", "start": 0, "stop": 5, "buckets": 5}})
    assert "by_tap" in reply["error"]["message"]


@pytest.mark.parametrize(
    ("verb", "args", "words"),
    [
        ("strip", {"metric": "ratio", "site": "q", "start": 0, "stop": 9, "buckets": 4}, "sites k, v, attention, mlp"),
        ("strip", {"metric": "heat", "site": "k", "start": 0, "stop": 9, "buckets": 4}, "no strip of 'heat'"),
        ("strip", {"metric": "tap", "site": "k", "tap": 4, "start": 0, "stop": 9, "buckets": 4}, "no tap 4"),
        ("kernel", {"layer": 99, "site": "k"}, "no convolution at layer 99"),
        ("token", {"t": 99_999}, "no tokens 99999"),
        ("without", {"sites": []}, "choose some of"),
        ("without", {"sites": ["k"]}, "engine= and reply="),
    ],
)
def test_what_cannot_be_answered_says_why(verb, args, words):
    reply, buffers = answer(subject()[0], {"id": 4, "verb": verb, "args": args})
    assert (reply["ok"], buffers) == (False, [])
    assert words in reply["error"]["message"]


def test_an_overview_is_kept_beside_the_capture_and_is_never_of_another(tmp_path, monkeypatch):
    cap, _ = capture(plan_of(sconv=True))
    path = cap.save(tmp_path / "run.zarr")
    asked = {"id": 1, "verb": "strip", "args": {"metric": "ratio", "site": "mlp", "start": 0, "stop": len(cap), "buckets": 50}}

    def look(source):
        subject = SconvSubject.of(source)
        return traits(subject)["kernels"], answer(subject, asked)

    first = look(Capture.load(path))
    assert {item.name for item in (path / "overview").iterdir()} == {"sconv-kernels.npz", "sconv-ratio-mlp-0.npz"}
    walked = []
    monkeypatch.setattr("workbench.sconv_windows.build", lambda *_, **__: walked.append(1))
    assert look(Capture.load(path)) == first  # nothing was walked
    assert not walked
    monkeypatch.undo()

    # Files of another capture, and damaged ones, are passed over and made anew.
    (path / "overview" / "sconv-kernels.npz").write_bytes(b"damaged")
    other, _ = capture(plan_of(sconv=True), seed=5)
    there = other.save(tmp_path / "other.zarr")
    (there / "overview").mkdir()
    (there / "overview" / "sconv-ratio-mlp-0.npz").write_bytes((path / "overview" / "sconv-ratio-mlp-0.npz").read_bytes())
    assert look(Capture.load(path)) == first
    monkeypatch.setattr("workbench.overviews.Overviews._read", lambda *_: None)
    fresh = look(Capture.load(there))
    monkeypatch.undo()
    assert fresh != first
    assert look(Capture.load(there)) == fresh
