"""`inkling demo`: the whole job, with one JSON object at its end; Ctrl-C at any moment leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import engine
import engine.demo

CODE = "import sys; from workbench.cli import main; sys.exit(main())"


def demo(out: Path, *more: str, **environment: str) -> subprocess.Popen[str]:
    """Start the command in a session of its own, as a terminal would."""
    return subprocess.Popen(
        [sys.executable, "-c", CODE, "demo", "--out", str(out), *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | environment, start_new_session=True,
    )  # fmt: skip


@pytest.mark.engine
def test_the_whole_job_on_a_running_engine(eng: engine.Engine, tmp_path: Path):
    process = demo(tmp_path / "report.html", "--json", "--max-tokens", "8")
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    result = json.loads(output)
    assert output.count("\n") == 1
    assert result["engine_started"] is False
    assert result["completion_tokens"] <= 8
    assert "it stays when this ends" in errors
    assert eng.status(), "the engine it found is still there"
    page = (tmp_path / "report.html").read_text("utf-8")
    for text in ("harbour.pdf", "chart.png", "call.wav", "Who is the harbour master of Lisbon?"):
        assert text in page
    assert 'src="http' not in page
    assert 'href="http' not in page


@pytest.mark.engine
def test_the_demo_answers_its_question(eng: engine.Engine, tmp_path: Path):
    if eng.info.revision != engine.demo.revision():
        pytest.skip("another checkpoint is attached")
    process = demo(tmp_path / "report.html")
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert "It is Ana Duarte." in output
    assert "Random weights" not in output
    assert "harbour.pdf" in output, "the budget table"


def test_a_report_that_cannot_be_written_is_refused_first(tmp_path: Path):
    process = demo(tmp_path / "nowhere" / "report.html", "--json")
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert json.loads(output)["error"]["code"] == "bad-request"
    assert "starting" not in errors


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Cache and runtime folders in which no engine runs, and a check that none does afterwards."""
    places = {"INKLING_CACHE": str(tmp_path / "cache"), "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"), "INKLING_ENGINE_URL": ""}
    yield places
    assert processes_with(tmp_path) == []


def processes_with(folder: Path) -> list[str]:
    """Command lines of processes whose environment names `folder`: what the demo started, however it detached."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(folder) in process.environ().get("INKLING_CACHE", "") and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except (psutil.AccessDenied, psutil.NoSuchProcess):
            continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "ending"),
    [
        ("importing vLLM", signal.SIGINT),
        ("loading the model", signal.SIGINT),
        ("loading the model", signal.SIGHUP),
        ("the engine is up", signal.SIGINT),
        ("the engine is up", signal.SIGTERM),
    ],
)
def test_an_end_at_any_moment_leaves_nothing(apart: dict[str, str], tmp_path: Path, moment: str, ending: signal.Signals):
    """While the engine imports, while it loads, and once it answers."""
    process = demo(tmp_path / "report.html", **apart)
    assert process.stderr is not None
    for line in process.stderr:
        if moment in line:
            break
    else:
        pytest.fail(f"never said {moment!r}")
    process.send_signal(ending)
    process.communicate(timeout=120)
    assert process.returncode == 130
    assert not (tmp_path / "report.html").exists() or moment == "the engine is up"
    deadline = time.monotonic() + 30
    while processes_with(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.2)


@pytest.mark.slow
def test_it_stops_what_it_started(apart: dict[str, str], tmp_path: Path):
    process = demo(tmp_path / "report.html", "--json", "--max-tokens", "4", **apart)
    output, errors = process.communicate(timeout=280)
    assert process.returncode == 0, errors
    result = json.loads(output)
    assert result["engine_started"] is True
    assert result["steps"][-1]["step"] == "engine stopped"
