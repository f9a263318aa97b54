"""A supervised kernel: started again where it was, not for ever, and gone when it is told to or its supervisor is.

The supervisor's own decisions are tried on a stand-in that comes up and ends as it is told; the slow test kills a real engine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

import engine
from engine import supervising
from engine.errors import EngineDied, EngineNotFound, FeatureUnsupported
from engine.protocol import exits
from engine.protocol.presence import KernelSettings
from engine.protocol.steps import SETTINGS, STEPS
from engine.supervising import MOST_RESTARTS, Supervisor, successor
from tests.kernel.test_life import asked, assert_all_gone, family, in_flight, named

PORT = 40123


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    run = tmp_path / "runs" / "first"
    run.mkdir(parents=True)
    made = KernelSettings(
        model="demo", args=["--x", "1"], token="t" * 20, nonce="first", home=str(tmp_path), run=str(run), runtime=str(tmp_path),
        supervised=True,
    )  # fmt: skip
    (run / SETTINGS).write_text(made.model_dump_json(), "utf-8")
    return run / SETTINGS


def kernels(tmp_path: Path, endings: list[str], *, ready: bool = True):
    """A command that comes up as a kernel does, notes its settings, and then ends as the next of `endings` says."""
    step = json.dumps({"step": "ready", "url": f"http://127.0.0.1:{PORT}"}) if ready else json.dumps({"step": "failed"})

    def command(path: Path) -> Sequence[str]:
        with (tmp_path / "started").open("a") as file:
            file.write(f"{path}\n")
        (path.parent / STEPS).write_text(step + "\n", "utf-8")
        return [sys.executable, "-c", f"import os, signal, sys, time\n{endings.pop(0)}"]

    return command


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch):
    """Signal handlers are the supervisor's own while it runs; without the pause a test of four starts takes a second."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setattr(supervising, "PAUSE_S", 0.0)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def started(tmp_path: Path) -> list[KernelSettings]:
    return [KernelSettings.model_validate_json(Path(line).read_text()) for line in (tmp_path / "started").read_text().split()]


def test_a_kernel_that_dies_comes_back_where_it_was(tmp_path: Path, settings: Path) -> None:
    kill = "os.kill(os.getpid(), signal.SIGKILL)"
    code = Supervisor(settings, command=kernels(tmp_path, [kill, f"sys.exit({exits.DIED})", "sys.exit(0)"])).run()
    first, second, third = started(tmp_path)
    assert code == exits.OK
    assert (second.port, third.port) == (PORT, PORT)
    assert first.token == second.token == third.token
    assert len({first.nonce, second.nonce, third.nonce}) == 3, "a discovery file of the dead one is nobody's"
    assert second.model_dump(exclude={"nonce", "run", "port"}) == first.model_dump(exclude={"nonce", "run", "port"})
    assert "ended with SIGKILL; starting it again" in (settings.parent / "kernel.log").read_text()


def test_one_that_dies_again_and_again_is_left_dead_with_the_reason(tmp_path: Path, settings: Path) -> None:
    deaths = [f"sys.exit({exits.DIED})"] * (MOST_RESTARTS + 3)
    assert Supervisor(settings, command=kernels(tmp_path, deaths)).run() == exits.DIED
    runs = started(tmp_path)
    assert len(runs) == MOST_RESTARTS + 1
    assert "not starting it again" in (Path(runs[-1].run) / "kernel.log").read_text()


def test_restarts_that_were_asked_for_are_not_counted(tmp_path: Path, settings: Path) -> None:
    endings = [f"sys.exit({exits.RESTART})"] * (MOST_RESTARTS + 2) + ["sys.exit(0)"]
    assert Supervisor(settings, command=kernels(tmp_path, endings)).run() == exits.OK
    assert len(started(tmp_path)) == MOST_RESTARTS + 3


@pytest.mark.parametrize("code", [exits.FAILED, exits.DIED])
def test_one_that_never_came_up_is_not_tried_again(tmp_path: Path, settings: Path, code: int) -> None:
    assert Supervisor(settings, command=kernels(tmp_path, [f"sys.exit({code})"], ready=False)).run() == code
    assert len(started(tmp_path)) == 1


def test_told_to_stop_it_tells_the_kernel_and_starts_no_other(tmp_path: Path, settings: Path) -> None:
    wait = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\nprint('up', flush=True)\ntime.sleep(60)"
    supervisor = Supervisor(settings, command=kernels(tmp_path, [wait, "sys.exit(0)"]))

    def tell(*_: object) -> None:
        log = settings.parent / "kernel.log"
        if log.exists() and "up" in log.read_text():
            signal.setitimer(signal.ITIMER_REAL, 0)
            os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGALRM, tell)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    assert supervisor.run() == exits.DIED
    assert len(started(tmp_path)) == 1


def test_a_successors_settings_are_private(settings: Path) -> None:
    assert successor(settings, PORT).stat().st_mode & 0o077 == 0


@pytest.mark.engine
def test_an_engine_that_nobody_watches_is_not_ended_to_be_restarted(eng) -> None:
    with pytest.raises(FeatureUnsupported, match="supervise"):
        eng.restart()
    assert eng.status()["stopping"] is False


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_real_engine_comes_back_by_itself_and_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill the engine's core, then ask for a restart, then kill the supervisor: contexts outlive all of it, processes do not."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("INKLING_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("INKLING_ENGINE_URL", raising=False)
    eng = engine.start("demo", supervise=True)
    assert eng.info.supervised
    (found,) = engine.list()
    supervisor = psutil.Process(found.presence.pid).parent()
    assert supervisor is not None
    assert "engine.supervising" in supervisor.cmdline()
    try:
        context = asked("Kept?")
        before = eng.generate(context, max_tokens=4, temperature=0)
        thread, ended = in_flight(eng)
        dead = family(found.presence.pid)
        named(dead, "EngineCore").kill()
        thread.join(30)
        assert [type(problem) for problem in ended] == [EngineDied], "told at once, not by a time-out"
        assert_all_gone(dead)
        nonce = back(eng.url, eng._connection.token or "", eng.info.nonce)
        after = eng.generate(context, max_tokens=4, temperature=0)
        assert (after.token_ids.tolist(), after.context) == (before.token_ids.tolist(), before.context)
        assert eng.url == engine.attach().url
        eng = engine.attach()
        assert eng.info.nonce == nonce
        eng.restart(timeout_s=600)
        assert eng.info.nonce not in (nonce, found.nonce)
        assert eng.generate(context, max_tokens=4, temperature=0).token_ids.tolist() == before.token_ids.tolist()
        (now,) = engine.list()
        processes = family(now.presence.pid)
        supervisor.kill()
        assert_all_gone(processes)
        with pytest.raises(EngineNotFound):
            engine.attach()
    finally:
        for process in [supervisor, *supervisor.children(recursive=True)] if supervisor.is_running() else []:
            process.kill()
        subprocess.run(["true"], check=True)  # reaps what this process started


def back(url: str, token: str, before: str) -> str:
    """Wait until an engine answers there again; its nonce."""
    import httpx

    for _ in range(1200):
        try:
            answer = httpx.get(f"{url}/workbench/info", headers={"authorization": f"Bearer {token}"}, timeout=5)
            if answer.is_success and answer.json()["nonce"] != before:
                return answer.json()["nonce"]
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    raise AssertionError("it did not come back")
