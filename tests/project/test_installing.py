"""Set-up: idempotent by its stamp, honest when it fails, and it removes what does not import."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.project.sources import ROOT
from workbench import environment, installing

NOWHERE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
"""pip with no source at all."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with this project's pyproject.toml and light modules."""
    folder = tmp_path / "clone"
    (folder / "workbench").mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name in ("__init__.py", "environment.py", "installing.py"):
        shutil.copy(ROOT / "workbench" / name, folder / "workbench")
    return folder


def broken_package(folder: Path, name: str) -> Path:
    """A package that is present and does not import, as torchvision beside another torch."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(f"raise RuntimeError('operator {name}::nms does not exist')\n", "utf-8")
    return folder


def test_nothing_happens_while_the_stamp_matches(clone: Path, monkeypatch: pytest.MonkeyPatch):
    python = clone / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    stamp = clone / ".venv" / installing.STAMP
    stamp.write_text(json.dumps({"fingerprint": installing.fingerprint(clone, "cpu,dev")}), "utf-8")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("nothing may be run"))
    assert installing.set_up(clone, clone / ".venv", extra="cpu", torch_index="") is False


def test_the_fingerprint_follows_requirements_and_place(clone: Path, tmp_path: Path):
    before = installing.fingerprint(clone, "cpu,dev")
    text = (clone / "pyproject.toml").read_text("utf-8")
    (clone / "pyproject.toml").write_text(text.replace("line-length = 132", "line-length = 100"), "utf-8")
    assert installing.fingerprint(clone, "cpu,dev") == before, "a linter's setting is no reason to install again"
    (clone / "pyproject.toml").write_text(text.replace("gradio==6.31.0", "gradio==6.31.1"), "utf-8")
    assert installing.fingerprint(clone, "cpu,dev") != before
    (clone / "pyproject.toml").write_text(text, "utf-8")
    assert installing.fingerprint(clone, "gpu,dev") != before
    moved = shutil.move(clone, tmp_path / "moved")
    assert installing.fingerprint(Path(moved), "cpu,dev") != before, "an editable install points at the old place"


def test_a_failure_says_where_and_leaves_no_stamp(clone: Path):
    """Real venv and pip, with no source to install from."""
    command = [sys.executable, "-m", "workbench.installing", "--engine", "cpu", "--torch-index", ""]
    done = subprocess.run(command, cwd=clone, env=os.environ | NOWHERE, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("setup: installing the workbench and the cpu engine into .venv/: about 1.3 GB to download")
    assert "setup: stopped in pip" in done.stderr
    assert not (clone / ".venv" / installing.STAMP).exists()


def test_the_wheel_index_is_named_only_where_pip_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """pip is asked for real; the "index" is a folder with a wheel that has nothing but metadata."""
    for name, value in (NOWHERE | {"PIP_NO_INDEX": "0", "PIP_INDEX_URL": (tmp_path / "empty").as_uri()}).items():
        monkeypatch.setenv(name, value)
    pin = next(need for need in installing.pyproject(ROOT)["project"]["dependencies"] if need.startswith("torch=="))
    version = pin.removeprefix("torch==") + "+cpu"
    simple = tmp_path / "index" / "torch"
    simple.mkdir(parents=True)
    wheel = f"torch-{version}-py3-none-any.whl"
    with zipfile.ZipFile(simple / wheel, "w") as archive:
        info = f"torch-{version}.dist-info"
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    (simple / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>', "utf-8")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "empty-venv")], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(tmp_path / "empty-venv"), "--disable-pip-version-check"]
    index = (tmp_path / "index").as_uri()

    options = installing.torch_sources(pip, ROOT, index)
    assert options == ["--extra-index-url", index]
    command = [*pip, "install", "--dry-run", "--no-deps", *options, f"torch=={version}"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert f"Would install torch-{version}" in found.stdout

    monkeypatch.setenv("PIP_INDEX_URL", index)
    assert installing.torch_sources(pip, ROOT, "https://not.asked.example") == []


def test_misfits_are_found_by_import_not_by_presence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    broken_package(tmp_path, "torchvision")
    (tmp_path / "torchcodec").mkdir()
    (tmp_path / "torchcodec" / "__init__.py").write_text("", "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = environment.misfits(gpu=True)
    assert [misfit.name for misfit in found] == ["torchvision"]
    assert "operator torchvision::nms does not exist" in found[0].why


def test_triton_is_a_misfit_only_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("", "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert [misfit.name for misfit in environment.misfits(gpu=False)] == ["triton"]
    assert environment.misfits(gpu=True) == []


def test_an_old_python_is_told_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    assert installing.main([]) == 2
    assert "too old: 3.11 or newer" in capsys.readouterr().err
