"""An engine's life: starts that fail, second starts, every way to end; nothing stays behind.

Each slow test has an engine of its own, because it kills it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import engine
from engine import demo as engine_demo
from engine import recipes, starting
from engine.errors import BadRequest, EngineAuthError, EngineDied, EngineNotFound, EngineStartError, EngineUnreachable
from engine.protocol import Reasoning, Text
from workbench import CapturePlan, Context

GONE_S = 20.0
"""Processes may take this long to end on a busy machine; what matters is that they do."""


def asked(question: str = "Go on for ever.") -> Context:
    context = Context()
    context.ask(question)
    return context


def family(pid: int) -> list[psutil.Process]:
    """A kernel's process and all below it: engine core, workers, resource tracker."""
    kernel = psutil.Process(pid)
    return [kernel, *kernel.children(recursive=True)]


def assert_all_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=GONE_S)
    left = [one for one in alive if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    assert not left, [(one.pid, one.name()) for one in left]


def named(processes: list[psutil.Process], part: str) -> psutil.Process:
    return next(one for one in processes if part in " ".join(one.cmdline()))


def shared_memory() -> set[str]:
    return {path.name for path in Path("/dev/shm").iterdir()}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place of its own for one engine; whatever was started there is ended."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("INKLING_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("INKLING_ENGINE_URL", raising=False)
    yield tmp_path
    for child in starting._CHILDREN.copy().values():
        if str(tmp_path) in " ".join(map(str, child.args)):  # type: ignore[arg-type]
            starting.kill_group(child)


@pytest.fixture
def started(own: Path) -> engine.Engine:
    return engine.start("demo")


def pid_of(eng: engine.Engine) -> int:
    (found,) = (item for item in engine.list() if item.url == eng.url)
    return found.presence.pid


def in_flight(eng: engine.Engine) -> tuple[threading.Thread, list[BaseException]]:
    """A stream that has given its first text and goes on in a thread; what ended it is collected."""
    first, ended = threading.Event(), []

    def follow() -> None:
        try:
            for event in eng.stream(asked(), max_tokens=100_000, temperature=2.0, seed=1):
                if isinstance(event, Text | Reasoning):
                    first.set()
            ended.append(RuntimeError("the stream ended in order"))
        except BaseException as problem:
            ended.append(problem)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert first.wait(60)
    return thread, ended


# ---- starts that fail ------------------------------------------------------------------------------------------------------------


def test_a_port_that_is_taken_fails_at_once_and_says_so(own: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EngineStartError, match=rf"port {port} .*Log: .*kernel\.log") as caught:
            engine.start("demo", port=port, say=lambda _: None)
    assert Path(caught.value.detail["log"]).is_file()
    assert engine.list() == []


def test_too_little_memory_is_seen_before_anything_starts(own: Path) -> None:
    recipe = own / "huge.toml"
    recipe.write_text("title = 'huge'\nmodel = 'demo'\nmemory_bytes = 1_000_000_000_000_000\n[args]\nblock-size = 16\n", "utf-8")
    with pytest.raises(EngineStartError, match=r"needs 1000000\.0 GB of free memory"):
        engine.start(recipe)
    assert not list((own / "cache").rglob("kernel.log"))


def test_listening_beyond_this_machine_needs_a_chosen_token(own: Path) -> None:
    with pytest.raises(EngineStartError, match="other machines"):
        engine.start("demo", host="0.0.0.0")


def test_without_vllm_the_remedy_is_named(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "vllm" else find(name, *rest))
    with pytest.raises(EngineStartError, match=r"inkling-workbench\[cpu\]"):
        engine.start("demo")


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ("(EngineCore pid=1) ModuleNotFoundError: No module named 'scipy'\n", "a package is missing: scipy"),
        ("(Worker pid=1) torch.OutOfMemoryError: CUDA out of memory. Tried\n", "GPU memory ran out"),
        ("(EngineCore pid=1) ValueError: No available memory for the cache blocks. Try\n", "not enough memory"),
        ("(Worker pid=1) ERROR 11-30 RuntimeError: size mismatch for layer\n", "size mismatch for layer"),
        ("nothing of note\n", "Engine core initialization failed"),
    ],
)
def test_the_cause_is_read_from_the_log(tmp_path: Path, log: str, says: str) -> None:
    path = tmp_path / "kernel.log"
    path.write_text(log, "utf-8")
    given = EngineStartError("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}")
    error = starting.start_error(given.to_json(), path)
    assert says in error.message
    assert str(path) in error.message


def test_a_kernel_killed_without_a_word_points_at_memory() -> None:
    assert "out of memory" in starting.exit_error(-signal.SIGKILL).message


def test_progress_of_loading_is_read_from_the_log(tmp_path: Path) -> None:
    log = tmp_path / "kernel.log"
    assert starting.load_progress(log) == ""
    bar = "Loading safetensors checkpoint shards: {:3.0f}% Completed | {}/{} [00:05<01:00,  5.00s/it]\n"
    log.write_text("".join(bar.format(100 * n / 25, n, 25) for n in range(8)), "utf-8")
    assert starting.load_progress(log) == "weights: 7 of 25 files"
    log.write_text(bar.format(100, 1, 1), "utf-8")
    assert starting.load_progress(log) == ""


def broken_recipe(folder: Path) -> Path:
    recipe = folder.with_suffix(".toml")
    demo = (recipes.FOLDER / "demo.toml").read_text("utf-8")
    recipe.write_text(demo.replace('model = "demo"', f'model = "{folder}"'), "utf-8")
    return recipe


def test_a_folder_that_is_no_checkpoint_says_what_it_lacks(own: Path) -> None:
    folder = own / "empty"
    folder.mkdir()
    with pytest.raises(EngineStartError, match=r"not a checkpoint: it has no config\.json, no tokenizer\.json, no \*\.safetensors"):
        engine.start(broken_recipe(folder), say=lambda _: None)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_weights_that_cannot_be_read_say_so_and_leave_nothing(own: Path) -> None:
    folder = own / "broken"
    shutil.copytree(engine_demo.unpack(), folder)
    for path in folder.glob("*.safetensors"):
        path.write_bytes(b"not weights at all")
    with pytest.raises(EngineStartError, match=r"did not start: [^\n]*[Ss]afe[Tt]ensor[^\n]*Log: "):
        engine.start(broken_recipe(folder))
    assert engine.list() == []
    assert_all_gone([one for one in psutil.process_iter() if str(own) in " ".join(_cmdline(one))])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_interrupting_a_start_ends_what_was_started(own: Path) -> None:
    def interrupt(line: str) -> None:
        if "loading the model" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.start("demo", say=interrupt)
    assert_all_gone([one for one in psutil.process_iter() if str(own) in " ".join(_cmdline(one))])
    assert engine.list() == []


# ---- lives and deaths ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_outlives_who_started_it_and_a_second_start_attaches(own: Path) -> None:
    subprocess.run([sys.executable, "-c", "import engine; engine.start('demo')"], check=True, timeout=300)
    said: list[str] = []
    eng = engine.start("demo", say=said.append)
    assert any("attached" in line for line in said)
    assert os.getpgid(pid_of(eng)) != os.getpgid(0)
    processes, shared = family(pid_of(eng)), shared_memory()
    eng.stop()
    assert_all_gone(processes)
    eng.stop()  # once more is no error
    with pytest.raises(EngineNotFound):
        engine.attach()
    assert shared_memory() <= shared
    with pytest.raises(EngineDied):
        eng.generate(asked())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sigterm_ends_streams_with_abort_and_everything_else(started: engine.Engine) -> None:
    processes = family(pid_of(started))
    thread, ended = in_flight(started)
    os.kill(processes[0].pid, signal.SIGTERM)
    thread.join(20)
    assert [str(problem) for problem in ended] == ["the stream ended in order"]
    assert_all_gone(processes)
    assert engine.list() == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("victim", ["engine.kernel", "EngineCore", "Worker"])
def test_kill_9_of_any_process_ends_all_and_tells_clients_at_once(started: engine.Engine, victim: str) -> None:
    processes, before = family(pid_of(started)), shared_memory()
    name = started.generate(asked("Kept?"), max_tokens=1).context
    thread, ended = in_flight(started)
    named(processes, victim).kill()
    thread.join(30)
    assert [type(problem) for problem in ended] == [EngineDied]
    assert_all_gone(processes)
    with pytest.raises(EngineDied):
        started.generate(asked())
    with pytest.raises(EngineUnreachable):
        started.status()
    assert engine.list() == [], "a discovery file that nobody answers for is not believed"
    assert not shared_memory() - before
    # What was sent is still there for the next engine.
    assert (Path(started.log or "").parents[2] / "contexts" / f"{name.removeprefix('sha256:')}.iwc").is_file()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kill_9_of_what_tidies_up_costs_nothing(started: engine.Engine) -> None:
    """Python's resource tracker computes nothing and no client waits for it: the engine goes on, and leaves nothing behind."""
    processes, before = family(pid_of(started)), shared_memory()
    thread, ended = in_flight(started)
    trackers = [one for one in processes if "resource_tracker" in " ".join(one.cmdline())]
    assert trackers
    for one in trackers:
        one.kill()
    assert started.generate(asked("Still there?"), max_tokens=2, temperature=0).usage.completion_tokens == 2
    capture = started.capture(asked("And inside?"), CapturePlan(routing=True))
    assert capture.routing.sizes["t"] > 0
    started.stop()
    thread.join(20)
    assert [str(problem) for problem in ended] == ["the stream ended in order"]
    assert_all_gone(processes)
    assert engine.list() == []
    assert shared_memory() <= before


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_line_starts_shows_and_stops(own: Path) -> None:
    import json

    inkling = [sys.executable, "-c", "import sys; from workbench.cli import main; sys.exit(main())", "engine"]

    def run(*words: str) -> dict:
        done = subprocess.run([*inkling, *words, "--json"], capture_output=True, text=True, timeout=300, check=False)
        lines = done.stdout.splitlines()
        assert len(lines) == 1, done
        return json.loads(lines[0]) | {"exit": done.returncode}

    begun = run("start", "--set", "max-num-seqs=4")
    assert (begun["recipe"], begun["exit"]) == ("demo", 0)
    assert run("list")["engines"][0]["url"] == begun["url"]
    assert run("status")["alive"] is True
    assert any("ready" in line or "INFO" in line for line in run("logs", "-n", "200")["lines"])
    assert run("stop")["stopped"] == [begun["url"]]
    assert run("list")["engines"] == []
    missing = run("status")
    assert (missing["error"]["code"], missing["exit"]) == ("engine-not-found", 1)
    assert run("start", "nothing")["exit"] == 2


def test_an_unknown_recipe_starts_nothing() -> None:
    before = engine.list()
    with pytest.raises(BadRequest, match="no recipe 'nothing'"):
        engine.start("nothing")
    assert engine.list() == before


@pytest.mark.engine
def test_another_token_is_refused(eng) -> None:
    with pytest.raises(EngineAuthError):
        engine.attach(eng.url, "x" * 32)


def _cmdline(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []
