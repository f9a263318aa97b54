"""Places among the requests that run or wait, and whose turn it is."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import EngineBusy
from engine.kernel.admission import Admitted
from engine.kernel.turns import Turn, Turns
from engine.protocol import Limits
from engine.protocol.wire import ScoreBody


def state_with(**limits: int) -> Any:
    info = SimpleNamespace(limits=Limits(context_tokens=9, **limits), architecture=None)
    return SimpleNamespace(admitted=Counter(), info=info, contexts=SimpleNamespace(get=lambda name: range(5)))


def test_the_last_place_is_given_and_given_back_once() -> None:
    state = state_with(requests=2)
    first, _second = Admitted(state), Admitted(state)
    with pytest.raises(EngineBusy, match=r"takes 2 \(limits\.requests\)"):
        Admitted(state)
    first.leave()
    first.leave()
    assert state.admitted.total() == 1
    Admitted(state)


def test_one_client_cannot_take_all_the_places() -> None:
    state = state_with(requests=5, requests_per_client=2)
    mine = [Admitted(state, "me"), Admitted(state, "me")]
    with pytest.raises(EngineBusy, match=r"limits\.requests_per_client"):
        Admitted(state, "me")
    Admitted(state, "you")
    mine[0].leave()
    Admitted(state, "me")
    mine[1].leave()
    assert set(state.admitted) == {"me", "you"}


def test_scores_take_a_place_too() -> None:
    from engine.kernel.routes.scores import scores

    state = state_with(requests=1)
    body, request = ScoreBody(context="c", first=2), SimpleNamespace(headers={}, client=None)
    response = asyncio.run(scores(body, request, state))  # type: ignore[arg-type]
    assert state.admitted.total() == 1
    with pytest.raises(EngineBusy, match=r"limits\.requests"):
        asyncio.run(scores(body, request, state))  # type: ignore[arg-type]
    assert response.background is not None
    asyncio.run(response.background())
    assert not state.admitted


def test_clients_take_turns() -> None:
    """Ten requests of one do not come before the single one of another, whenever that came."""
    turns = Turns(1)
    greedy = [turns.join("greedy") for _ in range(10)]
    single = turns.join("single")
    assert (greedy[0].position, greedy[1].position, single.position) == (None, 0, 1)
    greedy[0].leave()
    assert greedy[1].come.is_set()
    greedy[1].leave()
    assert single.come.is_set()
    single.leave()
    assert [turn.come.is_set() for turn in greedy[2:]] == [True] + [False] * 7


def test_a_turn_that_is_given_up_is_nobodys_place() -> None:
    turns = Turns(1)
    first, second, third = (turns.join(name) for name in "aab")
    second.leave()
    second.leave()
    first.leave()
    assert third.come.is_set()
    third.leave()
    assert turns.join("c").come.is_set(), "the place is still there"


def test_waiting_is_told_in_pieces() -> None:
    async def wait() -> list[bool]:
        turns = Turns(1)
        first, second = turns.join("a"), turns.join("b")
        seen = [await first.came(0.01), await second.came(0.01)]
        first.leave()
        return [*seen, await second.came(0.01)]

    assert asyncio.run(wait()) == [True, False, True]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40), st.integers(1, 3))
def test_no_more_run_than_there_are_places_and_none_is_lost(steps: list[tuple[str, bool]], slots: int) -> None:
    turns, alive = Turns(slots), list[Turn]()
    for client, leaves in steps:
        if leaves and alive:
            alive.pop(len(client * ord(client)) % len(alive)).leave()
        else:
            alive.append(turns.join(client))
        running = sum(turn.come.is_set() for turn in alive)
        assert running == min(slots, len(alive))
        assert sorted(turn.position for turn in alive if turn.position is not None) == list(range(len(alive) - running))
