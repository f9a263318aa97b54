"""``python -m engine.supervising SETTINGS``: keep a kernel running; a small process that holds nothing but the kernel's settings.

A kernel that dies (its exit status says so) is started again where it was: same address, same token, so that clients go on with
what they have; contexts, blobs and captures are on disk anyway. One that never came up, or that was told to stop, is not. A kernel
that dies again and again is left dead, with the reason in its log. Told to stop, this process tells the kernel; killed, it takes
the kernel with it (the kernel asks the system for that). Lifetimes: one kernel at a time, one folder and one nonce for each start.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import httpx

from .protocol import exits
from .protocol.presence import KernelSettings, write_private
from .protocol.steps import SETTINGS, STEPS, read_steps

MOST_RESTARTS, WITHIN_S = 3, 600.0
"""A kernel that dies more often than this will do so again."""

PAUSE_S = 2.0
"""Before a start: a port and a GPU's memory take a moment to be free again."""

Command = Callable[[Path], Sequence[str]]


def kernel_command(settings: Path) -> Sequence[str]:
    """How a kernel is run."""
    return [sys.executable, "-m", "engine.kernel", str(settings)]


class Supervisor:
    """One kernel and its successors.

    Parameters
    ----------
    path : Path
        Settings of the first start.
    command : callable, optional
        From a settings file to the words of the command.
    """

    def __init__(self, path: Path, *, command: Command = kernel_command) -> None:
        self._path, self._command = path, command
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._died_at: list[float] = []

    def run(self) -> int:
        """Until the kernel ends in order, cannot start, or dies too often; its exit status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while True:
            code, port = self._once()
            if self._stopping or code == exits.OK or port is None:
                return code
            if code != exits.RESTART and not self._may_restart(code):
                return code
            self._path = successor(self._path, port)
            time.sleep(PAUSE_S)

    def _once(self) -> tuple[int, int | None]:
        """Run the kernel to its end: exit status, and the port it had, None when it never came up."""
        run = self._path.parent
        with (run / "kernel.log").open("ab") as log:
            self._child = subprocess.Popen(self._command(self._path), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=run)
            if self._stopping:
                self._child.terminate()
            code = self._child.wait()
        ready = next((step for step in read_steps(run / STEPS) if step["step"] == "ready"), None)
        return code, None if ready is None else httpx.URL(ready["url"]).port

    def _may_restart(self, code: int) -> bool:
        now = time.monotonic()
        self._died_at = [at for at in self._died_at if now - at < WITHIN_S] + [now]
        again = len(self._died_at) <= MOST_RESTARTS
        ended = f"status {code}" if code >= 0 else signal.Signals(-code).name
        what = "starting it again" if again else f"not starting it again: {MOST_RESTARTS} restarts in {WITHIN_S / 60:.0f} minutes"
        with (self._path.parent / "kernel.log").open("a") as log:
            log.write(f"supervisor: the kernel ended with {ended}; {what}\n")
        return again

    def _stop(self, number: int, _: FrameType | None) -> None:
        self._stopping = True
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)


def successor(path: Path, port: int) -> Path:
    """Settings of the next start: those in `path`, with a folder and a nonce of its own, and the port clients know."""
    settings = KernelSettings.model_validate_json(path.read_text("utf-8"))
    nonce = secrets.token_hex(8)
    run = Path(settings.home) / "runs" / nonce
    run.mkdir(mode=0o700, parents=True)
    following = settings.model_copy(update={"nonce": nonce, "run": str(run), "port": port})
    write_private(run / SETTINGS, following.model_dump_json())
    return run / SETTINGS


def main(argv: list[str]) -> int:
    """Supervise; the last kernel's exit status."""
    if len(argv) != 1:
        sys.stderr.write("usage: python -m engine.supervising SETTINGS.json (inkling engine start --supervise writes it)\n")
        return 2
    os.umask(0o077)
    return Supervisor(Path(argv[0])).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
