"""A recipe with adapters: the same engine, started so that it takes them.

Adapters set memory aside and change every request's path even when none is used (``docs/adapters.md``), so recipes come without
and whoever wants them says so, with a folder. A recipe that switches vLLM's ``enable-lora`` on itself keeps its own numbers.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .errors import BadRequest, EngineStartError
from .protocol import AdapterSupport
from .recipes import Option, Recipe

DEFAULTS: dict[str, Option] = {"enable-lora": True, "max-lora-rank": 16, "max-loras": 4, "max-cpu-loras": 8}

SWITCHES = {"INKLING_MULTIMEM_AR": "0", "LAMPORT_RS_SCONV": "0"}
"""vLLM demands the first. The second is the one that its kernels read: without it they pass the adapted output and down projections
by, on GPUs and small batches, without a word."""


def with_adapters(recipe: Recipe, folders: list[str]) -> Recipe:
    """`recipe` with adapters switched on, if there are folders of them or it says so itself; else as it is."""
    if not folders and recipe.args.get("enable-lora") is not True:
        return recipe
    return replace(recipe, args=DEFAULTS | recipe.args, env=recipe.env | SWITCHES)


def checked_folders(folders: str | Path | list[str | Path]) -> list[str]:
    """Adapter folders as absolute paths.

    Raises
    ------
    BadRequest
        One is not a folder.
    """
    given = [folders] if isinstance(folders, str | Path) else folders
    found = [Path(folder).expanduser().resolve() for folder in given]
    for folder in found:
        if not folder.is_dir():
            raise BadRequest(f"{folder} is not a folder: adapters lie in one, each in a folder of its own", folder=str(folder))
    return list(map(str, found))


def require_folders(running: AdapterSupport, folders: list[str]) -> None:
    """Raise EngineStartError when a running engine loads adapters from other folders than these."""
    if missing := [folder for folder in folders if folder not in running.folders]:
        raise EngineStartError(
            f"this recipe's engine is running and loads no adapters from {', '.join(missing)}: stop it, then start it with them",
            folders=missing,
        )
