"""Places among the requests that run or wait."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import EngineBusy
from engine.kernel.admission import Admitted
from engine.protocol import Limits


def test_the_last_place_is_given_and_given_back_once() -> None:
    state: Any = SimpleNamespace(admitted=0, info=SimpleNamespace(limits=Limits(context_tokens=9, requests=2)))
    first, _second = Admitted(state), Admitted(state)
    with pytest.raises(EngineBusy, match=r"takes 2 \(limits\.requests\)"):
        Admitted(state)
    first.leave()
    first.leave()
    assert state.admitted == 1
    Admitted(state)
