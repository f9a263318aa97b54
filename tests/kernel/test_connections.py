"""What a client keeps open, and what goes on after it has left."""

from __future__ import annotations

import gc
import time

import httpx
import psutil
import pytest

import engine
from engine.protocol import PrefillProgress
from workbench import Context

pytestmark = pytest.mark.engine


def open_to(url: str) -> int:
    """Connections of this process to an engine."""
    port = httpx.URL(url).port
    return sum(bool(one.raddr) and one.raddr.port == port for one in psutil.Process().net_connections("tcp"))


def test_a_client_that_is_gone_holds_no_connection(eng) -> None:
    """Engines are attached to over and over by notebooks and pages; each has sockets of its own until nobody holds it."""
    token, before = eng._connection.token, open_to(eng.url)
    made = [engine.attach(eng.url, token) for _ in range(10)]
    assert open_to(eng.url) >= before + 10
    del made
    gc.collect()
    for _ in range(50):
        if open_to(eng.url) <= before:
            break
        time.sleep(0.1)
    assert open_to(eng.url) <= before


def test_leaving_ends_the_work_within_a_step(eng) -> None:
    """Left while it reads a prompt of many steps: what is computed afterwards is the step that runs, and one that was planned."""
    step = eng.info.engine_args["max_num_batched_tokens"]
    context = Context(effort="none")
    context.add_text(f"{time.time()} " + "harbour " * 12 * step)
    context.ask("How many?")
    events = eng.stream(context, max_tokens=1)
    done = next(event.done_tokens for event in events if isinstance(event, PrefillProgress) and event.done_tokens)
    events.close()
    for _ in range(300):
        if not eng.status()["requests"]:
            break
        time.sleep(0.1)
    probe = eng.probe(context)
    assert probe.matching_tokens is not None
    assert done <= probe.matching_tokens + step
    assert probe.matching_tokens <= done + 2 * step < probe.prompt_tokens - 5 * step
