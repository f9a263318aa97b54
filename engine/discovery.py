"""Which engines are running: presence files, and asking.

A file is a claim, the probe decides: an engine is running when it answers with the nonce of the file. A stale file is removed
only when the address refuses the connection and the file was written by this machine since its last boot; on a shared home the
engine may live on another machine. ``INKLING_ENGINE_URL`` and ``INKLING_ENGINE_TOKEN`` name an engine outright. Lifetimes:
nothing is remembered.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from pydantic import ValidationError

from .errors import EngineAmbiguous, EngineNotFound
from .protocol import places
from .protocol.presence import PREFIX, Presence

URL_ENV, TOKEN_ENV = "INKLING_ENGINE_URL", "INKLING_ENGINE_TOKEN"

PROBE_TIMEOUT_S = 5.0
"""An engine answers in milliseconds; a busy machine may keep it waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An engine that answered: its presence, and whether it is on this machine."""

    presence: Presence
    local: bool

    @property
    def url(self) -> str:
        return self.presence.url

    @property
    def token(self) -> str:
        return self.presence.token

    @property
    def recipe(self) -> str | None:
        return self.presence.recipe

    @property
    def nonce(self) -> str:
        return self.presence.nonce

    def __repr__(self) -> str:
        who = f", started by {self.presence.started_by}" if self.presence.started_by else ""
        return f"{self.recipe or self.presence.model} at {self.url} on {self.presence.host}{who}"


def named_by_environment() -> tuple[str, str] | None:
    """Address and token from the environment, if it names an engine."""
    url = os.environ.get(URL_ENV)
    return (url, os.environ.get(TOKEN_ENV, "")) if url else None


def running(folder: Path | None = None) -> list[Found]:
    """Engines that answer, the newest first.

    Parameters
    ----------
    folder : Path, optional
        Where to look; default: Jupyter's runtime folder.

    Notes
    -----
    Costs one request per file, about 5 ms each.
    """
    folder = folder or places.runtime_folder()
    found = []
    for path, presence in _presences(folder):
        match _probe(presence):
            case "answers":
                found.append(Found(presence=presence, local=presence.is_this_boot()))
            case "refused" if presence.is_this_boot():
                path.unlink(missing_ok=True)
    return sorted(found, key=lambda item: item.presence.started_at or "", reverse=True)


def the_one(*, recipe: str | None = None, folder: Path | None = None) -> Found:
    """The one engine that is running (of `recipe`, if given).

    Raises
    ------
    EngineNotFound, EngineAmbiguous
    """
    found = [item for item in running(folder) if recipe in (None, item.recipe)]
    if not found:
        wanted = f" with recipe {recipe!r}" if recipe else ""
        raise EngineNotFound(f"no engine is running{wanted}: engine.start('demo') or 'inkling engine start' starts one")
    if len(found) > 1:
        raise EngineAmbiguous(
            f"{len(found)} engines are running: {'; '.join(map(repr, found))}. Name one: engine.attach(url=…) or {URL_ENV}",
            urls=[item.url for item in found],
        )  # fmt: skip
    return found[0]


def _presences(folder: Path) -> Iterator[tuple[Path, Presence]]:
    """Readable presence files of this user; files that others could have written or read are passed over."""
    for path in sorted(folder.glob(f"{PREFIX}*.json")):
        try:
            mode = path.stat()
            if mode.st_uid != os.getuid() or stat.S_IMODE(mode.st_mode) & 0o077:
                continue
            yield path, Presence.model_validate_json(path.read_text("utf-8"))
        except (OSError, ValidationError, UnicodeDecodeError):
            continue


def _probe(presence: Presence) -> str:
    """``answers``, ``refused``, or ``unclear`` (another engine on that address, a time-out, another machine's network)."""
    try:
        answer = httpx.get(
            f"{presence.url}/workbench/info", headers={"authorization": f"Bearer {presence.token}"}, timeout=PROBE_TIMEOUT_S,
            trust_env=False,
        )  # fmt: skip
        if answer.status_code == 200:
            return "answers" if answer.json().get("nonce") == presence.nonce else "refused"
        # Someone answers, but does not know this token: the port was taken over by another process.
        return "refused" if answer.status_code == 401 else "unclear"
    except httpx.ConnectError:
        return "refused"
    except (httpx.HTTPError, ValueError):
        return "unclear"
