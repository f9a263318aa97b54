"""What long measurements found, kept in a file in the user's cache by revision, versions and machine. Knows no bench."""

from __future__ import annotations

import json

from engine.protocol import places

from . import machine

KERNEL = "the engine kernel"


class Kept:
    """Values by a mark that says what was measured."""

    def __init__(self) -> None:
        self._path = places.cache_folder() / "benches" / "engine-growth.json"
        self._under = json.dumps([machine.versions(), machine.machine()], sort_keys=True)
        try:
            self._all = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError):
            self._all = {}

    def get(self, mark: str) -> dict[str, float] | None:
        """The values under a mark, or None."""
        return self._all.get(self._under, {}).get(mark)

    def put(self, mark: str, values: dict[str, float]) -> dict[str, float]:
        """Keep values, and return them."""
        self._all.setdefault(self._under, {})[mark] = values
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._all, indent=1), "utf-8")
        return values

    def through_the_kernel(self) -> dict[int, dict[str, float]]:
        """What :mod:`.engine_million` found, by tokens."""
        marks = sorted((mark for mark in self._all.get(self._under, {}) if mark.startswith(f"{KERNEL}/")), key=len)
        return {int(mark.rpartition("/")[2]): self._all[self._under][mark] for mark in marks}
