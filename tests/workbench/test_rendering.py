"""Spans and places: a partition, and from any token back to its source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.protocol import (
    AudioPlace,
    EngineInfo,
    ImagePlace,
    Limits,
    Reply,
    TextPlace,
    Timings,
    Usage,
    check_partition,
    span_at,
)  # fmt: skip
from tests.workbench.mixed_contexts import builders
from tests.workbench.samples_of import noise_image, pdf, tone
from workbench import Context
from workbench.errors import MediaTooLarge
from workbench.parts import DocumentPart, Page
from workbench.token_places import locate, text_places
from workbench.tokens import char_ranges, decode, encode, first_special_id, framing_ids, tokenizer

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=200)
BUILDERS = builders()


def reply_of(ids: list[int]) -> Reply:
    return Reply(
        text="", reasoning="", tool_calls=(), token_ids=np.array(ids, dtype=np.uint32), finish_reason="stop", context="",
        request_id="",
        usage=Usage(prompt_tokens=0, cached_tokens=0, completion_tokens=len(ids)), timings=Timings(first_token_s=0, total_s=0),
    )  # fmt: skip


@pytest.mark.parametrize("name", BUILDERS)
def test_spans_partition_and_hold_only_what_they_say(name: str, tmp_path: Path) -> None:
    rendered, slots = BUILDERS[name](tmp_path).render(), framing_ids().slots()
    check_partition(rendered.spans, len(rendered))
    for span in rendered.spans:
        ids = rendered.token_ids[span.start : span.stop]
        if span.modality in slots:
            assert (ids == slots[span.modality]).all()
        elif span.modality == "text":
            assert (ids < first_special_id()).all()
    placed = [(item.start, item.start + item.tokens) for item in rendered.media]
    assert placed == [(s.start, s.stop) for s in rendered.spans if s.modality in slots]
    assert set(rendered.blobs) == {item.blob for item in rendered.media}
    messages = [span.message for span in rendered.spans]
    assert messages == sorted(messages)
    assert set(messages) == set(range(messages[-1] + 1))


@given(st.lists(TEXT, min_size=1, max_size=4), st.floats(0, 0.99))
@settings(deadline=None, max_examples=60)
def test_any_text_renders_twice_alike_and_never_frames(texts: list[str], effort: float) -> None:
    contexts = [Context(effort=effort), Context(effort=effort)]
    for context in contexts:
        for text in texts:
            context.add_text(text)
    one, two = (context.render() for context in contexts)
    assert one.id == two.id
    assert one.spans == two.spans
    content = [s for s in one.spans if s.modality == "text" and s.part != "effort"]
    assert [decode(one.token_ids[s.start : s.stop]) for s in content] == texts


@given(TEXT)
@settings(deadline=None)
def test_char_ranges_cover_the_text_in_order(text: str) -> None:
    ids = encode(text)
    ranges = char_ranges(ids)
    assert ranges[0, 0] == 0
    assert ranges[-1, 1] == len(text)
    assert (ranges[:, 0] < ranges[:, 1]).all()
    # The next token begins where this one ends, or inside its last character.
    assert (ranges[1:, 0] >= ranges[:-1, 1] - 1).all()
    assert (ranges[1:, 0] <= ranges[:-1, 1]).all()
    # Without looking at the text: by cutting its bytes where the tokens end.
    ends = np.cumsum([len(tokenizer().decode_bytes([token])) for token in ids.tolist()]).tolist()
    data = text.encode()
    for (start, stop), first, last in zip(ranges.tolist(), [0, *ends], ends, strict=False):
        whole = data[first:last].decode(errors="ignore")
        assert whole in text[start:stop]
        assert stop == len(data[:last].decode(errors="ignore")) + (data[:last].decode(errors="ignore").encode() != data[:last])


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=80), min_size=1, max_size=5))
@settings(deadline=None)
def test_every_page_is_placed_in_its_own_characters(texts: list[str]) -> None:
    part = DocumentPart(name="d.pdf", pages=tuple(Page(text=text, number=n) for n, text in enumerate(texts, 1)))
    context = Context()
    context.add(part)
    rendered = context.render()
    check_partition(rendered.spans, len(rendered))
    for span in rendered.spans:
        if isinstance(span.locator, TextPlace) and span.locator.page:
            text = texts[span.locator.page - 1]
            places = text_places(rendered, span)
            assert (places[:, 0] >= 0).all()
            assert (places[:, 1] <= len(text)).all()
            for t, (start, stop) in zip(range(span.start, span.stop), places.tolist(), strict=True):
                word = decode(rendered.token_ids[t : t + 1])
                if "\ufffd" not in word and t < span.stop - 1:
                    assert text[start:stop] == word


def test_locate_finds_words_patches_and_seconds(tmp_path: Path) -> None:
    context = Context()
    context.add_document(pdf(tmp_path / "a.pdf", ["The code is here.", "Ana Duarte is the master."]))
    context.add_image(noise_image(100, 60))
    context.add_audio(tone(0.26), rate_hz=16_000)
    rendered = context.render()
    found = [(t, locate(rendered, t)) for t in range(len(rendered))]
    pages = ["The code is here.", "Ana Duarte is the master."]
    said = [pages[place.page - 1][place.start : place.stop] for _, place in found if isinstance(place, TextPlace) and place.page]
    assert "".join(said) == "".join(pages)
    patches = [place for _, place in found if isinstance(place, ImagePlace)]
    assert [(place.row, place.col) for place in patches] == [(row, col) for row in range(3) for col in range(6)]
    assert patches[0].box_px == (0, 0, 40, 40)
    seconds = [(place.start_s, place.stop_s) for _, place in found if isinstance(place, AudioPlace)]
    assert seconds[-1] == (0.25, 0.26)
    assert len(seconds) == 6
    with pytest.raises(IndexError):
        locate(rendered, len(rendered))


def test_a_part_added_changes_nothing_before_it() -> None:
    context = Context()
    context.add_text("one")
    before = context.render()
    context.add_text("two")
    after = context.render()
    # All but the last id, the bare model token that the next part now follows.
    assert (after.token_ids[: len(before) - 1] == before.token_ids[:-1]).all()


def test_equal_content_under_two_names_keeps_both_names() -> None:
    context = Context()
    context.add_text("same", name="first")
    context.add_text("same", name="second")
    labels = [span.label for span in context.render().spans if span.modality == "text"]
    assert labels == ["effort", "first", "second"]


def test_a_reply_is_appended_verbatim_and_the_prefix_stays() -> None:
    ids = framing_ids()
    context = Context()
    context.ask("2 + 2?")
    prompt = context.render()
    sampled = [ids.content_thinking, *encode("easy").tolist(), ids.end_message, ids.message_model, ids.content_text,
               *encode("4").tolist(), ids.end_message, ids.content_model_end_sampling]  # fmt: skip
    context.add_reply(reply_of(sampled))
    context.ask("Sure?")
    rendered = context.render()
    together = [*prompt.token_ids.tolist(), *sampled]
    assert rendered.token_ids.tolist()[: len(together)] == together
    labels = [
        (s.label, decode(rendered.token_ids[s.start : s.stop]))
        for s in rendered.spans
        if s.modality == "text" and s.start >= len(prompt)
    ]
    assert labels == [("thinking", "easy"), ("reply", "4"), ("question", "Sure?")]


def test_what_a_reply_says_equals_the_same_turn_written_by_hand() -> None:
    ids = framing_ids()
    call = [
        *encode("add").tolist(),
        ids.content_invoke_tool_json,
        *encode('{"name":"add","args":{"a":1}}').tolist(),
        ids.end_message,
    ]
    sampled, written = Context(), Context()
    sampled.add_reply(reply_of([ids.content_thinking, *encode("hm").tolist(), ids.end_message, ids.message_model, ids.content_text,
                                *encode("see").tolist(), ids.end_message, ids.message_model, *call,
                                ids.content_model_end_sampling]))  # fmt: skip
    written.add_reply("see", reasoning="hm", tool_calls=[{"name": "add", "arguments": {"a": 1}}])
    one, two = sampled.render(), written.render()
    assert one.token_ids.tolist() == two.token_ids.tolist()
    # Framing is cut differently (sampled ids keep their runs); content is not.
    content = [[(s.start, s.stop, s.message) for s in rendered.spans if s.modality == "text"] for rendered in (one, two)]
    assert content[0] == content[1]


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_reply_cut_anywhere_is_closed_so_that_the_next_turn_is_well_formed(cut: int) -> None:
    ids = framing_ids()
    full = [ids.content_thinking, *encode("a").tolist(), ids.end_message, ids.message_model, ids.content_text,
            *encode("b").tolist(), ids.end_message, ids.content_model_end_sampling]  # fmt: skip
    context = Context()
    context.add_reply(reply_of(full[:cut]))
    context.ask("next")
    rendered = context.render()
    at = rendered.token_ids.tolist().index(ids.message_model)
    assert rendered.token_ids.tolist()[at + 1 : at + 1 + cut] == full[:cut]
    end = rendered.token_ids.tolist().index(ids.content_model_end_sampling)
    assert rendered.token_ids[end - 1] == ids.end_message
    assert rendered.token_ids[end + 1] == ids.message_user


def test_a_reply_without_any_framing_counts_as_text() -> None:
    context = Context()
    part = context.add_reply(reply_of(encode("noise of random weights").tolist()))
    rendered = context.render()
    assert [decode(rendered.token_ids[s.start : s.stop]) for s in rendered.spans if s.part == part.id] == [
        "noise of random weights"
    ]


def test_the_engines_rule_and_limits_count() -> None:
    context = Context()
    context.add_image(noise_image(512, 384))
    context.add_image(noise_image(40, 40))
    bare = EngineInfo(kind="vllm", model="m", limits=Limits(context_tokens=10_000), upscale=None)
    assert [item.tokens for item in context.render().media] == [520, 6]
    assert [item.tokens for item in context.render(bare).media] == [130, 2]
    assert context.render().id != context.render(bare).id
    one = bare.model_copy(update={"limits": Limits(context_tokens=10_000, images_per_request=1)})
    with pytest.raises(MediaTooLarge, match=r"2 images.*takes 1"):
        context.render(one)
    context.add_audio(tone(1.0), rate_hz=16_000)
    short = bare.model_copy(update={"limits": Limits(context_tokens=10_000, audio_clip_tokens=19)})
    with pytest.raises(MediaTooLarge, match=r"20 audio tokens .* limit of 19"):
        context.render(short)
    with pytest.raises(TypeError, match="EngineInfo"):
        context.render("demo")


def test_span_lookup_agrees_with_the_table(tmp_path: Path) -> None:
    rendered = BUILDERS["everything"](tmp_path).render()
    for t in range(0, len(rendered), 7):
        assert span_at(rendered.spans, t).start <= t < span_at(rendered.spans, t).stop
