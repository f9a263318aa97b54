"""What ``make setup`` runs: a virtual environment with the workbench and the engine in it, made once.

Run by whatever Python the machine has, before anything is installed (``python3 -m workbench.installing`` in a clone), so: standard
library only. Idempotent: a stamp in the environment holds a hash of what was asked for, and nothing happens while it matches.

vLLM's CPU build wants torch's ``+cpu`` build, which the Python package index does not carry: where plain pip cannot find it,
PyTorch's public wheel index is named as a second one (``TORCH_INDEX``, set by the Makefile). Packages that do harm are removed
afterwards (:func:`workbench.environment.misfits`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from .environment import gpu_names, misfits

OLDEST_PYTHON = (3, 11)
SIZES = {
    "cpu": "about 1.3 GB to download, 3.6 GB on disk (4.7 GB for a moment), three minutes or more",
    "gpu": "about 6 GB to download, 14 GB on disk, ten minutes or more",
}
"""Said before anything is downloaded. `cpu` was measured (Debian 12, two cores); `gpu` is an estimate from the wheels' sizes."""

STAMP = "inkling-setup.json"


def say(text: str) -> None:
    """A line of progress, on standard error."""
    sys.stderr.write(f"setup: {text}\n")
    sys.stderr.flush()


def pyproject(project: Path) -> dict[str, Any]:
    """The clone's pyproject.toml."""
    import tomllib  # not in Python 3.10, which main() turns away with a sentence

    return tomllib.loads((project / "pyproject.toml").read_text("utf-8"))


def fingerprint(project: Path, extra: str) -> str:
    """Hash of what an environment depends on: requirements, entry points, package list, the clone's place, the extra."""
    values = pyproject(project)
    wanted = [values["build-system"], values["project"], values["tool"]["hatch"], str(project.resolve()), extra]
    return hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()


def set_up(project: Path, folder: Path, *, extra: str, torch_index: str, extras: str = "dev") -> bool:
    """Make or refresh the environment in `folder`.

    Parameters
    ----------
    project : Path
        The clone.
    folder : Path
        The virtual environment; made if missing.
    extra : {"cpu", "gpu"}
        Which engine.
    torch_index : str
        Wheel index to try where pip does not find torch's CPU build; empty for none.
    extras : str
        Further extras of pyproject, comma separated.

    Returns
    -------
    bool
        False when the stamp matched and nothing was done.

    Raises
    ------
    subprocess.CalledProcessError
        venv or pip failed; their own words are on standard error.
    """
    wanted = fingerprint(project, f"{extra},{extras}")
    python, stamp = folder / "bin" / "python", folder / STAMP
    if python.exists() and stamp.exists() and json.loads(stamp.read_text("utf-8")).get("fingerprint") == wanted:
        return False
    say(f"installing the workbench and the {extra} engine into {folder.name}/: {SIZES[extra]}")
    started = time.monotonic()
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    stamp.unlink(missing_ok=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    sources = torch_sources(pip, project, torch_index) if extra == "cpu" else []
    subprocess.run([*pip, "install", *sources, "-e", f"{project}[{extra},{extras}]"], check=True, stdout=sys.stderr)
    for misfit in misfits(python=str(python)):
        say(f"removing {misfit.name}: {misfit.why}")
        subprocess.run([*pip, "uninstall", "--quiet", "--yes", misfit.name], check=True, stdout=sys.stderr)
    stamp.write_text(json.dumps({"fingerprint": wanted, "extra": extra}) + "\n", "utf-8")
    say(f"ready after {time.monotonic() - started:.0f} s")
    return True


def torch_sources(pip: list[str], project: Path, torch_index: str) -> list[str]:
    """Options that let pip find torch's CPU build: none where it does already."""
    pin = next(need for need in pyproject(project)["project"]["dependencies"] if need.startswith("torch==")) + "+cpu"
    asked = subprocess.run([*pip, "install", "--dry-run", "--quiet", "--no-deps", pin], capture_output=True, text=True, check=False)
    if asked.returncode == 0 or not torch_index:
        return []
    say(f"pip's own sources have no {pin}; looking in {torch_index} too")
    return ["--extra-index-url", torch_index]


def main(argv: list[str] | None = None) -> int:
    """Run set-up; 0 when the environment is ready."""
    parser = argparse.ArgumentParser(prog="python -m workbench.installing", description="Make the environment of a clone.")
    parser.add_argument("--folder", type=Path, default=Path(".venv"))
    parser.add_argument("--engine", choices=("auto", "cpu", "gpu"), default="auto", help="auto: gpu where the driver lists one")
    parser.add_argument("--torch-index", default=os.environ.get("TORCH_INDEX", ""))
    args = parser.parse_args(argv)
    if sys.version_info < OLDEST_PYTHON:
        say(
            f"Python {sys.version.split()[0]} is too old: {'.'.join(map(str, OLDEST_PYTHON))} or newer; name one with make PYTHON=…"
        )
        return 2
    extra = args.engine if args.engine != "auto" else "gpu" if gpu_names() else "cpu"
    try:
        done = set_up(Path(__file__).resolve().parent.parent, args.folder, extra=extra, torch_index=args.torch_index)
    except subprocess.CalledProcessError as problem:
        what = "venv (on Debian it is in the package python3-venv)" if "venv" in problem.cmd else "pip; its last lines say why"
        say(f"stopped in {what}. Nothing outside {args.folder}/ was touched; make setup goes on from here.")
        return 1
    if not done:
        say(f"{args.folder}/ is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
