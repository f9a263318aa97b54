"""What is in a Python environment: which packages import there, which stand in the engine's way, whether there is a GPU.

Every question about importing is asked in a fresh interpreter, because a package that breaks on import (an extension module built
for another torch) can break the asking process too, and because presence says nothing. Standard library only: set-up asks these
questions of an environment whose packages are in doubt. This module installs nothing and knows nothing of the engine.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass

TORCH_SIBLINGS = ("torchvision", "torchaudio", "torchcodec")
"""Packages with extension modules built against one exact torch. Nothing here uses them; one that does not match its torch breaks
``import vllm`` and transformers' processors."""

IMPORT_TIMEOUT_S = 180.0
"""A cold import of torch takes seconds; on a busy machine with a cold disk cache far longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """An installed package that does harm or serves nothing, and why."""

    name: str
    why: str


def gpu_names() -> list[str]:
    """NVIDIA GPUs the driver lists, one line each; empty without a driver."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        found = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.split(" (UUID")[0] for line in found.stdout.splitlines() if line.startswith("GPU ")]


def import_problem(module: str, *, python: str = sys.executable, code: str = "") -> str | None:
    """Why `module` cannot be imported by `python`: the last line of the traceback, or None when it imports.

    Parameters
    ----------
    module : str
        Dotted name.
    python : str
        Interpreter to ask.
    code : str
        Statements to run after the import.

    Examples
    --------
    >>> import_problem("json")
    >>> import_problem("no_such_module")
    "ModuleNotFoundError: No module named 'no_such_module'"
    """
    try:
        done = subprocess.run(
            [python, "-c", f"import {module}\n{code}"], capture_output=True, text=True, timeout=IMPORT_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"importing it took more than {IMPORT_TIMEOUT_S:.0f} s"
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"the interpreter ended with status {done.returncode}"


def present(module: str, *, python: str = sys.executable) -> bool:
    """Whether `python` finds `module` at all, without importing it."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", code], capture_output=True, timeout=60, check=False).returncode == 0


def misfits(*, python: str = sys.executable, gpu: bool | None = None) -> list[Misfit]:
    """Installed packages that set-up should remove from the environment of `python`.

    A sibling of torch that does not import beside it; and Triton where there is no GPU (1 GB, and nothing runs it there).
    """
    gpu = bool(gpu_names()) if gpu is None else gpu
    found = []
    for name in TORCH_SIBLINGS:
        if present(name, python=python) and (problem := import_problem(name, python=python)):
            found.append(Misfit(name=name, why=f"does not import beside the installed torch ({problem})"))
    if not gpu and present("triton", python=python):
        found.append(Misfit(name="triton", why="serves nothing without a GPU"))
    return found
