"""The same client object with another engine process behind it: contexts and replies of before can still be used."""

from __future__ import annotations

import numpy as np
import pytest

import engine
from engine.errors import EngineNotFound, EngineUnreachable
from engine.protocol import CapturePlan
from workbench import Context

pytestmark = pytest.mark.engine


def context() -> Context:
    ctx = Context(system="Answer briefly.", effort="none")
    ctx.add_document(b"The ferry leaves at seven from the north quay.", name="note.txt")
    ctx.ask("When does the ferry leave?")
    return ctx


def test_a_client_goes_on_with_the_engine_that_answers_now(eng: engine.Engine):
    client = engine.attach()
    reply = client.generate(context(), max_tokens=4, temperature=0)
    url = client.url
    client._connection.url = "http://127.0.0.1:9"  # nobody is there
    with pytest.raises(EngineUnreachable):
        client.status()
    client.reconnect()
    assert client.url == url
    assert client.status()["alive"]
    # What was sent to the engine that is gone is asked for, and sent again where this one does not have it.
    asked = []
    request = client._connection.request

    async def counted(method: str, path: str, **options):
        asked.append((method, path.split("/")[2]))
        return await request(method, path, **options)

    client._connection.request = counted
    again = client.generate(context(), max_tokens=4, temperature=0)
    assert ("GET", "contexts") in asked
    assert np.array_equal(again.token_ids, reply.token_ids)
    assert len(client.capture(reply, CapturePlan(routing=True))) == len(client.context_of(reply))


def test_an_engine_with_another_model_is_refused(eng: engine.Engine):
    client = engine.attach()
    client.info = client.info.model_copy(update={"revision": "another"})
    with pytest.raises(EngineNotFound, match="in a new conversation"):
        client.reconnect()
