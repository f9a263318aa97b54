"""Compile the native kernels with the system's compiler, once per source, compiler and processor.

The library lies in the user's cache (``INKLING_CACHE``). It is written under a name of its own and renamed: processes that start at
once build it twice and get the same. Knows no torch; what the libraries do is :mod:`.kernel`'s and :mod:`.layers`' matter.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from ...protocol import places

SOURCES = Path(__file__).parent

SWITCH = "INKLING_NATIVE"
"""Environment: ``0`` leaves everything to torch; the name of an instruction set lets attention take no wider one."""

COMPILERS = ("c++", "g++", "clang++")
"""Tried in this order, after ``CXX``."""

FLAGS = ("-std=c++17", "-O3", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC", "-Wno-psabi", "-Wl,--as-needed")
TIMEOUT_S = 120


class NotBuilt(Exception):
    """There is no library; the text says why. Never leaves this package: the torch kernels take over."""


def switched_off() -> str:
    """Why there shall be no native kernel in this process; empty when there shall be one."""
    switch = os.environ.get(SWITCH, "").strip().lower()
    if switch in ("0", "off", "no", "false"):
        return f"{SWITCH}={switch}"
    if sys.platform != "linux" or sys.byteorder != "little":
        return f"no native kernel on {platform.system()} {platform.machine()}"
    return ""


def load(name: str, *flags: str) -> ctypes.CDLL:
    """The library made from ``name.cpp``, compiled (about two seconds) when the cache does not have it.

    Raises
    ------
    NotBuilt
        It cannot be made or loaded here.
    """
    path = _library(name, flags)
    try:
        return ctypes.CDLL(str(path))
    except OSError as problem:
        raise NotBuilt(f"{path} cannot be loaded: {problem}") from problem


def _library(name: str, flags: tuple[str, ...]) -> Path:
    """Path of a compiled library.

    Raises
    ------
    NotBuilt
        No compiler, one that fails, or a cache that cannot be written.
    """
    command, threads, source_path = [*compiler(), *FLAGS, *flags], openmp(), SOURCES / f"{name}.cpp"
    try:
        source = source_path.read_bytes()
        version = subprocess.run([*compiler(), "--version"], capture_output=True, timeout=TIMEOUT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError) as problem:
        raise NotBuilt(f"{shlex.join(compiler())} does not run: {problem}") from problem
    made_from = (source, version, " ".join(command).encode(), (threads or "").encode(), processor().encode())
    digest = hashlib.sha256(b"\0".join(made_from)).hexdigest()[:16]
    path = places.cache_folder() / "native" / f"{name}-{digest}.so"
    if not path.exists():
        _compile([*command, str(source_path), *filter(None, [threads])], path)
    return path


def compiler() -> list[str]:
    """The C++ compiler's command: ``CXX``, or the first of :data:`COMPILERS` that is installed.

    Raises
    ------
    NotBuilt
        There is none.
    """
    if chosen := shlex.split(os.environ.get("CXX", "")):
        return chosen
    for name in COMPILERS:
        if path := shutil.which(name):
            return [path]
    raise NotBuilt(f"no C++ compiler is installed ({', '.join(COMPILERS)}; CXX names another)")


def openmp() -> str | None:
    """Path of the OpenMP library that this process has loaded, torch's: linked to it, the kernel shares torch's threads."""
    try:
        mapped = Path("/proc/self/maps").read_text().split("\n")
    except OSError:
        return None
    found = {line.split(maxsplit=5)[-1] for line in mapped if "/" in line}
    return next((path for path in sorted(found) if Path(path).name.startswith(("libgomp", "libiomp5", "libomp."))), None)


def processor() -> str:
    """What the processor is and can: part of the cache's key, so that a shared cache folder serves unlike machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return platform.machine()
    told = [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
    return "\n".join([platform.machine(), *told])


def _compile(command: list[str], path: Path) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([*command, "-o", str(partial)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if done.returncode:
            told = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise NotBuilt(f"{command[0]} ended with {done.returncode}: {told[-1]}")
        os.replace(partial, path)
    except (OSError, subprocess.SubprocessError) as problem:
        raise NotBuilt(f"{path} cannot be made: {problem}") from problem
    finally:
        partial.unlink(missing_ok=True)
