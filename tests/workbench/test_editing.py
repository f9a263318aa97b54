"""Edits of a context: order, pins, switches, splitting and merging; undo; and that an edit equals building it anew."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.protocol import check_partition
from tests.workbench.samples_of import noise_image, tone
from workbench import Context, chunks
from workbench.errors import MessageError
from workbench.parts import AudioPart, DocumentPart, Page, Part, RecordingPart, TextPart


def document(pages: int, name: str = "d.pdf") -> DocumentPart:
    return DocumentPart(name=name, pages=tuple(Page(text=f"Page {n} says {n * n}.", number=n) for n in range(1, pages + 1)))


def texts(*names: str) -> Context:
    context = Context()
    for name in names:
        context.add_text(name, name=name)
    return context


def names(context: Context) -> str:
    return " ".join(entry.part.name + ("!" if entry.pinned else "") + ("-" if entry.disabled else "") for entry in context.items)


def test_order_pins_and_switches() -> None:
    context = texts(*"abcd")
    context.move(3, 0)
    assert names(context) == "d a b c"
    context.pin(2)
    assert names(context) == "b! d a c"
    context.pin(3)
    assert names(context) == "b! c! d a"
    context.disable(2)
    assert names(context) == "b! c! d- a"
    assert [part.name for part in context.parts] == ["b", "c", "a"]
    for forbidden in (
        lambda: context.move(3, 1), lambda: context.move(0, 3), lambda: context.remove(1), lambda: context.disable(0),
        lambda: context.replace(0, TextPart(text="x")), lambda: context.split(1, 1), lambda: context.merge(0),
        lambda: context.add(TextPart(text="x"), at=0),
    ):  # fmt: skip
        with pytest.raises(MessageError, match="unpin it first"):
            forbidden()
    with pytest.raises(MessageError, match="switched off"):
        context.pin(2)
    context.enable(2)
    context.unpin(0)
    assert names(context) == "c! b d a"
    context.add(TextPart(text="x", name="x"), at=1)
    assert names(context) == "c! x b d a"


def test_leading_system_texts_stay_in_front_of_pins() -> None:
    context = Context()
    context.add_text("rules", role="system", name="s")
    context.add_text("q", name="q")
    context.add(document(2))
    context.pin(2)
    assert names(context) == "s d.pdf! q"


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda c: c.move(5, 0), "no entry 5"),
        (lambda c: c.move(0, 7), "no place 7"),
        (lambda c: c.remove(TextPart(text="other")), "no entry of this context"),
        (lambda c: c.remove(TextPart(text="a")), r"stands at \[0, 2\]"),
        (lambda c: c.merge(2), "last entry"),
        (lambda c: c.split(0, 1), "too short"),
        (lambda c: c.undo() or c.undo() or c.undo() or c.undo(), "nothing to undo"),
        (lambda c: c.redo(), "nothing to redo"),
    ],
)
def test_edits_that_cannot_be_made_change_nothing(act, says: str) -> None:
    context = texts("a", "b", "a")
    items = context.items
    with pytest.raises(MessageError, match=says):
        act(context)
    if "undo" not in says:
        assert context.items == items


def test_replies_keep_their_role_and_other_roles_are_refused() -> None:
    context = texts("q")
    context.add_reply("a")
    with pytest.raises(MessageError, match="roles user and model"):
        context.merge(0)
    with pytest.raises(MessageError, match="cannot have the role"):
        context.add(document(1), role="system")


def test_splitting_and_merging_a_document_gives_it_back() -> None:
    context = Context()
    whole = context.add(document(5))
    context.split(0, 3)
    assert [[page.number for page in part.pages] for part in context.parts] == [[1, 2], [3, 4, 5]]
    context.merge(0)
    assert context.parts == (whole,)
    with pytest.raises(MessageError, match="pages 2 to 5"):
        context.split(0, 1)
    context.add(document(5))
    with pytest.raises(MessageError, match="same number"):
        context.merge(0)


def test_splitting_and_merging_sound_keeps_every_sample_and_time() -> None:
    context = Context()
    whole = context.add_audio(tone(1.0), rate_hz=16_000)
    assert isinstance(whole, AudioPart)
    context.split(0, 0.4)
    one, other = context.parts
    assert isinstance(one, AudioPart)
    assert isinstance(other, AudioPart)
    assert (one.duration_s, other.start_s, other.stop_s) == (0.4, 0.4, 1.0)
    context.split(1, 0.7)
    assert context.parts[2].start_s == 0.7  # pyright: ignore[reportAttributeAccessIssue]
    context.merge(1)
    context.merge(0)
    assert context.parts == (whole,)
    context.add_audio(tone(1.0, hz=3), rate_hz=16_000)
    with pytest.raises(MessageError, match="do not follow one another"):
        context.merge(0)


def test_a_recording_of_clips_is_split_between_them() -> None:
    clips = tuple(AudioPart(blob=part.blob, name="r", start_s=n * 1.0) for n, part in enumerate(_tones(3)))
    context = Context()
    context.add(RecordingPart(name="r", clips=clips))
    context.split(0, 2)
    first, rest = context.parts
    assert isinstance(first, AudioPart)
    assert isinstance(rest, RecordingPart)
    assert len(rest.clips) == 2
    with pytest.raises(MessageError, match="cannot be split at clip 1"):
        context.split(1, 1)


def _tones(count: int) -> list[AudioPart]:
    context = Context()
    return [context.add_audio(tone(1.0, hz=300 + 100 * n), rate_hz=16_000) for n in range(count)]  # pyright: ignore[reportReturnType]


def test_undo_and_redo_walk_every_state() -> None:
    context = Context()
    seen = [context.render().id]
    steps = (
        lambda: context.add_text("one"), lambda: context.add(document(3)), lambda: context.move(1, 0), lambda: context.pin(0),
        lambda: setattr(context, "effort", "low"), lambda: setattr(context, "system", "Be brief."),
        lambda: context.disable(1), lambda: context.add_reply("yes"), lambda: context.remove(2),
    )  # fmt: skip
    for step in steps:
        step()
        seen.append(context.render().id)
    for wanted in reversed(seen[:-1]):
        context.undo()
        assert context.render().id == wanted
    assert not context.can_undo
    for wanted in seen[1:]:
        context.redo()
        assert context.render().id == wanted
    context.undo()
    context.add_text("another way")
    assert not context.can_redo


def test_a_copy_edited_leaves_the_original_and_shares_its_parts() -> None:
    context = texts("a", "b")
    other = context.copy()
    other.remove(0)
    other.add_text("c")
    assert names(context) == "a b"
    assert other.parts[0] is context.parts[1]
    assert not context.copy().can_undo


EDITS = ("add", "image", "move", "pin", "unpin", "disable", "enable", "replace", "split", "merge", "remove", "undo")
OPERATIONS = st.lists(st.tuples(st.sampled_from(EDITS), st.integers(0, 7), st.integers(0, 7)), max_size=25)
SHORT: list[Part] = [TextPart(text=f"text {n} — ½ 東京" * (n + 1), name=f"t{n}") for n in range(3)]
POOL = [*SHORT, document(3), document(4, "e.pdf")]


def apply(context: Context, operation: tuple[str, int, int]) -> None:
    name, one, other = operation
    match name:
        case "add":
            context.add(POOL[one % len(POOL)])
        case "image":
            context.add_image(noise_image(41 + one, 30, seed=other))
        case "move":
            context.move(one, other)
        case "replace":
            context.replace(one, POOL[other % len(POOL)])
        case "split":
            context.split(one, other)
        case "undo":
            context.undo()
        case _:
            getattr(context, name)(one)


@given(OPERATIONS)
@settings(deadline=None, max_examples=120)
def test_any_edits_equal_building_the_context_anew(operations) -> None:
    context = Context(effort="low")
    for operation in operations:
        before = context.items
        try:
            apply(context, operation)
        except MessageError:
            assert context.items is before
    rendered = context.render()
    check_partition(rendered.spans, len(rendered))
    fresh = Context(effort="low")
    for role, part in context.entries:
        fresh.add(part, role=role)
    chunks.forget()
    again = fresh.render()
    assert again.id == rendered.id
    assert again.spans == rendered.spans
    pinned = [entry.pinned for entry in context.items]
    assert all(one >= other for one, other in pairwise(pinned))


def test_only_what_changed_is_tokenised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    context = texts("first part", "second part", "third part")
    context.render()
    seen: list[str] = []
    encode = chunks.tokens.encode
    monkeypatch.setattr(chunks.tokens, "encode", lambda text: seen.append(text) or encode(text))
    context.replace(1, TextPart(text="changed", name="second"))
    context.move(0, 2)
    context.render()
    # The effort line is short and written each time.
    assert [text for text in seen if "effort" not in text] == ["changed"]


def test_a_turn_added_moves_nothing_before_it() -> None:
    context = Context("Be brief.")
    context.add(document(40))
    context.ask("one?")
    before = context.render()
    context.add_reply("yes")
    context.ask("two?")
    after = context.render()
    assert (after.token_ids[: len(before)] == before.token_ids).all()
    assert after.spans[: len(before.spans) - 1] == before.spans[:-1]
    assert np.array_equal(before.token_ids, context.copy().render().token_ids[: len(before)])
