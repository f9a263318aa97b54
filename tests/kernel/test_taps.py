"""Wrappers of one function come and go in any order, and leave it as it was."""

from __future__ import annotations

import itertools

import pytest

from engine.kernel.taps import INTERVENE, OBSERVE, without_graphs, wrap


class Thing:
    def say(self, word: str) -> str:
        return f"({word})"


def around(mark: str):
    return lambda call, *args, **kwargs: f"{mark}{call(*args, **kwargs)}{mark}"


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_wrappers_leave_in_any_order(order: tuple[int, ...]) -> None:
    before, thing = vars(Thing)["say"], Thing()
    marks = {0: "o", 1: "i", 2: "j"}
    ranks = {0: OBSERVE, 1: INTERVENE, 2: INTERVENE}
    undo = [wrap(Thing, "say", lambda call, self, word, m=marks[n]: f"{m}{call(self, word)}{m}", rank=ranks[n]) for n in range(3)]
    assert thing.say("x") == "oji(x)ijo"  # observers outermost, whoever came first among equals nearest to the original
    kept = [2, 1, 0]
    for gone in order:
        undo[gone]()
        undo[gone]()  # twice is once
        kept.remove(gone)
        wanted = "(x)"
        for n in sorted(kept, key=lambda n: (ranks[n], n)):
            wanted = f"{marks[n]}{wanted}{marks[n]}"
        assert thing.say("x") == wanted
    assert vars(Thing)["say"] is before


def test_an_instance_gets_its_class_back() -> None:
    thing, other = Thing(), Thing()
    undo = wrap(thing, "say", around("!"))
    assert (thing.say("x"), other.say("x")) == ("!(x)!", "(x)")
    undo()
    assert "say" not in vars(thing)
    thing.say = str.upper
    wrap(thing, "say", around("!"))()
    assert thing.say is str.upper


def test_nothing_is_wrapped_that_is_not_there() -> None:
    with pytest.raises(AttributeError):
        wrap(Thing, "sing", around("!"))


class Manager:
    _graphs_captured = True

    def dispatch(self) -> bool:
        return self._graphs_captured


class Runner:
    def __init__(self) -> None:
        self.cudagraph_manager, self.speculator = Manager(), None


def test_graphs_stay_off_as_long_as_anyone_needs_it() -> None:
    runner = Runner()
    manager = runner.cudagraph_manager
    first, second = without_graphs(runner), without_graphs(runner)
    assert manager.dispatch() is False
    first()
    assert manager.dispatch() is False
    second()
    assert (manager.dispatch(), "dispatch" in vars(manager)) == (True, False)
