"""How a running engine makes itself known: one small file, and the settings a kernel is started with.

The presence file lies in Jupyter's runtime folder, readable by its owner only, because it holds the token. Homes are shared between
machines, so it names the host and that host's boot; a process id says nothing on another one, and little on the same. Whether an
engine is alive is found out by asking it (:mod:`engine.discovery`), never from this file. The kernel writes and removes it.
"""

from __future__ import annotations

import os
import platform
import secrets
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from .info import API_VERSION

PREFIX = "inkling-engine-"
"""Presence files are called ``inkling-engine-<nonce>.json``."""


class Presence(BaseModel):
    """One engine: where it listens, how to be let in, and which start of which machine it belongs to."""

    model_config = ConfigDict(frozen=True)

    url: str
    token: str = Field(repr=False)
    nonce: str
    model: str
    recipe: str | None = None
    api_version: int = API_VERSION
    host: str
    boot_id: str
    pid: int
    log: str | None = None
    started_by: str | None = None
    started_at: str | None = None

    def is_this_boot(self) -> bool:
        """Whether it was written by this machine since it last booted."""
        return self.host == platform.node() and self.boot_id == boot_id()

    def write(self, folder: Path) -> Path:
        """Write the file (0600, atomic) and return its path."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"{PREFIX}{self.nonce}.json"
        write_private(path, self.model_dump_json(indent=1))
        return path


class KernelSettings(BaseModel):
    """What a kernel process is told when it starts; a file, because arguments are visible to every user of the machine.

    Attributes
    ----------
    model : str
        A folder, a name vLLM resolves, or ``demo`` for the checkpoint that comes along.
    args : list of str
        vLLM's own command-line arguments.
    home : str
        Folder of blobs, contexts and captures; outlives the kernel and may be shared by several.
    run : str
        Folder of this start: settings, log, steps.
    runtime : str
        Where the presence file goes.
    adapters : list of str
        Folders from which adapters may be loaded.
    supervised : bool
        Its parent starts it again when it dies.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    args: list[str]
    recipe: str | None = None
    host: str = "127.0.0.1"
    port: int = 0
    token: str = Field(repr=False)
    nonce: str
    home: str
    run: str
    runtime: str
    started_by: str | None = None
    adapters: list[str] = []
    supervised: bool = False
    extra: dict[str, Any] = {}


def boot_id() -> str:
    """Changes whenever this machine boots; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def write_private(path: Path, text: str) -> None:
    """Write `text` so that only the owner can read it and no reader ever sees half of it."""
    write_private_bytes(path, text.encode())


def write_private_bytes(path: Path, content: bytes) -> None:
    """Write `content` so that only the owner can read it and no reader ever sees half of it."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
