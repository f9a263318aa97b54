"""The engine: its client side here, the long-lived process in ``kernel``, Inkling without a GPU in ``cpu``.

    import engine

    eng = engine.start("demo")        # or engine.attach() to one that is running
    reply = eng.generate(context, max_tokens=64, temperature=0)

Importing it is light: nothing here loads vLLM or torch, and the client's own modules come in on first use.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import Engine
    from .discovery import Found

__all__ = ["Engine", "attach", "list", "start"]


def start(
    recipe: str | Path = "demo", *, host: str = "127.0.0.1", port: int = 0, token: str | None = None,
    args: dict[str, Any] | None = None, adapters: str | Path | builtins.list[str | Path] | None = None,
    drafts: int | None = None, supervise: bool = False, say: Callable[[str], None] | None = None,
) -> Engine:  # fmt: skip
    """The recipe's engine on this machine: attach to it if it is running (and say so), else start it and wait.

    Parameters
    ----------
    recipe : str or Path
        Name of a recipe, or a ``.toml`` file.
    host, port : str, int
        Where to listen: loopback and any free port by default. Another host needs a `token`.
    token : str, optional
        A random one by default.
    args : dict, optional
        Changes to the recipe's vLLM options, for instance ``{"max_num_batched_tokens": 512}``. They count for a fresh start only.
    adapters : str, Path or list of them, optional
        Folders from which adapters may be loaded while it runs; each adapter lies in a folder of its own there. Without one the
        engine takes none, and is faster.
    drafts : int, optional
        Tokens that the checkpoint's own prediction blocks draft per step, 0 for none; by default what the recipe says. Changes
        the speed of an answer, never a greedy answer. For a fresh start only, as `args`.
    supervise : bool
        Start it again when it dies, at the same address and with the same token, until it dies too often; and on
        :meth:`Engine.restart`. For a fresh start only.
    say : callable, optional
        Takes each line of progress; default: standard error.

    Raises
    ------
    EngineStartError
        The reason in one sentence, and where the log lies; or the recipe's engine runs already, without these adapter folders.
    BadRequest
        No such recipe or folder.

    Notes
    -----
    The engine keeps running when this process ends. Costs about 25 s and 3 GB for the demo on two cores. Interrupting the wait ends
    what was started.
    """
    from . import recipes
    from .adapter_options import checked_folders, require_folders, with_adapters
    from .starting import start_kernel

    folders = checked_folders(adapters or [])
    wanted = with_adapters(recipes.load(recipe).with_args(args or {}).with_drafts(drafts), folders)
    say = say or _say
    started = start_kernel(wanted, host=host, port=port, token=token, adapters=folders, supervise=supervise, say=say)
    eng = _engine(started.found.url, started.found.token, started.found)
    require_folders(eng.info.adapters, folders)
    if drafts is not None and eng.info.engine_args.get("drafts", 0) != drafts:
        say(f"the running engine drafts {eng.info.engine_args.get('drafts', 0)} tokens per step, not {drafts}: stop it first")
    return eng


def attach(url: str | None = None, token: str | None = None, *, recipe: str | None = None) -> Engine:
    """A running engine: the one at `url`, the one ``INKLING_ENGINE_URL`` names, or the only one running on this machine.

    Parameters
    ----------
    url : str, optional
        Address of an engine of ours or of a plain vLLM server.
    token : str, optional
        Found by itself for engines of this user on this machine.
    recipe : str, optional
        Choose among several running ones.

    Raises
    ------
    EngineNotFound, EngineAmbiguous, EngineUnreachable, EngineAuthError, EngineVersionError
    """
    from . import discovery

    if url is None and recipe is None and (named := discovery.named_by_environment()):
        url, token = named[0], token or named[1]
    if url is None:
        found = discovery.the_one(recipe=recipe)
        return _engine(found.url, token or found.token, found)
    found = next((item for item in discovery.running() if item.url == url.rstrip("/")), None) if token is None else None
    return _engine(url, token or (found.token if found else None), found)


def list() -> builtins.list[Found]:
    """Engines that are running and can be found, the newest first; each has ``.url``, ``.recipe``, ``.presence``."""
    from . import discovery

    return discovery.running()


def _engine(url: str, token: str | None, found: Found | None) -> Engine:
    from . import plain
    from .client import Engine
    from .connection import Connection, blocking
    from .errors import EngineVersionError
    from .protocol import API_VERSION, EngineInfo

    connection = Connection(url, token or None)
    if not blocking(plain.is_ours(connection)):
        return Engine(connection, blocking(plain.describe(connection)))
    values = blocking(connection.request("GET", "/workbench/info", timeout_s=30)).json()
    if values.get("api_version") != API_VERSION:
        raise EngineVersionError(
            f"the engine at {url} speaks version {values.get('api_version')} of the kernel API, this client {API_VERSION}: "
            "run the same version of inkling-workbench on both sides", engine=values.get("api_version"), client=API_VERSION,
        )  # fmt: skip
    return Engine(connection, EngineInfo.model_validate(values), log=found.presence.log if found else None)


def _say(text: str) -> None:
    sys.stderr.write(f"engine: {text}\n")
    sys.stderr.flush()


def __getattr__(name: str) -> Any:
    if name == "Engine":
        from .client import Engine

        return Engine
    raise AttributeError(f"module 'engine' has no attribute {name!r}")


def __dir__() -> builtins.list[str]:
    return sorted({*globals(), *__all__})
