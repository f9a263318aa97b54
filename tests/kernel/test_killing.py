"""kill -9 while an engine comes up and while it reads a prompt: no orphan, no discovery file, an error that says so.

Killed while answering: :mod:`tests.kernel.test_life`; under a supervisor: :mod:`tests.kernel.test_supervising`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import engine
from engine.errors import EngineDied, EngineStartError
from engine.protocol import PrefillProgress
from tests.kernel.test_life import assert_all_gone, family, named, pid_of, shared_memory
from workbench import Context

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("INKLING_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("INKLING_ENGINE_URL", raising=False)
    yield tmp_path
    for process in below(tmp_path):
        process.kill()


def below(folder: Path) -> list[psutil.Process]:
    """Every process that was started for this folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if str(folder) in " ".join(process.info["cmdline"] or ()):
            found += [process, *process.children(recursive=True)]
    return found


@pytest.mark.parametrize("moment", ["importing vLLM", "loading the model", "warming up"])
def test_killed_while_it_comes_up(own: Path, moment: str) -> None:
    before, seen = shared_memory(), list[psutil.Process]()

    def kill(line: str) -> None:
        if moment in line and not seen:
            seen.extend(below(own))
            seen[0].kill()

    with pytest.raises(EngineStartError, match=r"killed|ended while starting"):
        engine.start("demo", say=kill)
    assert seen, moment
    assert_all_gone([*seen, *below(own)])
    assert engine.list() == []
    assert not shared_memory() - before


@pytest.mark.parametrize("victim", ["EngineCore", "Worker"])
def test_killed_while_it_reads_a_prompt(own: Path, victim: str) -> None:
    eng = engine.start("demo")
    processes = family(pid_of(eng))
    context = Context(effort="none")
    context.add_text("harbour " * 60_000)
    context.ask("How many?")

    def read() -> None:
        for event in eng.stream(context, max_tokens=2):
            if isinstance(event, PrefillProgress) and event.done_tokens:
                named(processes, victim).kill()

    with pytest.raises(EngineDied):
        read()
    assert_all_gone(processes)
    assert engine.list() == []
