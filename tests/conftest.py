"""What every test may use: places of its own, and one engine for the whole run.

No test touches the user's cache or Jupyter folders. To develop against an engine that is already running, set
``INKLING_ENGINE_URL`` and ``INKLING_ENGINE_TOKEN``; it is left running.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import engine


@pytest.fixture(scope="session", autouse=True)
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Cache and runtime folders of this run, in the environment so that subprocesses share them; the folder that holds them."""
    folder = tmp_path_factory.mktemp("places")
    chosen = {"INKLING_CACHE": str(folder / "cache"), "JUPYTER_RUNTIME_DIR": str(folder / "runtime")}
    before = {name: os.environ.get(name) for name in chosen}
    os.environ.update(chosen)
    yield folder
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture(scope="session")
def eng(places: Path) -> Iterator[engine.Engine]:
    """The shared engine: the demo recipe on real vLLM. Tests that use it carry ``pytest.mark.engine`` and leave it as it was."""
    if os.environ.get("INKLING_ENGINE_URL"):
        yield engine.attach()
        return
    running = engine.start("demo")
    try:
        yield running
    finally:
        running.stop()
