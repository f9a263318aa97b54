"""Regions, differences and favourites of the routing map, against sums by hand; and questions that are asked twice."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fabricated_capture import ROUTE_SCALE, capture, rendered
from widgets import RoutingMap, SpanTable
from workbench import Context, routing
from workbench.errors import SelectionError
from workbench.routing_answers import answer
from workbench.routing_windows import RoutingWindows


@pytest.fixture(scope="module")
def cap():
    return capture(rendered(repeat=190))


@pytest.fixture(scope="module")
def other():
    return capture(rendered(repeat=190), missing=slice(5, 9))


def ask(cap, verb, other=None, **args):
    reply, buffers = answer(cap, {"id": 1, "verb": verb, "args": args}, other)
    assert reply["ok"], reply
    return reply["result"], [np.frombuffer(item, "<f4") for item in buffers]


def test_a_region_is_the_tokens_of_its_ranges(cap):
    image = next(span for span in cap.spans if span.modality == "image")
    ranges = [[image.start + row * 10 + 2, image.start + row * 10 + 6] for row in range(1, 4)]
    result, (share, chosen, _) = ask(cap, "range", start=0, stop=1, ranges=ranges)
    tokens = np.concatenate([np.arange(*pair) for pair in ranges])
    expert, weight = cap.routing["expert"].values[tokens], cap.routing["weight"].values[tokens] / ROUTE_SCALE
    want = np.stack([np.where(expert == e, weight, 0).sum(-1).mean(0) for e in range(16)], 1)
    np.testing.assert_allclose(share.reshape(want.shape), want, atol=1e-6)  # one float32 rounding of a mean
    count = np.stack([(expert == e).any(-1).mean(0) for e in range(16)], 1)
    np.testing.assert_allclose(chosen.reshape(count.shape), count, atol=1e-6)
    entropy = routing.entropy_bits(cap.routing["weight"].values[tokens])
    assert result["entropy_bits"] == pytest.approx(entropy.mean(dtype=float), abs=1e-5)  # sent with five decimals


@pytest.mark.parametrize("bad", [[[5, 9], [7, 10]], [[9, 12], [1, 3]], [[0, 10**9]], [[4, 4]]])
def test_ranges_that_are_no_region_are_refused(cap, bad):
    reply, _ = answer(cap, {"id": 1, "verb": "range", "args": {"start": 0, "stop": 1, "ranges": bad}})
    assert not reply["ok"]
    with pytest.raises(SelectionError):
        RoutingMap(cap).region = bad


@pytest.mark.parametrize("where", [(0, 1), (3, 50), (16, 8_000), (5, 8_011), (0, None)])
def test_the_mean_of_a_range_is_exact(cap, monkeypatch, where):
    monkeypatch.setattr("workbench.routing_windows.SMALL_TOKENS", 10)  # buckets of 16 tokens, as of a long capture
    windows = RoutingWindows(cap.routing)
    start, stop = where[0], where[1] or len(cap)
    values = routing.per_token(cap.routing, start, stop)
    for metric, name in (("entropy", "entropy"), ("sink", "sink_mass")):
        mean, count = windows.mean(metric, start, stop)
        assert mean == pytest.approx(float(values[name].values.mean(dtype=float)), rel=1e-6)
        assert count == values[name].size


def test_a_difference_is_this_minus_the_other(cap, other):
    view = RoutingMap(cap, against=other)
    assert view.difference
    assert view.meta["against"]["same_tokens"]
    _, (share, _, _) = ask(cap, "against", other, start=0, stop=20)
    np.testing.assert_allclose(share, routing.load(other.routing, start=0, stop=20)["share"].values.ravel(), atol=1e-6)
    reply, (strip,) = answer(
        cap,
        {"id": 1, "verb": "strip", "args": {"metric": "sink", "start": 0, "stop": 16, "buckets": 16, "difference": True}},
        other,
    )
    assert reply["ok"]
    values = np.frombuffer(strip, np.uint8).reshape(5, -1)[:, :16]
    assert (values[:, 5:9] == 255).all()  # of tokens that one of them does not have nothing is known
    assert (np.delete(values, slice(5, 9), axis=1) == 127).all()  # the same routing: zero is the middle


def test_captures_of_other_tokens_are_compared_by_their_loads_alone(cap):
    short = capture(rendered())
    view = RoutingMap(cap, against=short)
    assert not view.meta["against"]["same_tokens"]
    _, (share, _, _) = ask(cap, "against", short, start=0, stop=20)
    np.testing.assert_allclose(share, routing.load(short.routing)["share"].values.ravel(), atol=1e-6)
    asked = {"metric": "sink", "start": 0, "stop": 16, "buckets": 16, "difference": True}
    reply, _ = answer(cap, {"id": 1, "verb": "strip", "args": asked}, short)
    assert "different tokens" in reply["error"]["message"]
    with pytest.raises(SelectionError, match="different routers"):
        RoutingMap(cap, against=capture(experts=8))
    with pytest.raises(SelectionError, match="no other capture"):
        RoutingMap(cap).difference = True


def test_favourites_of_all_kinds_are_those_that_python_gives(cap):
    result, _ = ask(cap, "favourites", layer=2, expert=3)
    view = cap.expert(2, 3)
    for kind, found in (("passages", view.passages(5)), ("patches", view.patches(5)), ("frames", view.frames(5))):
        mine = [row["start"] for row in result["rows"] if row["kind"] == kind]
        assert mine == found.data["start"].values.tolist()
    reply, _ = answer(cap, {"id": 1, "verb": "favourites", "args": {"layer": 99, "expert": 3}})
    assert "no routing in this capture" in reply["error"]["message"]


def test_a_question_that_comes_twice_is_done_once():
    context = Context()
    context.ask("Which berth is free?")
    table, done, sent = SpanTable(context), [], []
    table._answer = lambda request: (done.append(request["id"]), ({"id": request["id"], "ok": True, "result": len(done)}, []))[1]
    table.send = lambda content, buffers=None: sent.append(content["result"])
    for name in ("a", "a", "b", "a"):
        table._asked(table, {"id": name, "verb": "excerpt"}, [])
    assert done == ["a", "b"]
    assert sent == [1, 1, 2, 1]
    table._asked(table, {"id": "c", "verb": "alive"}, [])
    assert sent[-1] == {}
