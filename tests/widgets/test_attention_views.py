"""The attention view's answers, against the same sums by hand, for every way of keeping rows."""

from __future__ import annotations

import numpy as np
import pytest

from engine.protocol import AttentionPlan
from tests.fabricated_insides import capture, plan_of
from workbench import Context
from workbench.attention_views import AttentionSubject, answer, part_rows, traits

KEEPS = ("pooled", "topk", "whole")
QUERIES = (60, 150, 151)


def subject(keep: str, **options):
    cap, arrays = capture(plan_of(attention=AttentionPlan(queries=QUERIES, layers="all", keep=keep, profiles=True, **options)))
    return AttentionSubject.of(cap), arrays


def ask(view: AttentionSubject, verb: str, **args):
    reply, buffers = answer(view, {"id": 1, "verb": verb, "args": args})
    assert reply["ok"], reply
    return reply["result"], [np.frombuffer(buffer, "<f4") for buffer in buffers]


@pytest.mark.parametrize("head", [-1, 2])
def test_a_whole_row_is_summed_into_buckets_at_any_zoom(head):
    view, arrays = subject("whole")
    heads = slice(None) if head < 0 else slice(head, head + 1)
    weight, content = (arrays[f"attention.{name}"][1, 5, heads].astype(np.float64) for name in ("weight", "content"))
    tokens = weight.shape[-1]
    for start, stop, buckets in ((0, tokens, 10), (7, 61, 9), (30, 40, 100)):
        result, (values,) = ask(view, "row", query=1, layer=5, head=head, start=start, stop=stop, buckets=buckets)
        values = values.reshape(3, -1)
        assert result["start"] % result["width"] == 0
        assert result["start"] <= start < result["start"] + result["width"]
        for b in range(result["buckets"]):
            keys = slice(result["start"] + b * result["width"], result["start"] + (b + 1) * result["width"])
            mean = weight[:, keys].sum(-1).mean()
            np.testing.assert_allclose(values[0, b], mean, rtol=1e-5)
            np.testing.assert_allclose(values[1, b], (weight * content)[:, keys].sum(-1).mean() / mean, rtol=1e-5)


def test_a_pooled_row_says_how_fine_it_is_and_keeps_its_sums():
    view, arrays = subject("pooled", buckets=50)
    width = view.windows.finest_tokens
    assert width == -(-len(view.capture) // 50) > 1
    result, (values,) = ask(view, "row", query=0, layer=3, head=1, start=0, stop=len(view.capture), buckets=4_000)
    assert result["width"] == width
    np.testing.assert_allclose(values.reshape(3, -1)[0], arrays["attention.bucket_weight"][0, 3, 1], rtol=1e-6)
    with np.errstate(invalid="ignore"):
        mean = arrays["attention.bucket_bias"][0, 3, 1] / arrays["attention.bucket_weight"][0, 3, 1]
    np.testing.assert_allclose(values.reshape(3, -1)[2], mean, rtol=1e-5)


def test_a_row_of_the_largest_keys_lies_where_they_are():
    view, arrays = subject("topk")
    tokens = len(view.capture)
    _, (values,) = ask(view, "row", query=2, layer=4, head=-1, start=0, stop=tokens, buckets=tokens)
    want = np.zeros(tokens)
    np.add.at(want, arrays["attention.key"][2, 4].ravel(), arrays["attention.weight"][2, 4].ravel() / 4)
    row = values.reshape(3, -1)[0]
    np.testing.assert_allclose(np.nan_to_num(row), want, rtol=1e-5)
    assert np.array_equal(np.isnan(row), want == 0)


@pytest.mark.parametrize("keep", KEEPS)
def test_parts_share_what_the_analysis_says(keep):
    view, _ = subject(keep)
    rows = ask(view, "parts", query=1, layer=5, head=2)[0]["rows"]
    want = view.capture.attention_by("part")["weight"].sel(q=150, l=5).isel(h=2)
    found = {row["label"]: row["weight"] for row in rows}
    assert [row["weight"] for row in rows] == sorted(found.values(), reverse=True)
    for name, value in zip(want["group"].values, want.values, strict=True):
        if name in found:
            # The page's numbers are rounded to six places.
            assert found[str(name)] == pytest.approx(float(value), abs=2e-6)
    assert {"chart.png", "call.wav", "question"} <= set(found)


@pytest.mark.parametrize("keep", KEEPS)
def test_the_heads_weight_on_a_range_is_its_sum(keep):
    view, arrays = subject(keep)
    image = next(span for span in view.capture.spans if span.modality == "image")
    _, (values,) = ask(view, "heads", query=1, start=image.start, stop=image.stop)
    selected = values.reshape(5, 6, 4)[0]
    weight = arrays["attention.weight"][1].astype(np.float64)
    if keep == "topk":
        key = arrays["attention.key"][1]
        want = np.where((key >= image.start) & (key < image.stop), weight, 0).sum(-1)
    elif keep == "whole":
        want = weight[..., image.start : image.stop].sum(-1)
    else:
        want = weight[..., view.capture.spans.index(image)]
    np.testing.assert_allclose(selected, want, rtol=1e-5, atol=1e-7)
    assert np.isnan(np.frombuffer(traits(view)["measures"], "<f4").reshape(5, 6, 4)[0]).all()


def test_tokens_media_and_profiles_are_those_of_the_row():
    view, arrays = subject("whole")
    image = next(span for span in view.capture.spans if span.modality == "image")
    result, (weights,) = ask(view, "tokens", query=0, layer=2, head=3, start=image.start, stop=image.stop)
    np.testing.assert_allclose(weights, arrays["attention.weight"][0, 2, 3, image.start : image.stop], rtol=1e-6)
    assert result["texts"] == [""] * len(image)
    result, buffers = ask(view, "media", index=0)
    assert (result["kind"], result["rows"] * result["cols"], buffers) == ("image", len(image), [])
    result, (bank, mixed) = ask(view, "profile", query=0, layer=5)
    np.testing.assert_array_equal(bank.reshape(3, -1), arrays["attention.bank"][5][:, : result["reach"]])
    np.testing.assert_array_equal(mixed.reshape(4, -1), arrays["attention.profile"][0, 5][:, : result["reach"]])


@pytest.mark.parametrize(
    ("verb", "args", "words"),
    [
        ("row", {"query": 9, "layer": 5, "head": 0, "start": 0, "stop": 9, "buckets": 4}, "no query 9"),
        ("row", {"query": 0, "layer": 77, "head": 0, "start": 0, "stop": 9, "buckets": 4}, "layer 77 was not recorded"),
        ("row", {"query": 0, "layer": 5, "head": 9, "start": 0, "stop": 9, "buckets": 4}, "head 9 was not recorded"),
        ("row", {"query": 0, "layer": 5, "head": 0, "start": 5, "stop": 5, "buckets": 4}, "no keys 5 to 5"),
        ("row", {"query": 0, "layer": 5, "head": 0, "start": 0, "stop": 9, "buckets": 99_999}, "99999 buckets"),
        ("media", {"index": 7}, "no picture or recording 7"),
        ("mask", {"ranges": [[0, 5]]}, "engine= and reply="),
    ],
)
def test_what_cannot_be_answered_says_why(verb, args, words):
    reply, buffers = answer(subject("whole")[0], {"id": 4, "verb": verb, "args": args})
    assert (reply["id"], reply["ok"], buffers) == (4, False, [])
    assert words in reply["error"]["message"]


def test_a_document_with_a_name_and_page_marks_is_a_document_not_framing():
    context = Context()
    context.add_document(b"The ferry leaves at seven. " * 20, name="note.txt")
    context.ask("When?")
    found = context.render()
    assert any(span.part and span.modality == "framing" for span in found.spans)  # the name, the marks
    plan = plan_of(attention=AttentionPlan(queries="last", layers="all", keep="whole"))
    view = AttentionSubject.of(capture(plan, found)[0])
    rows = {row["label"]: row["modality"] for row in part_rows(view, 0, int(view.windows.layers[0]), -1)}
    assert rows["note.txt"] == "text"
    assert rows["framing"] == "framing"
