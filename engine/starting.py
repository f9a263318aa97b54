"""Starting a kernel: look before, spawn it detached, watch its steps, say why when it does not come up.

One kernel per recipe and machine: a lock makes two starts at the same moment into one start and one attach. The child is a
session of its own, so that neither Ctrl-C nor the end of this process reaches it; but whatever interrupts the waiting takes it
down again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import discovery
from .discovery import Found
from .errors import EngineStartError, from_json
from .protocol import places
from .protocol.deaths import cause_of_death, read_tail
from .protocol.presence import KernelSettings, write_private
from .protocol.steps import LOG, SETTINGS, STEPS, read_steps
from .recipes import Recipe

Say = Callable[[str], None]

END_TIMEOUT_S = 15.0

_CHILDREN: dict[str, subprocess.Popen[bytes]] = {}
"""Kernels this process spawned, by nonce: they have to be waited for, or they stay as zombies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A running engine, and whether it was running before."""

    found: Found
    attached: bool


def start_kernel(
    recipe: Recipe, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None, adapters: Sequence[str] = (),
    supervise: bool = False, say: Say,
) -> Started:  # fmt: skip
    """Attach to the recipe's running kernel on this machine, or start one and wait until it answers.

    Raises
    ------
    EngineStartError
        The reason in one sentence, and where the log lies.
    """
    home = places.engine_home()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _lock(home / f"start-{recipe.name}.lock", say):
        for found in discovery.running():
            if found.local and found.recipe == recipe.name:
                say(f"attached to the engine that is running: {found!r}; who has its token may stop it")
                return Started(found=found, attached=True)
        check_host(host, token)
        check_can_start(recipe)
        run, settings = _prepare(recipe, home, host=host, port=port, token=token, adapters=adapters, supervise=supervise)
        return Started(found=_spawn_and_wait(recipe, settings, run, say), attached=False)


def check_host(host: str, token: str | None) -> None:
    """Listening beyond this machine is a decision: it needs a token that someone chose."""
    if host not in ("127.0.0.1", "::1", "localhost") and (token is None or len(token) < 16):
        raise EngineStartError(
            f"listening on {host} lets other machines in: name a token of at least 16 characters for it", host=host
        )


def check_can_start(recipe: Recipe) -> None:
    """Raise EngineStartError for what can be seen without trying: vLLM missing, no GPU, not enough free memory."""
    from importlib.util import find_spec

    if find_spec("vllm") is None:
        raise EngineStartError(
            "vLLM is not installed in this Python environment: pip install 'inkling-workbench[cpu]' ([gpu] for GPUs), "
            "or attach to an engine elsewhere with engine.attach(url=…, token=…)"
        )
    if recipe.hardware is not None and not Path("/proc/driver/nvidia").exists():
        wanted = f"{recipe.hardware.count} × {recipe.hardware.gpu}"
        raise EngineStartError(
            f"recipe {recipe.name!r} is for {wanted}; this machine has no NVIDIA driver: start it there and attach with "
            "engine.attach(url=…, token=…), or look at 'inkling plan --recipe' for what it would take", recipe=recipe.name,
        )  # fmt: skip
    free = available_memory_bytes()
    if free is not None and free < recipe.memory_bytes:
        raise EngineStartError(
            f"recipe {recipe.name!r} needs {recipe.memory_bytes / 1e9:.1f} GB of free memory, {free / 1e9:.1f} GB are: "
            "end something, for instance another engine ('inkling engine list')", needed_bytes=recipe.memory_bytes, free_bytes=free,
        )  # fmt: skip


def available_memory_bytes() -> int | None:
    """Memory that can be used without swapping; None where the system does not say."""
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text("ascii"), re.M)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


async def wait_for_end(nonce: str, log: str | None) -> None:
    """Wait, a little, until a kernel that closed its port has joined vLLM's processes too: as a parent, or by its steps."""
    import asyncio

    child = _CHILDREN.pop(nonce, None)
    if child is not None:
        await asyncio.to_thread(child.wait)
    elif log is not None and (run := Path(log).parent).is_dir():
        for _ in range(int(END_TIMEOUT_S / 0.1)):
            if any(step["step"] == "stopped" for step in read_steps(run / STEPS)):
                return
            await asyncio.sleep(0.1)


def _prepare(
    recipe: Recipe, home: Path, *, host: str, port: int, token: str | None, adapters: Sequence[str], supervise: bool
) -> tuple[Path, KernelSettings]:
    nonce = secrets.token_hex(8)
    run = home / "runs" / nonce
    run.mkdir(mode=0o700, parents=True)
    settings = KernelSettings(
        model=recipe.model, args=recipe.argv(), recipe=recipe.name, host=host, port=port, token=token or secrets.token_hex(32),
        nonce=nonce, home=str(home), run=str(run), runtime=str(places.runtime_folder()), adapters=list(adapters),
        supervised=supervise,
        extra={"limits": recipe.limits} | ({"hardware": dataclasses.asdict(recipe.hardware)} if recipe.hardware else {}),
    )  # fmt: skip
    write_private(run / SETTINGS, settings.model_dump_json())
    return run, settings


def _spawn_and_wait(recipe: Recipe, settings: KernelSettings, run: Path, say: Say) -> Found:
    log = run / LOG
    say(f"starting {recipe.title} (log: {log})")
    module = "engine.supervising" if settings.supervised else "engine.kernel"
    with log.open("ab") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", module, str(run / SETTINGS)], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True, env=os.environ | recipe.env, cwd=run,
        )  # fmt: skip
    _CHILDREN[settings.nonce] = child
    try:
        return _wait(child, recipe, settings, run, say)
    except BaseException:
        kill_group(child)
        _CHILDREN.pop(settings.nonce, None)
        raise


def _wait(child: subprocess.Popen[bytes], recipe: Recipe, settings: KernelSettings, run: Path, say: Say) -> Found:
    deadline, told, loaded = time.monotonic() + recipe.start_timeout_s, 0, ""
    while True:
        if (files := load_progress(run / LOG)) != loaded:
            loaded = files
            say(f"          {files}")
        steps = read_steps(run / STEPS)
        for step in steps[told:]:
            if step["step"] == "failed":
                raise start_error(step["error"], run / LOG)
            say(f"{step['at_s']:6.1f} s  {step['step']}" + (f" at {step['url']}" if "url" in step else ""))
            if step["step"] == "ready":
                return next(found for found in discovery.running() if found.nonce == settings.nonce)
        told = len(steps)
        if (code := child.poll()) is not None and len(read_steps(run / STEPS)) == told:
            raise start_error(exit_error(code).to_json(), run / LOG)
        if time.monotonic() > deadline:
            raise start_error(
                EngineStartError(
                    f"the engine was not ready after {recipe.start_timeout_s:.0f} s: where it only needs longer, raise "
                    "start_timeout_s in the recipe"
                ).to_json(), run / LOG,
            )  # fmt: skip
        time.sleep(0.1)


_LOADING = re.compile(rb"Loading safetensors checkpoint shards:\s+\d+% Completed \| (\d+)/(\d+)")


def load_progress(log: Path) -> str:
    """How many of a checkpoint's files are in, as vLLM's log has it last; empty before, and for a single file."""
    try:
        with log.open("rb") as file:
            # The bar is written anew with every file: its last line lies near the end while weights load.
            file.seek(max(0, log.stat().st_size - 65_536))
            found = _LOADING.findall(file.read())
    except OSError:
        return ""
    done, files = found[-1] if found else (b"0", b"0")
    return f"weights: {int(done)} of {int(files)} files" if int(files) > 1 else ""


def exit_error(code: int) -> EngineStartError:
    """What an exit status says about a kernel that ended without a word."""
    if code == -signal.SIGKILL:
        return EngineStartError(
            "the engine was killed while starting, most likely because the machine ran out of memory", exit_code=code
        )
    return EngineStartError(f"the engine ended while starting with status {code}", exit_code=code)


def start_error(error: dict[str, Any], log: Path) -> EngineStartError:
    """The error of a failed start: one sentence with its cause, as far as the log knows it, and the log's place."""
    given = from_json(error)
    message = given.message
    detail = given.detail | {"log": str(log)}
    if "Engine core initialization failed" in message or "status" in message or "killed" in message:
        death = cause_of_death(read_tail(log))
        if death.sentence not in message and (death.kind != "unknown" or "without naming" not in death.sentence):
            message = f"{message.split('. See root cause')[0].rstrip('.')}: {death}"
            detail["cause"] = death.kind
    return EngineStartError(f"the engine did not start: {message.rstrip('.')}. Log: {log}", **detail)


def kill_group(child: subprocess.Popen[bytes], *, grace_s: float = 15.0) -> None:
    """End a kernel this process spawned, politely and then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        try:
            child.wait(timeout=grace_s)
            return
        except subprocess.TimeoutExpired:
            continue


@contextlib.contextmanager
def _lock(path: Path, say: Say) -> Iterator[None]:
    """Hold a file lock; it falls with this process, however that ends."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is starting this engine: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
