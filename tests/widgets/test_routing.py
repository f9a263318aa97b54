"""Routing in numbers: against plain loops, and the sums that must hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fabricated_capture import ROUTE_SCALE, capture, rendered
from workbench import routing, routing_levels, routing_views
from workbench.errors import SelectionError
from workbench.routing_windows import RoutingWindows


@pytest.fixture(scope="module")
def cap():
    return capture(rendered(repeat=4))


def test_loads_sum_to_k_times_tokens_and_shares_to_one(cap):
    found = routing.load(cap.routing)
    assert (found["count"].sum("e") == 2 * len(cap)).all()
    total = found["share"].sum("e") + found["sink"].sum("s")
    # Shares are float64 sums of float32 weights divided by their own float32 sum: one rounding per token, averaged.
    np.testing.assert_allclose(total, 1, atol=1e-6)


def test_load_equals_a_plain_count(cap):
    found = routing.load(cap.routing, start=7, stop=60)
    expert, weight = cap.routing["expert"].values, cap.routing["weight"].values
    count, share = np.zeros((5, 16), int), np.zeros((5, 16))
    for t in range(7, 60):
        for layer in range(5):
            for k in range(2):
                count[layer, expert[t, layer, k]] += 1
                share[layer, expert[t, layer, k]] += weight[t, layer, k] / ROUTE_SCALE
    assert np.array_equal(found["count"], count)
    np.testing.assert_allclose(found["share"], share / 53, atol=1e-6)  # ROUTE_SCALE is the float32 sum to within an ulp


@pytest.mark.parametrize("by", ["modality", "part", "span"])
def test_groups_add_up_to_the_whole(cap, by):
    groups = routing.load_by(cap.routing, cap.spans, by)
    assert np.array_equal(groups["count"].sum(by), routing.load(cap.routing)["count"])
    assert (groups["tokens"].sum(by) == len(cap)).all()
    if by == "modality":
        assert groups["modality"].values.tolist() == ["framing", "text", "image", "audio"]
        audio = next(s for s in cap.spans if s.modality == "audio")
        alone = routing.load(cap.routing, start=audio.start, stop=audio.stop)
        np.testing.assert_allclose(groups["share"].sel(modality="audio"), alone["share"], rtol=1e-12)


def test_entropy_and_sink_mass_per_token(cap):
    found = routing.per_token(cap.routing)
    weight, sink = cap.routing["weight"].values.astype(float), cap.routing["sink"].values.astype(float)
    p = weight / weight.sum(-1, keepdims=True)
    # float32 logarithm and sum of two terms against float64.
    np.testing.assert_allclose(found["entropy"], -(p * np.log2(p)).sum(-1), atol=2e-6)
    np.testing.assert_allclose(found["sink_mass"], sink.sum(-1) / ROUTE_SCALE, atol=1e-6)


def test_rows_never_written_count_nowhere():
    partial = capture(missing=slice(10, 20))
    found = routing.load(partial.routing)
    assert (found["tokens"] == len(partial) - 10).all()
    assert (found["count"].sum("e") == 2 * (len(partial) - 10)).all()
    values = routing.per_token(partial.routing)
    assert np.isnan(values["entropy"].values[10:20]).all()
    assert not np.isnan(np.delete(values["sink_mass"].values, slice(10, 20), axis=0)).any()


@pytest.mark.parametrize("bad", [(-1, 5), (5, 5), (9, 3), (0, 10**9)])
def test_a_range_outside_is_refused(cap, bad):
    with pytest.raises(SelectionError, match="not a range"):
        routing.load(cap.routing, start=bad[0], stop=bad[1])


def test_an_unknown_layer_or_expert_is_refused(cap):
    with pytest.raises(SelectionError, match="layers with routing"):
        routing.expert_share(cap.routing, 0, 0)
    with pytest.raises(SelectionError, match="experts 0 to 15"):
        routing.expert_share(cap.routing, 1, 16)


@settings(deadline=None, max_examples=60)
@given(
    tokens=st.integers(1, 700), base=st.sampled_from([1, 2, 16]), seed=st.integers(0, 9), gaps=st.booleans(),
    cut=st.integers(1, 20), top=st.sampled_from([2, 8, 512]),
)  # fmt: skip
def test_every_level_has_the_same_total_and_a_true_maximum(tokens, base, seed, gaps, cut, top):
    rng = np.random.default_rng(seed)
    # Multiples of 1/64 are summed without rounding, so "equal" can mean equal.
    values = (rng.integers(0, 64, (tokens, 3)) / 64).astype(np.float32)
    if gaps:
        values[rng.random((tokens, 3)) < 0.2] = np.nan
    step = base * cut
    previous, routing_levels.TOP_BUCKETS = routing_levels.TOP_BUCKETS, top
    try:
        pyramid = routing_levels.build((values[at : at + step] for at in range(0, tokens, step)), base=base)
    finally:
        routing_levels.TOP_BUCKETS = previous
    for level in pyramid.levels:
        assert np.array_equal(level.total.sum(0), np.nansum(values.astype(float), axis=0))
        assert np.array_equal(level.count.sum(0), (~np.isnan(values)).sum(0))
        for b in range(len(level.total)):
            rows = values[b * level.width : (b + 1) * level.width]
            for column in range(3):
                kept = rows[:, column][~np.isnan(rows[:, column])]
                if len(kept) == 0:
                    assert level.where[b, column] == -1
                    continue
                assert level.largest[b, column] == kept.max()
                assert level.where[b, column] == b * level.width + int(np.nanargmax(rows[:, column]))
                assert level.mean[b, column] == np.float32(kept.astype(float).sum() / len(kept))


@settings(deadline=None, max_examples=60)
@given(data=st.data(), metric=st.sampled_from(["entropy", "sink", "expert"]), stat=st.sampled_from(["mean", "max"]))
def test_a_window_equals_the_tokens_it_covers(data, metric, stat):
    cap = _CAP
    start = data.draw(st.integers(0, len(cap) - 1))
    stop = data.draw(st.integers(start + 1, len(cap)))
    buckets = data.draw(st.integers(1, 50))
    windows = RoutingWindows.of(cap)
    strip = windows.strip(metric, start, stop, buckets, stat=stat, layer=3, expert=4)
    values = {
        "entropy": lambda: routing.per_token(cap.routing)["entropy"].values,
        "sink": lambda: routing.per_token(cap.routing)["sink_mass"].values,
        "expert": lambda: routing.expert_share(cap.routing, 3, 4)[:, None],
    }[metric]()
    assert strip.start <= start
    assert strip.values.shape[1] <= buckets + 1
    assert strip.start + strip.width_tokens * strip.values.shape[1] >= stop
    for b in range(strip.values.shape[1]):
        rows = values[strip.start + b * strip.width_tokens : strip.start + (b + 1) * strip.width_tokens]
        expected = rows.mean(0, dtype=np.float64) if stat == "mean" else rows.max(0)
        np.testing.assert_allclose(strip.values[:, b], expected, rtol=1e-6)  # one float32 rounding of a float64 mean


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_the_load_of_a_window_equals_the_load_of_its_tokens(data):
    cap = _CAP
    start = data.draw(st.integers(0, len(cap) - 1))
    stop = data.draw(st.integers(start + 1, len(cap)))
    quick, plain = RoutingWindows.of(cap).load(start, stop), routing.load(cap.routing, start=start, stop=stop)
    assert np.array_equal(quick["count"], plain["count"])
    np.testing.assert_allclose(quick["share"], plain["share"], rtol=1e-5, atol=1e-9)  # block sums are kept as float32
    np.testing.assert_allclose(quick["sink"], plain["sink"], rtol=1e-5)


def test_a_million_tokens_agree_from_the_top_to_one_token():
    cap = capture(rendered(repeat=22_800), layers=3, experts=8, top_k=2, sinks=2)
    assert len(cap) > 1_000_000
    windows = RoutingWindows.of(cap)
    assert (windows.load()["count"].sum("e") == 2 * len(cap)).all()
    whole = windows.strip("sink", 0, len(cap), 1_000)
    assert whole.values.shape[1] <= 1_001
    assert whole.values.nbytes < 1_000_000
    true = routing.per_token(cap.routing)["sink_mass"].values
    last = len(cap) - whole.start - whole.width_tokens * (whole.values.shape[1] - 1)
    weights = np.r_[np.full(whole.values.shape[1] - 1, whole.width_tokens), last]
    np.testing.assert_allclose((whole.values * weights).sum(1) / len(cap), true.mean(0, dtype=np.float64), rtol=1e-6)
    one = windows.strip("sink", 700_001, 700_002, 1_000)
    assert (one.start, one.width_tokens) == (700_001, 1)
    assert np.array_equal(one.values[:, 0], true[700_001])
    peak = windows.pyramids["sink"].levels[-1]
    assert np.array_equal(peak.where[peak.largest.argmax(0), np.arange(3)], true.argmax(0))


_CAP = capture(rendered(repeat=190))


def test_a_long_capture_asks_for_its_parts_and_a_short_one_brings_them(monkeypatch):
    cap = capture()
    short = routing_views.traits(cap)["meta"]["parts"]
    monkeypatch.setattr(routing_views, "SMALL_TOKENS", 10)
    assert routing_views.traits(cap)["meta"]["parts"] is None
    assert routing_views.traits(cap, parts=True)["meta"]["parts"] == short
    reply, _ = routing_views.answer(cap, {"id": 1, "verb": "parts"})
    assert reply["result"]["parts"] == short


def test_the_picture_of_two_captures_shows_their_difference(cap):
    """The twin's own numbers: shares minus shares, and the strip only of the same tokens."""
    from matplotlib.image import AxesImage

    from workbench.figures import png
    from workbench.figures.routing import routing_map

    def images(figure):
        return [np.asarray(image.get_array()) for axes in figure.axes for image in axes.get_children() if type(image) is AxesImage]

    same = capture(cap.rendered, missing=slice(20, 25))
    figure = routing_map(cap, against=same)
    load, strip = images(figure)
    more = routing.load(cap.routing)["share"].values - routing.load(same.routing)["share"].values
    np.testing.assert_allclose(load, more * 100)
    assert np.abs(load).max() > 0
    assert load.min() < 0
    mass = np.ma.masked_invalid(strip)
    assert np.abs(mass[:, :20]).max() == 0, "the same capture, but for what was not written"
    assert mass.mask[:, 20:25].all()
    assert png(figure, dpi=60).startswith(b"\x89PNG")

    elsewhere = capture(rendered(repeat=1))
    (load,) = images(routing_map(cap, against=elsewhere))
    theirs = routing.load(elsewhere.routing)["share"].values
    np.testing.assert_allclose(load, (routing.load(cap.routing)["share"].values - theirs) * 100)

    from widgets import RoutingMap

    view = RoutingMap(cap, against=same)
    assert "more than" in view.twin_html()
    difference = view.snapshot()
    view.difference = False
    assert view.snapshot() != difference
    assert "more than" not in view.twin_html()
