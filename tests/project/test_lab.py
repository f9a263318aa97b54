"""`inkling lab`: a real JupyterLab that answers at the printed address, is quiet, and is gone after Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.project.sources import ROOT
from workbench.cli import lab
from workbench.cli.output import Console


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one notebook."""
    place = tmp_path / "notebooks"
    place.mkdir()
    (place / "01_first.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', "utf-8")
    return place


def start(folder: Path, tmp_path: Path, *more: str) -> subprocess.Popen[str]:
    """`inkling lab` without an engine, with settings of its own, as a shell would start it."""
    own = {
        name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "INKLING_CACHE")
    }
    code = "import sys; from workbench.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "lab", "--json", "--no-engine", "--folder", str(folder), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | own)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_answers_and_goes(folder: Path, tmp_path: Path, ending: signal.Signals):
    process = start(folder, tmp_path)
    assert process.stdout is not None
    try:
        shown = json.loads(process.stdout.readline())
        assert shown["url"].startswith(f"http://127.0.0.1:{shown['port']}/lab/tree/01_first.ipynb?token=")
        page = httpx.get(shown["url"], timeout=60)
        assert page.status_code == 200
        assert "@jupyterlab/apputils-extension:announcements" in page.text.split('"disabledExtensions"')[1][:200]
        without_token = httpx.get(f"http://127.0.0.1:{shown['port']}/api/contents", timeout=60)
        assert without_token.status_code == 403
    finally:
        process.send_signal(ending)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors.endswith("stopped\n")
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{shown['port']}/api", timeout=5)


def test_a_taken_port_is_reported_with_the_log(folder: Path, tmp_path: Path):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = start(folder, tmp_path, "--port", str(taken.getsockname()[1]))
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "lab.log" in errors
    assert json.loads(output)["error"]["code"] == "lab-start"


def test_a_missing_folder_is_bad_input(tmp_path: Path):
    process = start(tmp_path / "nowhere", tmp_path)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "no such folder" in errors


def test_the_clone_serves_its_own_notebooks():
    assert lab.tutorials(Console()) == ROOT / "notebooks"


def test_bundled_tutorials_are_copied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """From a wheel the tutorials become the user's own files, and stay as the user left them."""
    source = tmp_path / "share" / "02_more.ipynb"
    source.parent.mkdir()
    source.write_text("new", "utf-8")
    mine = tmp_path / "home" / "inkling-notebooks"
    mine.mkdir(parents=True)
    (mine / "01_first.ipynb").write_text("changed by me", "utf-8")
    (tmp_path / "share" / "01_first.ipynb").write_text("new", "utf-8")

    class Item:
        def __init__(self, path: Path) -> None:
            self.path, self.suffix = path, path.suffix

        def locate(self) -> Path:
            return self.path

    monkeypatch.setattr(lab, "__file__", str(tmp_path / "site-packages" / "workbench" / "cli" / "lab.py"))
    monkeypatch.setattr(lab.metadata, "files", lambda name: [Item(path) for path in (tmp_path / "share").iterdir()])
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert lab.tutorials(Console()) == mine
    assert (mine / "01_first.ipynb").read_text("utf-8") == "changed by me"
    assert (mine / "02_more.ipynb").read_text("utf-8") == "new"
