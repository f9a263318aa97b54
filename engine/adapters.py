"""Adapters of a running engine, from the client's side: ``eng.adapters``."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .connection import Connection, blocking
from .errors import FeatureUnsupported
from .protocol import EngineInfo
from .protocol.adapters import AdapterInfo, AdapterList, AdapterSupport


class Adapters:
    """Load, list and unload adapters (LoRA) while the engine runs.

    An adapter lies in a folder on the engine's machine, below one that was named when the engine started. Loaded, it answers
    requests that name it (``eng.generate(context, adapter=name)``); others are answered by the model alone.
    """

    def __init__(self, connection: Connection, info: EngineInfo) -> None:
        self._connection, self._info = connection, info

    @property
    def support(self) -> AdapterSupport:
        """Whether this engine takes adapters, their limits, and why not."""
        return self._info.adapters

    def list(self) -> builtins.list[AdapterInfo]:
        """Adapters that are loaded."""
        return builtins.list(self._answer().loaded)

    def available(self) -> builtins.list[str]:
        """Names in the engine's adapter folders that are not loaded."""
        return builtins.list(self._answer().available)

    def load(self, adapter: str | Path, name: str | None = None) -> AdapterInfo:
        """Load an adapter.

        Parameters
        ----------
        adapter : str or Path
            Its folder's name in one of the engine's adapter folders, or its path there. The path is the engine's machine's; nothing
            of this machine is opened or sent.
        name : str, optional
            What to call it; default: the folder's name.

        Raises
        ------
        FeatureUnsupported
            This engine runs without adapters; the message says how to start one with them.
        AdapterUnknown
            No such folder there.
        AdapterRefused
            A bad adapter (what is wrong is in the message), a name that is taken, too many. Nothing has changed.
        """
        return AdapterInfo.model_validate(self._request("POST", json={"adapter": str(adapter), "name": name}))

    def unload(self, name: str) -> AdapterInfo:
        """Let an adapter go; requests that run with it finish with it.

        Raises
        ------
        AdapterUnknown
            None of that name is loaded.
        """
        return AdapterInfo.model_validate(self._request("DELETE", f"/{quote(name, safe='')}"))

    def __repr__(self) -> str:
        if not self.support.enabled:
            return f"Adapters(off: {self.support.reason})"
        return f"Adapters({', '.join(item.name for item in self.list()) or 'none loaded'})"

    def _answer(self) -> AdapterList:
        return AdapterList.model_validate(self._request("GET"))

    def _request(self, method: str, path: str = "", **values: Any) -> Any:
        if not self.support.enabled:
            raise FeatureUnsupported(str(self.support.reason))
        # Reading and checking a large adapter takes its time.
        answer = self._connection.request(method, f"/workbench/adapters{path}", timeout_s=600, **values)
        return blocking(answer).json()
