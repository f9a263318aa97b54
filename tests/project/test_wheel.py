"""The built wheel is whole: installed where no clone is, `inkling demo` works and the tutorials are there."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.project.sources import PACKAGES, ROOT, tracked

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this clone with the build backend that pip fetches."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; third-party packages are seen through a .pth file, the clone is not."""
    folder = tmp_path_factory.mktemp("outside") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    libraries = tmp_path_factory.mktemp("libraries")
    for place in map(Path, site.getsitepackages()):
        for item in place.iterdir():
            # Neither our own distribution (its entry points would count twice) nor .pth files, which lead to the clone.
            if not item.name.startswith(("inkling_workbench", "_editable_impl")) and item.suffix != ".pth":
                (libraries / item.name).symlink_to(item)
    (packages / "libraries.pth").write_text(f"{libraries}\n", "utf-8")
    command = [sys.executable, "-m", "pip", "--python", str(folder), "install", "--quiet", "--no-deps", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return folder


def outside(folder: Path, *command: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the environment away from the clone, with a home of its own."""
    own = {"HOME": str(home), "INKLING_CACHE": str(home / "cache"), "JUPYTER_RUNTIME_DIR": str(home / "runtime")}
    keep = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "INKLING_ENGINE_URL")}
    program = [str(folder / "bin" / command[0]), *command[1:]]
    return subprocess.run(program, capture_output=True, text=True, cwd=home, env=keep | own, check=False, timeout=290)


def test_every_tracked_file_of_the_packages_is_inside(wheel: Path):
    """Python, and the samples, recipes, style sheets, modules and demo files beside it."""
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {str(path.relative_to(ROOT)) for path in tracked() if path.relative_to(ROOT).parts[0] in PACKAGES}
    assert wanted - inside == set()
    for ending in (".js", ".css", ".toml", ".pdf", ".png", ".wav"):
        assert any(name.endswith(ending) for name in inside), ending
    assert any(name.endswith("LICENSE") for name in inside)
    assert any(name.endswith("etc/jupyter/jupyter_server_config.d/inkling-workbench.json") for name in inside)
    assert {Path(name).name for name in inside if name.endswith(".ipynb")} == {
        path.name for path in (ROOT / "notebooks").glob("*.ipynb")
    }


def test_it_holds_nothing_but_the_packages(wheel: Path):
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if "inkling_workbench" not in top} == set(PACKAGES)
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if "__pycache__" in name]


def test_the_installed_packages_are_not_the_clones(installed: Path, tmp_path: Path):
    done = outside(
        installed, "python", "-c", "import engine, widgets, workbench; print(engine.__file__, workbench.__file__)", home=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert str(ROOT) not in done.stdout
    assert str(installed) in done.stdout


def test_the_demo_works_outside_the_clone(installed: Path, tmp_path: Path):
    done = outside(installed, "inkling", "demo", "--json", "--max-tokens", "8", home=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["report"] == str(tmp_path / "report.html")
    assert result["engine_started"] is True
    assert (tmp_path / "report.html").stat().st_size > 50_000


def test_the_tutorials_come_along(installed: Path, tmp_path: Path):
    code = "from workbench.cli import lab, output; print(lab.tutorials(output.Console()))"
    done = outside(installed, "python", "-c", code, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "inkling-notebooks")
    wanted = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert sorted(path.name for path in (tmp_path / "inkling-notebooks").glob("*.ipynb")) == wanted
