"""Conversations: a tree of turns whose every branch is a context; files; replaying."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from engine.protocol import Reply, Timings, Usage
from tests.workbench.samples_of import noise_image
from workbench import Context, Conversation
from workbench.errors import ContextFileError, EffortError, MessageError
from workbench.tokens import encode, framing_ids


def reply_to(context: Context, text: str) -> Reply:
    """What an engine's answer to `context` looks like."""
    ids, rendered = framing_ids(), context.render()
    sampled = [ids.content_text, *encode(text).tolist(), ids.end_message, ids.content_model_end_sampling]
    return Reply(
        text=text, reasoning="", tool_calls=(), token_ids=np.array(sampled, dtype=np.uint32), finish_reason="stop",
        usage=Usage(prompt_tokens=len(rendered), cached_tokens=0, completion_tokens=len(sampled)),
        timings=Timings(first_token_s=0.1, total_s=0.2), context=rendered.id, request_id="r",
        provenance={"model": "m", "sampling": {"max_tokens": 8, "temperature": 0.0, "seed": None}},
    )  # fmt: skip


def talk() -> Conversation:
    beginning = Context("Be brief.", "low")
    beginning.add_image(noise_image(50, 50))
    conversation = Conversation(beginning)
    first = conversation.ask("Which boat?")
    answer = conversation.add_reply(reply_to(conversation.context(), "The yacht."))
    conversation.ask("Sure?")
    conversation.add_reply(reply_to(conversation.context(), "Yes."))
    conversation.ask("Which pier?", at=answer)
    conversation.add_reply(reply_to(conversation.context(), "Fuel."))
    conversation.add_reply(reply_to(conversation.context(first), "The ferry."), at=first)
    return conversation


def test_every_branch_is_a_context_of_its_own() -> None:
    conversation = talk()
    assert [(turn.id, turn.parent, turn.kind) for turn in conversation.turns] == [
        ("1", "0", "user"), ("2", "1", "reply"), ("3", "2", "user"), ("4", "3", "reply"), ("5", "2", "user"), ("6", "5", "reply"),
        ("7", "1", "reply"),
    ]  # fmt: skip
    assert [turn.id for turn in conversation.children("2")] == ["3", "5"]
    assert [turn.id for turn in conversation.leaves()] == ["4", "6", "7"]
    assert [turn.text for turn in conversation.path("6")] == ["Which boat?", "The yacht.", "Which pier?", "Fuel."]
    assert conversation.leaf.id == "7"
    by_hand = Context("Be brief.", "low")
    by_hand.add_image(noise_image(50, 50))
    by_hand.ask("Which boat?")
    by_hand.add_reply(reply_to(by_hand, "The yacht."))
    by_hand.ask("Which pier?")
    assert conversation.context("5").render().id == by_hand.render().id


def test_branches_share_their_prefix_and_their_parts() -> None:
    conversation = talk()
    one, other = conversation.context("3"), conversation.context("5")
    assert all(a is b for a, b in zip(one.parts[:3], other.parts[:3], strict=True))
    before = conversation.context("2").render().token_ids[:-1]
    for context in (one, other):
        assert (context.render().token_ids[: len(before)] == before).all()
    picture = conversation.context(conversation.root).parts[0]
    conversation.ask("And this one?", parts=[picture], effort="max")
    assert [part.name for part in conversation.context().parts][-2:] == ["image", "question"]
    assert (conversation.context().effort, conversation.context("7").effort) == (0.99, 0.2)


def test_the_beginning_is_the_conversations_own() -> None:
    context = Context()
    conversation = Conversation(context)
    context.add_text("later")
    assert conversation.context().parts == ()


def test_tools_answer_in_their_own_turns() -> None:
    conversation = Conversation()
    conversation.ask("2 + 2?")
    turn = conversation.add_tool_result("4", tool="add")
    assert turn.kind == "tool"
    assert [role for role, _ in conversation.context().entries] == ["user", "tool"]


def test_what_cannot_be_added_leaves_the_tree_alone() -> None:
    conversation = talk()
    turns = conversation.turns
    with pytest.raises(MessageError, match="no turn '9'"):
        conversation.ask("x", at="9")
    with pytest.raises(MessageError, match="no turn"):
        conversation.ask("x", at=talk().turn("1"))
    with pytest.raises(MessageError, match="empty"):
        conversation.ask("")
    with pytest.raises(EffortError):
        conversation.ask("x", effort="ultra")
    with pytest.raises(MessageError, match="no tokens"):
        conversation.add_reply(replace(reply_to(Context(), "x"), token_ids=np.empty(0, np.uint32)))
    assert conversation.turns == turns


def test_a_file_brings_everything_back(tmp_path: Path) -> None:
    conversation = talk()
    conversation.select("4")
    path = conversation.save(tmp_path / "talk.inkling")
    again = Conversation.load(path)
    assert again.leaf.id == "4"
    for turn, other in zip(conversation.turns, again.turns, strict=True):
        assert (turn.id, turn.parent, turn.kind, turn.text, turn.settings) == (
            other.id, other.parent, other.kind, other.text, other.settings
        )  # fmt: skip
        assert conversation.context(turn).render().id == again.context(other).render().id
    assert again.save(tmp_path / "again.inkling").read_bytes() == path.read_bytes()
    with ZipFile(path) as archive:
        assert sum(name.endswith(".png") for name in archive.namelist()) == 1
    with pytest.raises(ContextFileError, match="not a saved context"):
        Context.load(path)


def test_a_damaged_file_names_what_is_lost_and_keeps_the_rest(tmp_path: Path) -> None:
    path = talk().save(tmp_path / "talk.inkling")
    data = bytearray(path.read_bytes())
    ids = reply_to(Context(), "Fuel.").token_ids.astype("<u4").tobytes()
    data[data.index(ids) + 3] ^= 1
    path.write_bytes(data)
    with pytest.raises(ContextFileError, match=r"lost: turn 6 \(reply 'Fuel.'\).*opens the other 6 of 7"):
        Conversation.load(path)
    rest = Conversation.load(path, salvage=True)
    assert [turn.id for turn in rest.turns] == ["1", "2", "3", "4", "5", "7"]
    assert len(rest.losses) == 1


class Echo:
    """An engine that answers as it is told, for the comparison's own logic; a real one is asked below."""

    info = None

    def __init__(self, text: str, **provenance) -> None:
        self.text, self.provenance = text, provenance

    def generate(self, rendered, **settings) -> Reply:
        made = reply_to(Context(), self.text)
        return replace(made, context=rendered.id, provenance=made.provenance | self.provenance)


def test_replaying_says_what_differs() -> None:
    conversation = Conversation()
    conversation.ask("Which boat?")
    conversation.add_reply(reply_to(conversation.context(), "The yacht."))
    assert conversation.replay(Echo("The yacht.")) == []
    (found,) = conversation.replay(Echo("The ferry."))
    assert (found.turn, found.what) == ("2", "answer")
    assert "'The ferry.' instead of 'The yacht.'" in str(found)
    (found,) = conversation.replay(Echo("The yacht.", model="other"))
    assert found.what == "engine"
    strange = Conversation()
    strange.ask("Which boat?")
    strange.add_reply(reply_to(Context(), "The yacht."))
    assert [item.what for item in strange.replay(Echo("The yacht."))] == ["context"]


def test_an_answer_sampled_without_a_seed_is_not_compared() -> None:
    conversation = Conversation()
    conversation.ask("Which boat?")
    reply = reply_to(conversation.context(), "The yacht.")
    settings = {"sampling": {"max_tokens": 8, "temperature": 1.0, "seed": None}}
    conversation.add_reply(replace(reply, provenance=settings))
    assert [item.what for item in conversation.replay(Echo("The ferry."))][-1] == "not compared"


@pytest.mark.engine
def test_a_saved_conversation_replays_on_the_engine(eng, tmp_path: Path) -> None:
    beginning = Context(effort="none")
    beginning.add_image(noise_image(60, 60))
    conversation = Conversation(beginning)
    for question in ("Which boat?", "Sure?"):
        conversation.ask(question)
        conversation.add_reply(eng.generate(conversation.context(), max_tokens=6, temperature=0))
    assert Conversation.load(conversation.save(tmp_path / "c.inkling")).replay(eng) == []
