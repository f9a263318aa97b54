"""Editing a context: order, pins, switches, replacing, splitting, merging, and taking every change back.

A context's whole state is one immutable value; an edit makes another one and remembers the old. States share their parts, so a
history costs next to nothing, and parts that an edit leaves alone keep their tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from . import entries as edits
from .entries import Edit, Entry, State
from .errors import MessageError
from .parts import Part

HISTORY = 1_000
"""Changes that can be taken back."""


class Editing:
    """State, edits and history of :class:`workbench.Context`. An entry is named by its index in :attr:`items` or by its part."""

    _state: State
    _past: tuple[State, ...] = ()
    _future: tuple[State, ...] = ()

    @property
    def items(self) -> tuple[Entry, ...]:
        """Every entry, switched-off ones too, in order."""
        return self._state.entries

    def move(self, which: int | Part, to: int) -> None:
        """Put an entry at index `to`; the others keep their order.

        Raises
        ------
        MessageError
            Here and below: no such entry or place, or one that is pinned.
        """
        self._edit(lambda found: edits.move(found, which, to))

    def pin(self, which: int | Part) -> None:
        """Make an entry part of the stable prefix: it stands in front, and no edit moves, changes or precedes it."""
        self._edit(lambda found: edits.pin(found, which))

    def unpin(self, which: int | Part) -> None:
        """Free a pinned entry."""
        self._edit(lambda found: edits.unpin(found, which))

    def disable(self, which: int | Part) -> None:
        """Keep an entry, but neither send nor count it."""
        self._edit(lambda found: edits.switch(found, which, disabled=True))

    def enable(self, which: int | Part) -> None:
        """Send a switched-off entry again."""
        self._edit(lambda found: edits.switch(found, which, disabled=False))

    def replace(self, which: int | Part, part: Part) -> None:
        """Put another part in an entry's place."""
        self._edit(lambda found: edits.substitute(found, which, part))

    def split(self, which: int | Part, at: float) -> None:
        """Cut an entry in two: a document before page `at`, text before character `at`, a clip at `at` seconds."""
        self._edit(lambda found: edits.split(found, which, at))

    def merge(self, which: int | Part, *, joint: str = "") -> None:
        """Join an entry and the next one: two texts (with `joint` between), or neighbours that were cut from one source."""
        self._edit(lambda found: edits.merge(found, which, joint))

    def remove(self, which: int | Part) -> Part:
        """Take out an entry and return its part."""
        part = self.items[edits.find(self.items, which)].part
        self._edit(lambda found: edits.remove(found, which))
        return part

    def undo(self) -> None:
        """Take the last change back.

        Raises
        ------
        MessageError
            There is none.
        """
        if not self._past:
            raise MessageError("nothing to undo")
        self._future = (*self._future, self._state)
        self._state, self._past = self._past[-1], self._past[:-1]

    def redo(self) -> None:
        """Make the change again that was taken back last.

        Raises
        ------
        MessageError
            There is none, or something was changed since.
        """
        if not self._future:
            raise MessageError("nothing to redo")
        self._past = (*self._past, self._state)
        self._state, self._future = self._future[-1], self._future[:-1]

    @property
    def can_undo(self) -> bool:
        return bool(self._past)

    @property
    def can_redo(self) -> bool:
        return bool(self._future)

    def _insert(self, entries: Iterable[Entry], at: int | None = None) -> None:
        def insert(found: tuple[Entry, ...]) -> tuple[Entry, ...]:
            for index, entry in enumerate(entries):
                found = edits.insert(found, entry, None if at is None else at + index)
            return found

        self._edit(insert)

    def _edit(self, edit: Edit) -> None:
        self._become(replace(self._state, entries=edit(self._state.entries)))

    def _become(self, state: State) -> None:
        now = self._state
        if state.entries is not now.entries or (state.system, state.effort, state.tools) != (now.system, now.effort, now.tools):
            self._past = (*self._past, self._state)[-HISTORY:]
            self._state, self._future = state, ()
