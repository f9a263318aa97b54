"""Context: what is sent. System text, thinking effort, tools, and parts and turns in order.

A Context is the one mutable object of composing: a short list of immutable parts. An ``add_…`` that fails leaves it as it was, and
every change can be taken back. It lives as long as its notebook or command; :meth:`Context.save` keeps it in one file. It knows no
engine: what an engine decides (image rule, limits, what it has cached) is handed in.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.protocol import DEFAULT_EFFORT, Rendered

from . import readers, tools
from .adding import Adding
from .budgets import Budget, budget_of
from .editing import Editing
from .efforts import resolve_effort
from .engine_rules import probe_of, rules_of
from .entries import Entry, State
from .errors import MessageError
from .messages import Role
from .parts import Part
from .rendering import Layout, lay_out

if TYPE_CHECKING:
    from .proofs import Proof


class Context(Editing, Adding):
    """A context to be composed, counted and sent.

    Parameters
    ----------
    system : str, optional
        System text, before everything else.
    effort : str or float, default 0.9
        Thinking effort: ``none``, ``minimal``, ``low``, ``medium``, ``high``, ``xhigh``, ``max``, or a number from 0 to 0.99.
    tools : iterable of mapping, optional
        Tool declarations, OpenAI's shape or the bare function.

    Raises
    ------
    EffortError, MessageError
        An unknown effort; system text or a tool that cannot be written.
    """

    def __init__(
        self, system: str | None = None, effort: str | float = DEFAULT_EFFORT, tools: Iterable[Mapping[str, Any]] = ()
    ) -> None:
        self._state = State(system=_system(system), effort=resolve_effort(effort), tools=_declared(tools))
        self.losses: tuple[str, ...] = ()
        """What a damaged file lost (:meth:`load` with `salvage`)."""

    @property
    def system(self) -> str | None:
        """System text. It stands before everything: changing it recomputes the whole context."""
        return self._state.system

    @system.setter
    def system(self, text: str | None) -> None:
        self._become(replace(self._state, system=_system(text)))

    @property
    def effort(self) -> float:
        """Thinking effort as a number. It stands before the first user message: changing it recomputes all that follows."""
        return self._state.effort

    @effort.setter
    def effort(self, value: str | float) -> None:
        self._become(replace(self._state, effort=resolve_effort(value)))

    @property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """Tool declarations. They stand before everything: changing them recomputes the whole context."""
        return self._state.tools

    @tools.setter
    def tools(self, value: Iterable[Mapping[str, Any]]) -> None:
        self._become(replace(self._state, tools=_declared(value)))

    @property
    def entries(self) -> tuple[tuple[Role, Part], ...]:
        """Role and part of every entry that is sent, in order (:attr:`items` has the switched-off ones too)."""
        return tuple((entry.role, entry.part) for entry in self.items if not entry.disabled)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that are sent, in order."""
        return tuple(part for _, part in self.entries)

    @classmethod
    def of(
        cls, *, system: str | None = None, effort: str | float = DEFAULT_EFFORT, tools: Iterable[Mapping[str, Any]] = (),
        entries: Iterable[Entry] = (),
    ) -> Context:  # fmt: skip
        """A context with these entries, and nothing to undo."""
        made = cls(system, effort, tools)
        made._state = replace(made._state, entries=tuple(entries))
        return made

    def copy(self) -> Context:
        """A context of its own with the same parts (they are shared, never copied). Its history begins here."""
        other = Context()
        other._state = self._state
        return other

    def layout(self, engine: Any = None) -> Layout:
        """The rendered context with the token range of every entry; see :meth:`render`."""
        rule, limits, _ = rules_of(engine)
        return lay_out(self, rule, limits)

    def render(self, engine: Any = None) -> Rendered:
        """Token ids, spans and media: exactly what the model is given.

        Parameters
        ----------
        engine : Engine, EngineInfo or None
            Whose image rule and limits count; the model's defaults without one.

        Raises
        ------
        MediaTooLarge
            A recording or a number of images above that engine's limits.
        """
        return self.layout(engine).rendered

    def budget(self, engine: Any = None, *, max_tokens: int = 256) -> Budget:
        """What this context costs, part by part, with `max_tokens` reserved for the answer (at least 1).

        With an engine that can be asked, also what it has cached of it and what it would compute. To see what an edit costs before
        making it, make it on a :meth:`copy`.
        """
        if max_tokens < 1:
            raise MessageError(f"max_tokens is {max_tokens}: reserve at least 1 token for the answer")
        _, limits, name = rules_of(engine)
        layout = self.layout(engine)
        probe = probe_of(engine, layout.rendered)
        return budget_of(layout, limits=limits, limit_of=name, max_tokens=max_tokens, probe=probe)

    def proof(self, engine: Any = None) -> Proof:
        """What exactly would be sent, as hashes and counts, to be compared with what an engine says it ran.

        See :class:`workbench.proofs.Proof`.
        """
        from .proofs import proof_of

        return proof_of(self.layout(engine))

    def chat_request(self) -> dict[str, Any]:
        """The context as the body of an OpenAI chat request, for plain vLLM servers (:mod:`workbench.chat_requests`).

        Raises
        ------
        MessageError
            A text with a control spelling, which such a server would read as framing.
        """
        from .chat_requests import chat_request

        return chat_request(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything, media included, to one file. See :mod:`workbench.context_files`."""
        from .context_files import save

        return save(self, Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, salvage: bool = False) -> Context:
        """Read a saved context.

        Parameters
        ----------
        salvage : bool
            Open a damaged file without what is lost, instead of raising.

        Raises
        ------
        ContextFileError
            Not a saved context, a newer version, or damaged: the message names what is lost.
        """
        from .context_files import load

        return load(Path(path), salvage=salvage)

    def __repr__(self) -> str:
        named = ", ".join(part.name for part in self.parts)
        off = sum(entry.disabled for entry in self.items)
        return (
            f"Context(effort={self.effort:g}, {len(self.tools)} tools, {len(self.items)} entries"
            f"{f', {off} of them off' if off else ''}: {named})"
        )  # fmt: skip


def _system(text: str | None) -> str | None:
    return None if text is None else readers.checked_text(text, "system text")


def _declared(value: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    return tools.declare(value)
