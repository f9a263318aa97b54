"""Places among the requests that run or wait."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import EngineBusy
from engine.kernel.admission import Admitted
from engine.protocol import Limits
from engine.protocol.wire import ScoreBody


def test_the_last_place_is_given_and_given_back_once() -> None:
    state: Any = SimpleNamespace(admitted=0, info=SimpleNamespace(limits=Limits(context_tokens=9, requests=2)))
    first, _second = Admitted(state), Admitted(state)
    with pytest.raises(EngineBusy, match=r"takes 2 \(limits\.requests\)"):
        Admitted(state)
    first.leave()
    first.leave()
    assert state.admitted == 1
    Admitted(state)


def test_scores_take_a_place_too() -> None:
    from engine.kernel.routes.scores import scores

    info = SimpleNamespace(limits=Limits(context_tokens=9, requests=1), architecture=None)
    state: Any = SimpleNamespace(admitted=0, info=info, contexts=SimpleNamespace(get=lambda name: range(5)))
    body = ScoreBody(context="c", first=2)
    response = asyncio.run(scores(body, state))
    assert state.admitted == 1
    with pytest.raises(EngineBusy, match=r"limits\.requests"):
        asyncio.run(scores(body, state))
    assert response.background is not None
    asyncio.run(response.background())
    assert state.admitted == 0
