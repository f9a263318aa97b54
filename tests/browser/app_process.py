"""The app as people start it: the command, in a process of its own; and a wire to the engine that can be cut."""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

START_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class RunningApp:
    """Where the app answers, and with which token."""

    url: str
    token: str
    process: subprocess.Popen[str]

    @property
    def address(self) -> str:
        """What the command prints for people."""
        return f"{self.url}?token={self.token}"


@contextmanager
def running_app(*options: str) -> Iterator[RunningApp]:
    """``inkling app --json --port 0`` with `options`; ended as Ctrl-C does, which must be a clean end."""
    command = [str(Path(sys.executable).with_name("inkling")), "app", "--json", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stderr is not None
    said: list[str] = []
    listening = threading.Thread(target=lambda stream: said.extend(stream), args=(process.stderr,), daemon=True)
    listening.start()
    try:
        ready, _, _ = select.select([process.stdout], [], [], START_TIMEOUT_S)
        line = process.stdout.readline() if ready else ""
        assert line, f"the app did not start: {''.join(said)}"
        values = json.loads(line)
        yield RunningApp(values["url"], values["token"], process)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            status = process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        listening.join(10)
    assert status == 0, "".join(said)
    assert "Traceback" not in "".join(said), "".join(said)


class Wire:
    """Forwards a port of this machine to another; :meth:`cut` is the engine's death as its client sees it."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._open: list[socket.socket] = []
        self._listener = self._listen(0)
        self.port: int = self._listener.getsockname()[1]

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port), reuse_port=False)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._open += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    @staticmethod
    def _carry(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError), closing(source), closing(target):
            while data := source.recv(65_536):
                target.sendall(data)

    def cut(self) -> None:
        """Refuse new connections and end those that are open."""
        # Closing a listener does not wake the thread that waits in it; shutting it down does.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._open.clear()

    def mend(self) -> None:
        """Let connections through again, on the same port."""
        self._listener = self._listen(self.port)
