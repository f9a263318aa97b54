"""The span table's data: columns that partition the tokens, excerpts, a twin that says what it leaves out."""

import json
import shutil
import subprocess

import numpy as np
import pytest

from tests.fabricated_capture import capture, rendered
from widgets import RoutingMap, SpanTable, link
from workbench import Context, span_views
from workbench.errors import SelectionError
from workbench.esm import widget_folder


@pytest.fixture(scope="module")
def cap():
    return capture()


def test_columns_say_what_the_spans_say(cap):
    state = span_views.traits(cap)
    starts = np.frombuffer(state["starts"], "<u4")
    assert starts.tolist() == [span.start for span in cap.spans]
    kinds = np.frombuffer(state["kinds"], np.uint8)
    assert [span_views.MODALITIES[kind] for kind in kinds] == [span.modality for span in cap.spans]
    stops = np.append(starts[1:], state["meta"]["tokens"])
    assert stops.tolist() == [span.stop for span in cap.spans]
    for (_, _, total), kind in zip(state["meta"]["modalities"], range(4), strict=True):
        assert total == (stops - starts)[kinds == kind].sum()


def test_places_in_words(cap):
    places = dict(zip([span.label for span in cap.spans], span_views.traits(cap)["meta"]["places"], strict=True))
    assert places["call.wav"] == "0.00 to 3.00 s"
    assert places["harbour.pdf, page 2"].startswith("page 2, characters 0 to ")
    assert "patches" in places["chart.png"]


def test_excerpts_come_from_the_tokens(cap):
    page = next(i for i, span in enumerate(cap.spans) if span.label == "harbour.pdf, page 1")
    reply, _ = span_views.answer(cap, {"id": 7, "verb": "excerpt", "args": {"index": page}})
    assert reply["ok"]
    assert reply["result"]["text"].startswith("Harbour report. The ferry leaves")
    image = next(i for i, span in enumerate(cap.spans) if span.modality == "image")
    assert span_views.answer(cap, {"id": 8, "verb": "excerpt", "args": {"index": image}})[0]["result"]["text"] == ""


@pytest.mark.parametrize(
    "request_", [None, {"id": 1}, {"id": 1, "verb": "rows"}, {"id": 1, "verb": "excerpt", "args": {"index": -1}},
                 {"id": 1, "verb": "excerpt", "args": {"index": 10_000}}, {"id": 1, "verb": "excerpt", "args": {"index": "x"}}],
)  # fmt: skip
def test_bad_questions_become_error_answers(cap, request_):
    reply, _ = span_views.answer(cap, request_)
    assert not reply["ok"]
    assert reply["error"]["message"]


def test_the_twin_says_what_it_leaves_out(monkeypatch, cap):
    framing = sum(len(span) for span in cap.spans if span.modality == "framing")
    assert f"Not shown: {framing} framing tokens." in span_views.twin_html(cap)
    monkeypatch.setattr(span_views, "TWIN_ROWS", 2)
    assert "3 more spans" in span_views.twin_html(cap)


def test_widget_takes_contexts_and_refuses_the_rest(cap):
    context = Context()
    context.add_document(b"A bold claim.", name="<script>.txt")
    context.ask("Why?")
    table = SpanTable(context)
    assert "<script>" not in table.twin_html()
    assert table.spans[-1].stop == len(context.render().token_ids)
    with pytest.raises(TypeError, match="not int"):
        SpanTable(3)
    with pytest.raises(SelectionError, match="within 0 to"):
        SpanTable(cap, selection=(3, 100_000))


def test_linked_widgets_share_the_selection(cap):
    table, routing = SpanTable(cap), RoutingMap(cap)
    made = link(table, routing)
    table.selection = [3, 9]
    assert routing.selection == [3, 9]
    routing.selection = []
    assert table.selection == []
    made[0].unlink()
    table.selection = [0, 1]
    assert routing.selection == []
    with pytest.raises(ValueError, match="different tokens"):
        link(table, SpanTable(rendered(repeat=3)))


@pytest.mark.skipif(shutil.which("node") is None, reason="no node on this machine")
def test_the_page_filters_by_kind_and_name(tmp_path, cap):
    state = span_views.traits(cap)
    labels, kinds = state["meta"]["labels"], np.frombuffer(state["kinds"], np.uint8).tolist()
    module = widget_folder("span_table") / "filter.js"
    script = tmp_path / "run.mjs"
    script.write_text(
        f"import {{ filterSpans }} from {json.dumps(module.as_uri())};\n"
        f"const [labels, kinds] = [{json.dumps(labels)}, Uint8Array.from({json.dumps(kinds)})];\n"
        "console.log(JSON.stringify([[[3], ''], [[], 'PAGE 2'], [[0, 1, 2, 3], '']].map(([hidden, text]) =>"
        " filterSpans(labels, kinds, new Set(hidden), text))));"
    )
    found = json.loads(subprocess.run(["node", script], capture_output=True, text=True, check=True).stdout)
    assert found == [
        [i for i, kind in enumerate(kinds) if kind != 3], [i for i, label in enumerate(labels) if "page 2" in label], [],
    ]  # fmt: skip
