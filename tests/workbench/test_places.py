"""From tokens to places and back, one at a time and all at once; quotes; proofs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.protocol import AudioPlace, EngineInfo, ImagePlace, Limits, TextPlace
from tests.workbench.mixed_contexts import builders
from tests.workbench.samples_of import noise_image, tone
from workbench import Context
from workbench.errors import SelectionError
from workbench.parts import DocumentPart, Page
from workbench.place_tokens import tokens_of_box, tokens_of_points, tokens_of_text, tokens_of_time
from workbench.token_places import locate, places_of, quotes
from workbench.tokens import decode

BUILDERS = builders()
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)


@pytest.mark.parametrize("name", ["everything", "scanned pdf", "docx and xlsx", "samples", "prose", "two turns"])
def test_all_at_once_equals_one_at_a_time(name: str, tmp_path: Path) -> None:
    rendered = BUILDERS[name](tmp_path).render()
    places = places_of(rendered)
    for t in range(len(rendered)):
        found = locate(rendered, t)
        match found:
            case TextPlace(start=start, stop=stop, page=page):
                assert places.chars[t].tolist() == [start, stop]
            case ImagePlace(row=row, col=col, page=page):
                assert places.patch[t].tolist() == [row, col]
                assert tuple(places.box_px[t].tolist()) == found.box_px
            case AudioPlace(start_s=start_s, stop_s=stop_s):
                assert places.seconds[t].tolist() == pytest.approx([start_s, stop_s])
                page = None
            case _:
                page = None
                assert places.chars[t].tolist() == places.patch[t].tolist() == [-1, -1]
        assert places.page[t] == (page or -1)
        assert rendered.spans[places.span[t]].start <= t < rendered.spans[places.span[t]].stop
    some = places_of(rendered, [5, 3, 5])
    assert some.t.tolist() == [5, 3, 5]
    assert (some.chars == places.chars[[5, 3, 5]]).all()


@given(st.lists(TEXT, min_size=1, max_size=4), st.data())
@settings(deadline=None)
def test_text_goes_there_and_back(pages: list[str], data: st.DataObject) -> None:
    part = DocumentPart(name="d.pdf", pages=tuple(Page(text=text, number=n) for n, text in enumerate(pages, 1)))
    context = Context()
    context.add_text("before")
    context.add(part)
    rendered = context.render()
    number = data.draw(st.integers(1, len(pages)))
    places = places_of(rendered)
    mine = np.flatnonzero((places.page == number) & (places.chars[:, 0] >= 0))
    for t in mine.tolist():
        start, stop = places.chars[t].tolist()
        assert 0 <= start < stop <= len(pages[number - 1])
        first, last = tokens_of_text(rendered, part.id, start, stop, page=number)[0].tolist()
        assert first <= t < last
        said = decode(rendered.token_ids[t : t + 1])
        if "\ufffd" not in said and t < mine[-1]:
            assert quotes(context, rendered, [t]) == [said]
    # Together the tokens of a page quote all of it, save what a token of the mark before it took along.
    if len(mine):
        assert places.chars[mine[-1], 1] == len(pages[number - 1])


def test_patches_go_there_and_back() -> None:
    context = Context()
    part = context.add_image(noise_image(130, 90))
    rendered = context.render()
    places = places_of(rendered)
    mine = np.flatnonzero(places.patch[:, 0] >= 0)
    boxes = places.box_px[mine]
    shown = (boxes[:, 0] < boxes[:, 2]) & (boxes[:, 1] < boxes[:, 3])
    middles = (boxes[shown, :2] + boxes[shown, 2:]) / 2
    assert (tokens_of_points(rendered, part.id, middles) == mine[shown]).all()
    # In the picture's own pixels, before the engine's resize.
    assert (tokens_of_points(rendered, part.id, middles / 2, size_px=(130, 90)) == mine[shown]).all()
    touched = tokens_of_box(rendered, part.id, (39, 39, 41, 41))
    assert places.patch[touched].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    with pytest.raises(SelectionError, match="outside"):
        tokens_of_points(rendered, part.id, [(1000, 1)])
    with pytest.raises(SelectionError, match="nothing of the picture"):
        tokens_of_box(rendered, part.id, (900, 0, 901, 1))


def test_seconds_go_there_and_back() -> None:
    context = Context()
    part = context.add_audio(tone(1.03), rate_hz=16_000)
    rendered = context.render()
    places = places_of(rendered)
    mine = np.flatnonzero(~np.isnan(places.seconds[:, 0]))
    found = tokens_of_time(rendered, part.id, places.seconds[mine, 0], places.seconds[mine, 1])
    assert (found[:, 0] == mine).all()
    assert (found[:, 1] == mine + 1).all()
    assert tokens_of_time(rendered, part.id, 0.1, 0.2).tolist() == [[mine[2], mine[4]]]
    with pytest.raises(SelectionError, match=r"this recording has 0 s to 1\.03 s"):
        tokens_of_time(rendered, part.id, 0.5, 2)


def test_the_second_of_two_equal_parts_is_found_by_its_occurrence() -> None:
    context = Context()
    one = context.add_text("the same words")
    context.ask("and?")
    context.add_text("the same words")
    rendered = context.render()
    first = tokens_of_text(rendered, one.id, 0, 3)[0, 0]
    second = tokens_of_text(rendered, one.id, 0, 3, occurrence=1)[0, 0]
    assert second > first
    assert rendered.token_ids[first] == rendered.token_ids[second]
    with pytest.raises(SelectionError, match="stands there 2 times"):
        tokens_of_text(rendered, one.id, 0, 3, occurrence=2)
    with pytest.raises(SelectionError, match="this text has 0 to 14"):
        tokens_of_text(rendered, one.id, 0, 99)
    with pytest.raises(SelectionError, match="no such place"):
        tokens_of_text(rendered, "sha256:none", 0, 1)


def test_quotes_of_every_kind_of_text(tmp_path: Path) -> None:
    context = BUILDERS["everything"](tmp_path)
    rendered = context.render()
    places = places_of(rendered)
    text = np.flatnonzero(places.chars[:, 0] >= 0)
    said = quotes(context, rendered, text)
    wrong = [
        (t, quote) for t, quote in zip(text.tolist(), said, strict=True)
        if "\ufffd" not in decode(rendered.token_ids[t : t + 1]) and decode(rendered.token_ids[t : t + 1]) != quote
        and rendered.spans[places.span[t]].part not in ("effort", "tools")
    ]  # fmt: skip
    # Only a token that runs over the end of its piece quotes less than it spells.
    assert all(t + 1 == rendered.spans[places.span[t]].stop for t, _ in wrong)
    with pytest.raises(IndexError, match="not all inside"):
        places_of(rendered, [len(rendered)])


def test_a_proof_names_what_differs() -> None:
    context = Context(effort="low")
    context.add_text("one", name="first")
    context.add_image(noise_image(50, 50))
    proof = context.proof()
    assert proof.context == context.render().id
    assert proof.tokens == len(context.render())
    assert sum(part.tokens for part in proof.parts) + 1 == proof.tokens
    assert [part.name for part in proof.parts] == ["effort", "first", "image"]
    assert proof.tokenizer.startswith("tml-renderers/0.2.1 o200k_base ")
    assert proof.differs(context.copy().proof()) == ()
    assert proof.differs(context.render()) == ()
    other = context.copy()
    other.replace(0, replace(context.parts[0], text="two"))
    assert any("entry 1: first" in line for line in proof.differs(other.proof()))
    assert proof.differs(other.render())
    bare = EngineInfo(kind="vllm", model="m", limits=Limits(context_tokens=10_000), upscale=None)
    assert "image_rule" in " ".join(proof.differs(context.proof(bare)))
    assert proof.to_json()["tokens"] == proof.tokens


@pytest.mark.engine
def test_a_proof_equals_what_the_engine_ran(eng) -> None:
    context = Context(effort="none")
    context.add_image(noise_image(50, 50))
    context.ask("Which boat?")
    reply = eng.generate(context, max_tokens=2, temperature=0)
    assert context.proof(eng).differs(reply) == ()
    context.ask("Another?")
    assert len(context.proof(eng).differs(reply)) == 2
