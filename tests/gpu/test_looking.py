"""The checks of :mod:`.looking` on the engine that the environment names (``INKLING_ENGINE_URL``), where it runs on a GPU."""

from __future__ import annotations

import pytest

import engine

from .looking import check

pytestmark = [pytest.mark.gpu, pytest.mark.engine, pytest.mark.timeout(900)]


def test_captures_and_interventions(eng: engine.Engine) -> None:
    if not eng.info.mode.startswith("gpu"):
        pytest.skip(f"the engine runs in mode {eng.info.mode!r}")
    assert eng.info.architecture is not None
    assert check(eng, layer=eng.info.architecture.moe_layers[0]).wrong == []
