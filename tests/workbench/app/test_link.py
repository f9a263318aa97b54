"""The link to an engine that is gone: what a page is told, and that one start at a time is under way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from engine.client import Engine
from engine.connection import Connection
from engine.errors import EngineNotFound, EngineStartError
from engine.protocol import EngineInfo, Limits
from workbench.app import link
from workbench.app.link import Link, Sight
from workbench.app.showing import engine_html


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "FRESH_S", 0.0)


def gone() -> Engine:
    """An engine at an address where nothing answers."""
    return Engine(Connection("http://127.0.0.1:1", None), EngineInfo(kind="workbench", model="m", limits=Limits(context_tokens=64)))


def find() -> Engine:
    raise EngineNotFound("no engine runs here")


def looked(shared: Link, wanted: Callable[[Sight], bool]) -> Sight:
    for _ in range(500):
        if wanted(sight := shared.look_now()):
            return sight
        time.sleep(0.01)
    raise AssertionError(sight)


def test_without_a_way_to_start_one_a_page_says_what_a_reader_can_do() -> None:
    shared = Link(gone(), find)
    sight = looked(shared, lambda sight: sight.info is None)
    assert not sight.can_start
    assert "inkling engine start" in engine_html(sight)
    shared.start_again()
    assert shared.look_now().starting == ""
    assert shared.close() is None


def test_one_start_at_a_time_and_how_far_it_is() -> None:
    calls, go_on = [], threading.Event()

    def start(say: Callable[[str], None]) -> Engine:
        calls.append(1)
        say("loading <weights>")
        assert go_on.wait(20)
        return gone()

    shared = Link(gone(), find, start)
    assert looked(shared, lambda sight: sight.info is None).can_start
    shared.start_again()
    shared.start_again()
    sight = looked(shared, lambda sight: sight.starting == "loading <weights>")
    assert "Starting an engine: loading &lt;weights&gt;" in engine_html(sight)
    assert not sight.can_start
    go_on.set()
    brought = shared.close()
    assert brought is shared.known
    assert calls == [1]


def test_a_start_that_failed_says_why_and_can_be_tried_again() -> None:
    def start(say: Callable[[str], None]) -> Engine:
        raise EngineStartError("the memory is too small")

    shared = Link(gone(), find, start)
    looked(shared, lambda sight: sight.can_start)
    shared.start_again()
    assert shared.close() is None
    sight = looked(shared, lambda sight: "too small" in sight.problem)
    assert sight.can_start
