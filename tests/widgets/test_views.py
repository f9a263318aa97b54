"""The view classes without a page: what they take, what they refuse, one selection for all, and what they leave in a notebook."""

from __future__ import annotations

import re

import pytest
from traitlets import TraitError

from engine.protocol import AttentionPlan
from tests.fabricated_capture import capture as routing_capture
from tests.fabricated_insides import capture, plan_of
from widgets import AttentionView, Composer, RoutingMap, SconvView, SpanTable, link
from workbench import Context
from workbench.errors import SelectionError


@pytest.fixture(scope="module")
def cap():
    return capture(plan_of(attention=AttentionPlan(queries=(60, 150), layers="all"), sconv=True))[0]


def test_views_share_one_selection(cap):
    attention, sconv, table = AttentionView(cap), SconvView(cap), SpanTable(cap)
    links = link(attention, sconv, table, RoutingMap(routing_capture(cap.rendered)))
    sconv.selection = [60, 70]
    assert attention.selection == table.selection == [60, 70]
    links[0].unlink()
    with pytest.raises(ValueError, match="no token selection"):
        link(attention, Composer(Context()))


def test_what_is_not_there_is_refused_by_name(cap):
    attention, sconv = AttentionView(cap, query=1, layer=3, head=2), SconvView(cap, layer=2, site="v")
    assert (attention.query, attention.layer, attention.head, sconv.layer, sconv.site) == (1, 3, 2, 2, "v")
    for view, name, value in (
        (attention, "query", 2), (attention, "layer", 77), (attention, "head", 9), (sconv, "layer", 77), (sconv, "site", "q"),
        (attention, "selection", [5, 5]), (sconv, "window", [0, 9_999]), (sconv, "selection", [1]),
    ):  # fmt: skip
        with pytest.raises(SelectionError):
            setattr(view, name, value)
    with pytest.raises(TraitError):
        sconv.metric = "heat"
    with pytest.raises(SelectionError):
        AttentionView(cap, head=9)
    for make in (AttentionView, SconvView):
        with pytest.raises(TypeError, match="takes a Capture"):
            make("run.zarr")
    with pytest.raises(TypeError, match="takes a Context"):
        Composer("report.pdf")
    with pytest.raises(SelectionError, match="no sconv"):
        SconvView(routing_capture())
    with pytest.raises(SelectionError, match="engine= and reply="):
        attention.mask(0, 5)
    with pytest.raises(SelectionError, match="engine= and reply="):
        sconv.without("k")


def test_every_view_leaves_a_twin_and_says_what_it_is(cap):
    context = Context()
    context.ask("Which berth is free?")
    for view in (AttentionView(cap), SconvView(cap), Composer(context)):
        twin = view.twin_html()
        assert twin.startswith('<figure class="inkling-twin"')
        assert "<script" not in twin
        assert re.search(r'(alt|aria-label)="[^"]{20,}"', twin)
        assert len(twin) < 1_000_000
        assert "\n" not in repr(view)
    assert "token 60, layer 5, mean over heads" in repr(AttentionView(cap))


def test_the_composer_edits_the_callers_own_context():
    context = Context()
    composer = Composer(context)
    composer.session.edit("system", value="Answer briefly.")
    assert context.system == "Answer briefly."
    assert composer.state["settings"]["system"] == "Answer briefly."
    context.ask("Which berth is free?")
    assert composer.state["entries"] == []
    composer.refresh()
    assert [entry["name"] for entry in composer.state["entries"]] == ["question"]
    composer.close()
