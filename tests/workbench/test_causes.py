"""Comparisons and attributions: their numbers on captures that are known, and on the real engine that masking does what it says."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from engine.protocol import CapturePlan, MaskSpan, Span
from tests.fabricated_capture import capture, rendered
from workbench import Context, attribute, compare
from workbench.causes import AttributionProgress, masks_by
from workbench.comparisons import attention_shift, routing_overlap, token_scores
from workbench.errors import SelectionError
from workbench.figures import drawable, png
from workbench.interventions import ScaleSinks


def test_the_overlap_of_a_capture_with_itself_is_whole() -> None:
    found = routing_overlap(capture(), capture())
    assert found["overlap"].values.tolist() == [1.0] * 5
    np.testing.assert_allclose(found["weight"], 1.0, rtol=1e-6)


def test_overlap_is_what_a_loop_counts() -> None:
    left = capture(missing=slice(5, 9))
    routing = left.routing.copy(deep=True)
    for t, chosen in enumerate(routing["expert"].values[:, 2]):  # the second expert is another one for some tokens
        routing["expert"].values[t, 2, 1] = next(e for e in (t % 16, (t + 1) % 16, (t + 2) % 16) if e != chosen[0])
    right = dataclasses.replace(left, seams={"routing": routing.assign_attrs(left.routing.attrs)})
    found = routing_overlap(left, right)
    same, common, tokens = [], [], 0
    for t in range(len(left)):
        one, other = ({int(e): float(w) for e, w in zip(c.routing["expert"][t, 2], c.routing["weight"][t, 2], strict=True)}
                      for c in (left, right))  # fmt: skip
        sinks = float(left.routing["sink"][t, 2].sum())
        if 5 <= t < 9:
            continue
        tokens += 1
        same.append(len(set(one) & set(other)) / 2)
        total = sum(one.values()) + sinks
        common.append((sum(min(one[e], other[e]) for e in set(one) & set(other)) + sinks) / total)
    assert found["tokens"].values[2] == tokens
    assert found["overlap"].values[2] == pytest.approx(np.mean(same))
    assert found["weight"].values[2] == pytest.approx(np.mean(common), rel=1e-5)
    assert found["overlap"].values[1] == 1.0
    with pytest.raises(SelectionError, match="different tokens"):
        routing_overlap(left, capture(rendered(repeat=2)))


def test_any_text_can_be_drawn() -> None:
    reply = SimpleNamespace(token_ids=np.array([582, 200_000, 150_000, 60_321, 190_001], np.uint32))
    scores = token_scores(reply, np.zeros(5), np.linspace(-1, 1, 5))
    scores["text"].values[:] = ["$x^", "स\n", "\U0001f9ff", "⟨80⟩", " word"]
    assert png(scores.plot(), dpi=40)
    assert drawable("a $ स\nb" + "c" * 300, most=9) == r"a \$ ▯ bc…"


def test_the_shift_of_attention() -> None:
    import xarray as xr

    left = capture()
    row = np.zeros((1, 1, 2, 3))
    row[0, 0] = [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]
    moved = np.zeros((1, 1, 2, 3))
    moved[0, 0] = [[0.5, 0.0, 0.5], [1.0, 0.0, 0.0]]
    pair = [
        dataclasses.replace(left, seams={"attention": xr.Dataset({"weight": (("q", "l", "h", "span"), values)}, coords={"l": [5]})})
        for values in (row, moved)
    ]
    assert attention_shift(*pair)["shift"].values.ravel().tolist() == [0.5, 0.0]
    assert png(attention_shift(*pair).plot(), dpi=40)
    topk = [dataclasses.replace(left, seams={"attention": one.attention.rename(span="k")}) for one in pair]
    with pytest.raises(SelectionError, match="pooled"):
        attention_shift(*topk)


def test_masks_are_stretches_of_one_part() -> None:
    def span(start: int, stop: int, part: str | None, label: str, modality="text") -> Span:
        return Span(start=start, stop=stop, part=part, label=label, modality=modality, message=0)

    spans = [
        span(0, 2, None, "role", "framing"), span(2, 5, "doc", "a.pdf, page 1"), span(5, 9, "doc", "a.pdf, page 2"),
        span(9, 11, None, "end", "framing"), span(11, 20, "pic", "b.png", "image"), span(20, 22, None, "role", "framing"),
        span(22, 25, "doc", "a.pdf, page 3"), span(25, 27, None, "reply", "text"),
    ]  # fmt: skip
    masks = masks_by(spans, "part", sconv=False)
    assert masks == {
        "a.pdf, page 1": (MaskSpan(start=2, stop=9), MaskSpan(start=22, stop=25)), "b.png": (MaskSpan(start=11, stop=20),),
    }  # fmt: skip
    # What belongs to no part, framing and the reply itself, is never masked.
    assert masks_by(spans, "modality")["text"] == (MaskSpan(start=2, stop=9, sconv=True), MaskSpan(start=22, stop=25, sconv=True))
    assert len(masks_by(spans, "span")) == 4
    with pytest.raises(SelectionError, match="framing only"):
        masks_by(spans[:1], "part")


@pytest.mark.engine
def test_compare_and_attribute_on_the_engine(eng) -> None:
    context = Context()
    context.add_text("The code word of the day is heron. " * 6, name="note")
    context.add_text("Nothing to see here. " * 6, name="other")
    context.ask("Which word?")
    reply = eng.generate(context, max_tokens=6, temperature=0, logprobs=0)
    changed = eng.generate(context, max_tokens=6, temperature=0, interventions=[ScaleSinks(factor=0.0)])
    found = compare(reply, changed, engine=eng, plan=CapturePlan(routing=True))
    np.testing.assert_allclose(found.scores["base"], [item.logprob for item in reply.logprobs], atol=1e-4)
    assert found.interventions == ("all layers: sinks all × 0",)
    assert abs(found.shift) > 1e-3
    assert 0 < float(found.routing["overlap"].mean()) < 1
    assert "nats" in repr(found)
    assert png(found.plot(), dpi=40)
    assert compare(reply, reply, engine=eng).shift == pytest.approx(0, abs=1e-4)

    seen: list[AttributionProgress] = []
    lost = attribute(reply, by="part", engine=eng, progress=seen.append)
    assert (seen[0].done, seen[-1].done, seen[-1].total) == (0, lost.data.sizes["part"] + 1, lost.data.sizes["part"] + 1)
    assert [item.done for item in seen if item.prefill is None] == list(range(lost.data.sizes["part"] + 2))
    spans = eng.context_of(reply).spans
    note = next(span for span in spans if span.label == "note")
    alone = eng.score(reply, interventions=[MaskSpan(start=note.start, stop=note.stop, sconv=True)])
    expected = (found.scores["base"].values - alone).sum()
    assert lost["drop"].sel(part="note").item() == pytest.approx(expected, abs=1e-3)
    assert png(lost.plot(), dpi=40)

    class Enough(Exception):
        pass

    def stop(progress: AttributionProgress) -> None:
        if progress.done == 1:
            raise Enough

    with pytest.raises(Enough):
        attribute(reply, by="part", engine=eng, progress=stop)
    assert eng.status()["requests"] == []
    other = Context()
    other.ask("Something else?")
    with pytest.raises(SelectionError, match="different contexts"):
        compare(reply, eng.generate(other, max_tokens=2), engine=eng)
