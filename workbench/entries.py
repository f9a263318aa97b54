"""The entries of a context as a value, and every edit of them: order, pins, switches, replacing, splitting, merging.

Edits are functions from one tuple of entries to another; nothing is changed in place, so a state that was left can be had again.

Pinned entries are the stable prefix: they stand at the front (behind leading system texts), in the order in which they were pinned,
and no edit touches them or puts anything before them until they are unpinned. Knows neither tokens nor engines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .errors import MessageError
from .messages import Role
from .part_edits import merge_parts, split_part
from .parts import Part, ReplyPart, TextPart, ToolResultPart, WrittenReplyPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One part in a context.

    Attributes
    ----------
    pinned : bool
        Part of the stable prefix: not to be moved, changed or taken out.
    disabled : bool
        Kept, but neither rendered nor counted.
    """

    role: Role
    part: Part
    pinned: bool = False
    disabled: bool = False


Entries = tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything a context is, at one moment."""

    system: str | None
    effort: float
    tools: tuple[dict[str, Any], ...]
    entries: Entries = ()


def entry_of(part: Part, role: Role) -> Entry:
    """An entry with the role its part can have.

    Raises
    ------
    MessageError
    """
    if isinstance(part, ReplyPart | WrittenReplyPart | ToolResultPart):
        role = "tool" if isinstance(part, ToolResultPart) else "model"
    elif role not in ("user", "system") or (role == "system" and not isinstance(part, TextPart)):
        raise MessageError(f"a {type(part).__name__} cannot have the role {role!r}: user, or system for text")
    return Entry(role=role, part=part)


def find(entries: Entries, which: int | Part) -> int:
    """Index of an entry, given its index (negative from the end) or its part.

    Raises
    ------
    MessageError
        There is none, or the part stands there more than once.
    """
    if isinstance(which, int) and not isinstance(which, bool):
        if not -len(entries) <= which < len(entries):
            raise MessageError(f"no entry {which}: this context has {len(entries)}")
        return which % len(entries)
    places = [index for index, entry in enumerate(entries) if entry.part == which]
    if len(places) != 1:
        shown = getattr(which, "name", which)
        raise MessageError(
            f"{shown!r} stands at {places}: say which by its index" if places else f"{shown!r} is no entry of this context"
        )
    return places[0]


def insert(entries: Entries, entry: Entry, at: int | None = None) -> Entries:
    """Put `entry` at index `at`, or behind all others."""
    at = len(entries) if at is None else _place(entries, at, len(entries))
    return (*entries[:at], entry, *entries[at:])


def remove(entries: Entries, which: int | Part) -> Entries:
    """Take an entry out."""
    at = _free(entries, which, "removed")
    return (*entries[:at], *entries[at + 1 :])


def move(entries: Entries, which: int | Part, to: int) -> Entries:
    """Put an entry at index `to`; the others keep their order."""
    at = _free(entries, which, "moved")
    rest = (*entries[:at], *entries[at + 1 :])
    to = _place(rest, to, len(rest))
    return (*rest[:to], entries[at], *rest[to:])


def pin(entries: Entries, which: int | Part) -> Entries:
    """Make an entry part of the stable prefix: it moves to the front, behind what is pinned already."""
    at = find(entries, which)
    entry = entries[at]
    if entry.pinned:
        return entries
    if entry.disabled:
        raise MessageError(f"{entry.part.name} is switched off: enable it before pinning it")
    rest = (*entries[:at], *entries[at + 1 :])
    to = _prefix(rest)
    while to < len(rest) and to < at and rest[to].role == "system":
        to += 1
    return (*rest[:to], replace(entry, pinned=True), *rest[to:])


def unpin(entries: Entries, which: int | Part) -> Entries:
    """Free a pinned entry; it stays where it is, behind what remains pinned."""
    at = find(entries, which)
    rest = (*entries[:at], *entries[at + 1 :])
    to = max(at, _prefix(rest))
    return (*rest[:to], replace(entries[at], pinned=False), *rest[to:])


def switch(entries: Entries, which: int | Part, *, disabled: bool) -> Entries:
    """Leave an entry out of what is sent, or take it in again."""
    at = _free(entries, which, "switched off") if disabled else find(entries, which)
    return _put(entries, at, replace(entries[at], disabled=disabled))


def substitute(entries: Entries, which: int | Part, part: Part) -> Entries:
    """Put another part in an entry's place."""
    at = _free(entries, which, "replaced")
    role = entries[at].role if entries[at].role in ("user", "system") else "user"
    fresh = entry_of(part, role)
    return _put(entries, at, replace(fresh, disabled=entries[at].disabled))


def split(entries: Entries, which: int | Part, at: float) -> Entries:
    """Cut an entry in two; see :func:`~workbench.part_edits.split_part`."""
    index = _free(entries, which, "split")
    one, other = split_part(entries[index].part, at)
    return (
        *entries[:index], replace(entries[index], part=one), replace(entries[index], part=other), *entries[index + 1 :]
    )  # fmt: skip


def merge(entries: Entries, which: int | Part, joint: str) -> Entries:
    """Join an entry and the next one; see :func:`~workbench.part_edits.merge_parts`."""
    at = _free(entries, which, "merged")
    if at + 1 >= len(entries):
        raise MessageError(f"{entries[at].part.name} is the last entry: there is nothing to merge it with")
    _free(entries, at + 1, "merged")
    one, other = entries[at], entries[at + 1]
    if one.role != other.role:
        raise MessageError(f"entries of the roles {one.role} and {other.role} cannot be merged")
    return (*entries[:at], replace(one, part=merge_parts(one.part, other.part, joint)), *entries[at + 2 :])


def _put(entries: Entries, at: int, entry: Entry) -> Entries:
    return (*entries[:at], entry, *entries[at + 1 :])


def _prefix(entries: Entries) -> int:
    """Index behind the last pinned entry."""
    return max((index + 1 for index, entry in enumerate(entries) if entry.pinned), default=0)


def _place(entries: Entries, at: int, most: int) -> int:
    if not -most - 1 <= at <= most:
        raise MessageError(f"no place {at}: this context has the places 0 to {most}")
    at = at if at >= 0 else at + most + 1
    if at < _prefix(entries):
        raise MessageError(f"place {at} lies in the pinned prefix, which ends at {_prefix(entries)}: unpin it first")
    return at


def _free(entries: Entries, which: int | Part, what: str) -> int:
    at = find(entries, which)
    if entries[at].pinned:
        raise MessageError(f"{entries[at].part.name} is pinned and cannot be {what}: unpin it first")
    return at


Edit = Callable[[Entries], Entries]
