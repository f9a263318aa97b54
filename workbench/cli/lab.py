"""``inkling lab``: JupyterLab on the tutorials with an engine beside it, until Ctrl-C.

In a clone the tutorials are served from ``notebooks/``; from an installed wheel they are copied to a folder of the user's, once,
and never written over. JupyterLab runs as a process of its own: this module knows its command line and HTTP, and imports none of
it. It is kept from asking about news and updates, and from contacting a package index.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path

from engine.errors import BadRequest
from engine.protocol.places import cache_folder

from ..errors import LabStartError
from .output import Console
from .running import endings_as_interrupt, engine_for, uninterrupted

SUMMARY = "start JupyterLab on the tutorials, engine included"

FIRST_PORT = 8888
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 15.0

QUIET = (
    "--no-browser", "--ServerApp.port_retries=0", "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.extension_manager=readonly",
)  # fmt: skip
"""No browser of its own, no news, no update check, no extension manager (the panel asks a package index)."""

PAGE_CONFIG = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
"""``news_url=None`` alone still shows a question about news on the first visit."""

EXTENSIONS = {"ServerApp": {"jpserver_extensions": {"widgets.engine_proxy": True}}}
"""Pages reach engines through the server. A wheel switches it on for every Jupyter of its environment; from a clone this does."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--folder", type=Path, help="folder to serve (default: the tutorials)")
    parser.add_argument("--port", type=int, help=f"port on 127.0.0.1 (default: the first free one from {FIRST_PORT})")
    parser.add_argument("--no-engine", action="store_true", help="start no engine; notebooks start or attach to one themselves")
    parser.add_argument("--open", action="store_true", help="open the address in a browser")


def run(args: argparse.Namespace, console: Console) -> int:
    """Serve until Ctrl-C, which is the ordinary end: 0. 1 when JupyterLab ends by itself."""
    if args.folder is not None and not args.folder.is_dir():
        raise BadRequest(f"--folder {args.folder}: no such folder")
    folder = args.folder or tutorials(console)
    try:
        with endings_as_interrupt():
            if args.no_engine:
                return serve(folder, args, console)
            with engine_for(console):
                return serve(folder, args, console)
    except KeyboardInterrupt:
        console.note("stopped")
        return 0


def serve(folder: Path, args: argparse.Namespace, console: Console) -> int:
    """Run JupyterLab in `folder` and wait for its end."""
    port, token = args.port or free_port(), secrets.token_hex(24)
    with jupyterlab(folder, port, token) as (process, log):
        wait_until_up(process, port, token, log)
        first = next(iter(sorted(folder.glob("*.ipynb"))), None)
        address = f"http://127.0.0.1:{port}/lab{f'/tree/{first.name}' if first else ''}?token={token}"
        console.show(
            f"\nJupyterLab: {address}\nCtrl-C stops it" + ("." if args.no_engine else ", and the engine if it was started here.")
        )
        console.result({"url": address, "folder": str(folder), "port": port})
        if args.open:
            import webbrowser

            webbrowser.open(address)
        status = process.wait()
    console.note(f"JupyterLab ended with status {status}; its log is {log}")
    return 1 if status else 0


@contextmanager
def jupyterlab(folder: Path, port: int, token: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """JupyterLab's process and log; stopped with its kernels on the way out.

    It runs in a session of its own: Ctrl-C in the terminal would make it ask on the terminal whether it was meant. The token goes
    through the environment, because command lines are public on a machine.
    """
    log = cache_folder() / "lab.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="inkling-lab-") as settings, log.open("wb") as output:
        page_config = Path(settings, "labconfig", "page_config.json")
        page_config.parent.mkdir()
        page_config.write_text(json.dumps(PAGE_CONFIG), "utf-8")
        extensions = Path(settings, "jupyter_server_config.d", "inkling-workbench.json")
        extensions.parent.mkdir()
        extensions.write_text(json.dumps(EXTENSIONS), "utf-8")
        paths = [settings, *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])]
        command = [sys.executable, "-m", "jupyterlab", *QUIET, f"--ServerApp.port={port}", f"--ServerApp.root_dir={folder}"]
        if os.geteuid() == 0:
            command.append("--allow-root")
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            env=os.environ | {"JUPYTER_CONFIG_PATH": os.pathsep.join(paths), "JUPYTER_TOKEN": token},
        )  # fmt: skip
        try:
            yield process, log
        finally:
            with uninterrupted():
                stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the server in its own way (it shuts its kernels down), then whatever is left of its session."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until_up(process: subprocess.Popen[bytes], port: int, token: str, log: Path) -> None:
    """Return once the server answers.

    Raises
    ------
    LabStartError
        It ended, or did not answer in time; the message names the log.
    """
    import httpx

    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise LabStartError(f"JupyterLab ended with status {process.returncode}: {last_line(log)} (whole log: {log})")
        try:
            if httpx.get(f"http://127.0.0.1:{port}/api/status", params={"token": token}, timeout=5).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise LabStartError(f"JupyterLab did not answer on port {port} within {START_TIMEOUT_S:.0f} s; its log is {log}")


def last_line(log: Path) -> str:
    """The last line of a log that says something."""
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def free_port() -> int:
    """The first free port from Jupyter's own on; any free one after a hundred."""
    for port in [*range(FIRST_PORT, FIRST_PORT + 100), 0]:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return probe.getsockname()[1]
    raise LabStartError("no free port on 127.0.0.1")


def tutorials(console: Console) -> Path:
    """Folder of the tutorials: the clone's own, or a copy for the user of those that came with the wheel."""
    clone = Path(__file__).parents[2] / "notebooks"
    if clone.is_dir():
        return clone
    bundled = [Path(str(item.locate())) for item in metadata.files("inkling-workbench") or [] if item.suffix == ".ipynb"]
    folder = Path.home() / "inkling-notebooks"
    folder.mkdir(exist_ok=True)
    for source in bundled:
        if not (folder / source.name).exists():
            shutil.copy(source, folder / source.name)
    console.note(f"the tutorials are in {folder}: yours to change, they are never written over")
    return folder
