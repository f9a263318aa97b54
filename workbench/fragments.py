"""Fragments: parts kept on this machine by their hash, to be used again in any context.

A fragment is a saved context of one entry under the cache folder, named by its part's hash; keeping it twice keeps it once. Nothing
is ever thrown away here but by :func:`forget`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.protocol.places import cache_folder

from .contexts import Context
from .entries import Entry
from .errors import FragmentError
from .parts import Part

_SUFFIX = ".fragment"


@dataclass(frozen=True, slots=True)
class Fragment:
    """A kept part: its hash and name."""

    id: str
    name: str
    bytes: int


def folder() -> Path:
    """Where fragments lie."""
    return cache_folder() / "fragments"


def keep(part: Part, *, role: str = "user") -> str:
    """Keep a part; returns its hash, by which :meth:`workbench.Context.add_fragment` adds it."""
    path = folder() / f"{part.id.removeprefix('sha256:')}{_SUFFIX}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        Context.of(entries=[Entry(role=role, part=part)]).save(path)  # pyright: ignore[reportArgumentType]
    return part.id


def get(fragment: str) -> Part:
    """The kept part of this hash, or of the only one that begins with it.

    Raises
    ------
    FragmentError
        There is none, or there are several.
    ContextFileError
        Its file is damaged.
    """
    return Context.load(_path(fragment)).parts[0]


def listed() -> list[Fragment]:
    """Everything that is kept, by name."""
    found: list[Fragment] = []
    for path in sorted(folder().glob(f"*{_SUFFIX}")):
        parts = Context.load(path, salvage=True).parts
        if parts:
            found.append(Fragment(f"sha256:{path.stem}", parts[0].name, path.stat().st_size))
    return sorted(found, key=lambda item: (item.name, item.id))


def forget(fragment: str) -> None:
    """Throw a fragment away."""
    _path(fragment).unlink()


def _path(fragment: str) -> Path:
    wanted = fragment.removeprefix("sha256:").lower()
    plain = wanted.isalnum() and len(wanted) >= 4
    found = sorted(folder().glob(f"{wanted}*{_SUFFIX}")) if plain else []
    if len(found) != 1:
        why = (
            "no fragment of this hash is kept here" if not found else f"{len(found)} fragments begin with it: give more of the hash"
        )
        raise FragmentError(f"{fragment}: {why}", fragment=fragment, folder=str(folder()))
    return found[0]
