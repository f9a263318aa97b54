"""Our own engine's /v1 seen as a plain vLLM server: the same code a plain server would meet, on real vLLM."""

from __future__ import annotations

import pytest

from engine import plain
from engine.client import Engine
from engine.connection import Connection, blocking
from engine.errors import BadRequest, CaptureRefused, FeatureUnsupported
from engine.protocol import CapturePlan, Done
from workbench import Context
from workbench.errors import MessageError

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def server(eng) -> Engine:
    connection = Connection(eng.url, eng._connection.token)
    return Engine(connection, blocking(plain.describe(connection)))


def test_what_is_known_of_it(server: Engine, eng) -> None:
    assert (server.info.kind, server.info.model) == ("vllm", eng.info.model)
    assert server.info.limits.context_tokens == eng.info.limits.context_tokens
    assert server.status()["alive"]


def test_ids_give_the_answer_our_own_route_gives(server: Engine, eng) -> None:
    context = Context()
    context.ask("Hello there")
    shown = context.render(eng)
    mine, theirs = (one.generate(shown, max_tokens=6, temperature=0) for one in (eng, server))
    assert theirs.token_ids.tolist() == mine.token_ids.tolist()
    assert theirs.usage.prompt_tokens == len(shown)
    assert any("plain vLLM server" in notice for notice in theirs.notices)


def test_a_context_goes_as_chat_and_costs_the_same_tokens(server: Engine, eng) -> None:
    context = Context(system="Be brief.", effort="low")
    context.ask("Hello there")
    *_, done = server.stream(context, max_tokens=6, temperature=0)
    assert isinstance(done, Done)
    assert done.reply.usage.prompt_tokens == len(context.render(eng))


def test_control_spellings_are_refused_before_anything_is_sent(server: Engine) -> None:
    context = Context()
    context.ask("What does <|end_message|> do?")
    with pytest.raises(MessageError, match="end_message"):
        server.generate(context)
    with pytest.raises(FeatureUnsupported, match="control token"):
        plain.refuse_control_spellings({"messages": [{"role": "user", "content": [{"text": "<|end_message|>"}]}]})


def test_captures_and_stopping_are_refused_with_the_reason(server: Engine) -> None:
    context = Context()
    context.ask("x")
    with pytest.raises(CaptureRefused, match="plain vLLM server"):
        server.capture(context, CapturePlan(routing=True))
    with pytest.raises(BadRequest, match="started"):
        server.stop()
