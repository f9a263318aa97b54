"""A chat over a real engine: turns and branches, what is refused, what stopping leaves, and what the page is told."""

from __future__ import annotations

import json

import pytest

from engine.errors import ContextTooLong
from workbench import Context, Conversation
from workbench.chat_sessions import ChatSession
from workbench.errors import SelectionError

pytestmark = pytest.mark.engine


@pytest.fixture
def session(eng):
    context = Context(system="Answer briefly.", effort="none")
    context.add_document(b"The harbour master is Ana Duarte.", name="note.txt")
    return ChatSession(eng, context, max_tokens=8, temperature=0)


def ask(session, verb, **args):
    reply, _ = session.answer({"id": 1, "verb": verb, "args": args})
    session.wait(120)
    return reply


def test_an_answer_becomes_a_turn_that_costs_what_the_engine_says(session, eng):
    told = []
    session.listen(lambda: told.append(session.state()["live"].get("phase")))
    assert ask(session, "send", text="Who is the harbour master?")["ok"]
    question, answer = session.state()["turns"]
    assert (question["role"], answer["role"]) == ("user", "reply")
    rendered = session.conversation.context(session.conversation.path()[0]).render(eng)
    assert answer["usage"]["prompt_tokens"] == len(rendered.token_ids)
    assert answer["tokens"] == answer["usage"]["completion_tokens"]
    tokens = ask(session, "tokens", turn=answer["id"])["result"]["tokens"]
    assert len(tokens) == answer["tokens"]
    assert all(token["logprob"] <= 0 and token["alternatives"] for token in tokens)
    assert not ask(session, "tokens", turn=question["id"])["ok"], "a question has none"
    # The state is small: a long conversation travels whole with every turn.
    assert len(json.dumps(answer)) < 1_000
    assert told[0] == "waiting"
    assert told[-1] is None
    # Greedy: asking again gives the same words on a branch of its own, and the prompt is read from the cache.
    assert ask(session, "retry", turn=answer["id"])["ok"]
    again = session.state()["turns"][-1]
    assert (again["text"], again["branch"], again["branches"]) == (answer["text"], 1, 2)
    assert ask(session, "branch", turn=again["id"], to=0)["ok"]
    assert session.state()["turns"][-1]["id"] == answer["id"]


def test_an_edited_question_is_another_branch(session):
    ask(session, "send", text="Who is it?")
    first = session.state()["turns"][0]
    ask(session, "edit", turn=first["id"], text="Who is the harbour master?")
    turns = session.state()["turns"]
    assert (turns[0]["text"], turns[0]["branch"], turns[0]["branches"]) == ("Who is the harbour master?", 1, 2)
    ask(session, "branch", turn=turns[0]["id"], to=0)
    assert session.state()["turns"][0]["text"] == "Who is it?"


def test_the_price_is_the_engine_s_count(session):
    priced = ask(session, "price", text="Who is the harbour master?")["result"]
    ask(session, "send", text="Who is the harbour master?")
    assert session.state()["turns"][-1]["usage"]["prompt_tokens"] == priced["tokens"]
    assert priced["fits"]


def test_what_cannot_be_sent_leaves_no_turn(session):
    session.settings["max_tokens"] = session.engine.info.limits.context_tokens
    with pytest.raises(ContextTooLong):
        session.send("Who?")
    assert not ask(session, "send", text="Who?")["ok"]
    assert not ask(session, "send", text="")["ok"]
    assert session.conversation.turns == ()
    assert not session.busy


@pytest.mark.parametrize(
    "request_", [None, {"id": 1, "verb": "sing"}, {"id": 1, "verb": "send", "args": {"word": "x"}},
                 {"id": 1, "verb": "retry", "args": {"turn": "9"}}, {"id": 1, "verb": "branch", "args": {"turn": "0", "to": 4}}],
)  # fmt: skip
def test_bad_questions_become_error_answers(session, request_):
    assert not session.answer(request_)[0]["ok"]


def test_a_stopped_answer_is_shown_and_leaves_the_conversation_as_it_was(session):
    session.settings |= {"max_tokens": 2_000, "temperature": 2.0}
    session.send("Go on for as long as you like.")
    with pytest.raises(SelectionError, match="under way"):
        session.send("And then?")
    session.stop()
    assert not session.busy
    kinds = [turn.kind for turn in session.conversation.turns]
    # The answer may have ended by itself before it was stopped; then it is a turn like any other.
    assert kinds in (["user"], ["user", "reply"])
    if kinds == ["user"]:
        assert session.state()["turns"][-1]["role"] == "stopped"
    session.settings |= {"max_tokens": 4, "temperature": 0}
    session.send("And now?")
    session.wait(120)
    assert session.state()["turns"][-1]["role"] == "reply"


def test_a_conversation_is_continued(session, eng):
    session.send("Who?")
    session.wait(120)
    further = ChatSession(eng, session.conversation, max_tokens=4, temperature=0)
    assert isinstance(further.conversation, Conversation)
    assert [turn["text"] for turn in further.state()["turns"]] == [turn["text"] for turn in session.state()["turns"]]
