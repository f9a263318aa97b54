"""Conversation: a tree of questions and answers over one context; any branch of it can be asked on, saved and replayed.

Turns are immutable and hang under one another, so going back and asking differently loses nothing. What a branch sends is the
context at its last turn: the parts of the beginning, shared by all branches, then its own turns in order, answers as the very ids
that were sampled. A conversation knows no engine; :meth:`Conversation.replay` is handed one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from engine.protocol import Reply

from . import readers
from .contexts import Context
from .efforts import resolve_effort
from .entries import Entry, entry_of
from .errors import MessageError
from .parts import Part, ReplyPart, TextPart, ToolResultPart

if TYPE_CHECKING:
    from .replays import Difference

Kind = Literal["context", "user", "reply", "tool"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Turn:
    """One turn.

    Attributes
    ----------
    id : str
        Unique in its conversation.
    parent : str or None
        Id of the turn it follows; None for the beginning.
    kind : {"context", "user", "reply", "tool"}
        ``context`` is the beginning: system text, documents and whatever else stood there.
    entries : tuple of Entry
        What it adds to the context.
    text : str
        The question, the answer's text, or what the tool returned.
    reply : Reply or None
        The whole answer.
    effort : float or None
        Thinking effort from this question on; None leaves it as it was. It stands before the first message, so another effort
        computes the whole context again.
    """

    id: str
    parent: str | None
    kind: Kind
    entries: tuple[Entry, ...] = field(repr=False)
    text: str = ""
    reply: Reply | None = None
    effort: float | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """How an answer was made: model, versions and sampling options, as the engine said."""
        return dict(self.reply.provenance) if self.reply is not None else {}


class Conversation:
    """A tree of turns over a context.

    Parameters
    ----------
    context : Context, optional
        The beginning; copied, so that later changes of it change nothing here.
    """

    def __init__(self, context: Context | None = None) -> None:
        self._context = (context or Context()).copy()
        root = Turn(id="0", parent=None, kind="context", entries=())
        self._turns: dict[str, Turn] = {root.id: root}
        self._children: dict[str, list[str]] = {root.id: []}
        self._leaf = root.id
        self.losses: tuple[str, ...] = ()
        """What a damaged file lost (:meth:`load` with `salvage`)."""

    @property
    def root(self) -> Turn:
        """The beginning, before any question."""
        return self._turns["0"]

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Every turn but the beginning, in the order in which they were added."""
        # Copied first: an answer may be added on another thread meanwhile.
        return tuple(turn for turn in tuple(self._turns.values()) if turn.kind != "context")

    @property
    def leaf(self) -> Turn:
        """The turn that the next one follows, unless it says otherwise."""
        return self._turns[self._leaf]

    def select(self, at: Turn | str) -> Turn:
        """Make `at` the turn that the next one follows."""
        turn = self.turn(at)
        self._leaf = turn.id
        return turn

    def turn(self, at: Turn | str | None = None) -> Turn:
        """A turn of this conversation; the current one by default.

        Raises
        ------
        MessageError
            It is not one of this conversation's.
        """
        name = self._leaf if at is None else at if isinstance(at, str) else at.id
        if name not in self._turns or (isinstance(at, Turn) and self._turns[name] is not at):
            raise MessageError(f"no turn {name!r} in this conversation of {len(self._turns) - 1} turns")
        return self._turns[name]

    def children(self, at: Turn | str | None = None) -> tuple[Turn, ...]:
        """The turns that follow `at`, oldest first: more than one is a fork."""
        return tuple(self._turns[name] for name in self._children[self.turn(at).id])

    def path(self, at: Turn | str | None = None) -> list[Turn]:
        """The turns from the first question down to `at`."""
        found: list[Turn] = []
        turn = self.turn(at)
        while turn.parent is not None:
            found.append(turn)
            turn = self._turns[turn.parent]
        return found[::-1]

    def leaves(self) -> Iterator[Turn]:
        """The last turn of every branch."""
        return (turn for turn in self._turns.values() if not self._children[turn.id])

    def context(self, at: Turn | str | None = None) -> Context:
        """What is sent at turn `at`: the beginning and the turns down to it. Parts are shared; replies keep their ids."""
        path = self.path(at)
        effort = next((turn.effort for turn in reversed(path) if turn.effort is not None), self._context.effort)
        entries = [*self._context.items, *(entry for turn in path for entry in turn.entries)]
        return Context.of(system=self._context.system, effort=effort, tools=self._context.tools, entries=entries)

    def ask(
        self, text: str, *, at: Turn | str | None = None, parts: Iterable[Part] = (), effort: str | float | None = None
    ) -> Turn:
        """Add a question under `at` (the current turn by default), with parts that stand before it.

        Raises
        ------
        MessageError, EffortError
            Empty text, an unknown turn, a part a user cannot send, an unknown effort.
        """
        question = TextPart(text=readers.checked_text(text, "question"), name="question")
        entries = tuple(entry_of(part, "user") for part in (*parts, question))
        return self._add("user", entries, at, text=text, effort=None if effort is None else resolve_effort(effort))

    def add_reply(self, reply: Reply, *, at: Turn | str | None = None) -> Turn:
        """Add an answer under the turn it answers.

        Raises
        ------
        MessageError
            A reply without tokens, or an unknown turn.
        """
        if not len(reply.token_ids):
            raise MessageError(f"this reply has no tokens ({reply.finish_reason}): there is nothing to add")
        part = ReplyPart(token_ids=np.asarray(reply.token_ids))
        return self._add("reply", (entry_of(part, "model"),), at, text=reply.text, reply=reply)

    def add_tool_result(self, text: str, *, tool: str, at: Turn | str | None = None) -> Turn:
        """Add what the tool called `tool` returned."""
        if not tool:
            raise MessageError("a tool result needs the tool's name")
        part = ToolResultPart(text=readers.checked_text(text, "tool result", empty=True), tool=tool)
        return self._add("tool", (entry_of(part, "tool"),), at, text=text)

    def _add(self, kind: Kind, entries: tuple[Entry, ...], at: Turn | str | None, **values: Any) -> Turn:
        parent = self.turn(at)
        return self._put(Turn(id=str(len(self._turns)), parent=parent.id, kind=kind, entries=entries, **values))

    def _put(self, turn: Turn) -> Turn:
        assert turn.parent is not None
        self._turns[turn.id] = turn
        self._children[turn.id] = []
        self._children[turn.parent].append(turn.id)
        self._leaf = turn.id
        return turn

    def replay(self, engine: Any, *, at: Turn | str | None = None) -> list[Difference]:
        """Ask everything again and say what differs; see :func:`workbench.replays.replay`."""
        from .replays import replay

        return replay(self, engine, at=at)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything, media included, to one file. See :mod:`workbench.conversation_files`."""
        from .conversation_files import save

        return save(self, Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, salvage: bool = False) -> Conversation:
        """Read a saved conversation.

        Parameters
        ----------
        salvage : bool
            Open a damaged file without what is lost (and what hung under it), instead of raising.

        Raises
        ------
        ContextFileError
            Not a saved conversation, a newer version, or damaged: the message names what is lost.
        """
        from .conversation_files import load

        return load(Path(path), salvage=salvage)

    def __repr__(self) -> str:
        return f"Conversation({len(self.turns)} turns in {sum(1 for _ in self.leaves())} branches, now at {self.leaf.id})"
