"""Context: what is sent. System text, thinking effort, tools, and parts and turns in order.

A Context is the one mutable object of composing: a short list of immutable parts. An ``add_…`` that fails leaves it as it was.
It lives as long as its notebook or command; :meth:`Context.save` keeps it in one file. It knows no engine: what an engine decides
(image rule, limits) is handed in.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from engine.protocol import DEFAULT_EFFORT, Rendered, Reply, ToolCall

from . import readers, tools
from .budgets import Budget, budget_of
from .efforts import resolve_effort
from .engine_rules import rules_of
from .errors import MessageError
from .messages import Role
from .parts import AudioPart, DocumentPart, ImagePart, Part, ReplyPart, TextPart, ToolResultPart, WrittenReplyPart
from .rendering import Layout, lay_out

Fileish = str | os.PathLike[str] | bytes | BinaryIO


class Context:
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
        self.system = system
        self.effort = effort
        self.tools = tools
        self._entries: tuple[tuple[Role, Part], ...] = ()
        self.losses: tuple[str, ...] = ()
        """What a damaged file lost (:meth:`load` with `salvage`)."""

    @property
    def system(self) -> str | None:
        """System text. It stands before everything: changing it recomputes the whole context."""
        return self._system

    @system.setter
    def system(self, text: str | None) -> None:
        self._system = None if text is None else readers.checked_text(text, "system text")

    @property
    def effort(self) -> float:
        """Thinking effort as a number. It stands before the first user message: changing it recomputes all that follows."""
        return self._effort

    @effort.setter
    def effort(self, value: str | float) -> None:
        self._effort = resolve_effort(value)

    @property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """Tool declarations. They stand before everything: changing them recomputes the whole context."""
        return self._tools

    @tools.setter
    def tools(self, value: Iterable[Mapping[str, Any]]) -> None:
        self._tools = tools.declare(value)

    @property
    def entries(self) -> tuple[tuple[Role, Part], ...]:
        """Role and part of every entry, in order."""
        return self._entries

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts in order."""
        return tuple(part for _, part in self._entries)

    def add(self, part: Part, *, role: Role = "user") -> Part:
        """Add a part that was read or made before; parts are immutable, so contexts share them freely."""
        if isinstance(part, ReplyPart | WrittenReplyPart | ToolResultPart):
            role = "tool" if isinstance(part, ToolResultPart) else "model"
        elif role not in ("user", "system") or (role == "system" and not isinstance(part, TextPart)):
            raise MessageError(f"a {type(part).__name__} cannot have the role {role!r}: user, or system for text")
        self._entries = (*self._entries, (role, part))
        return part

    def add_document(
        self, source: Fileish, *, name: str | None = None, password: str | None = None, encoding: str | None = None
    ) -> DocumentPart:
        """Add a document: PDF, DOCX, PPTX, XLSX, HTML, Markdown, CSV, source code or plain text.

        A PDF page without text becomes a page image.

        Parameters
        ----------
        source : path, bytes or binary file
        name : str, optional
            What the model and the reader call it; the file's name by default. It also tells the kind of raw bytes.
        password : str, optional
            For an encrypted PDF.
        encoding : str, optional
            Of a text file; UTF-8 (or the one its byte order mark names) by default.

        Raises
        ------
        SourceError
            Missing, unreadable, empty, encrypted, or of a kind without a reader.
        """
        part = readers.read_document(source, name=name, password=password, encoding=encoding)
        self.add(part)
        return part

    def add_image(self, source: Any, *, name: str | None = None, frame: int | None = None) -> ImagePart:
        """Add an image: a file, bytes, a PIL image, or an array of shape (rows, columns[, channels]).

        Parameters
        ----------
        source : path, bytes, binary file, PIL.Image.Image or ndarray
            Arrays: uint8, uint16 (full range) or float from 0 to 1; grey, grey + alpha, RGB or RGBA.
        frame : int, optional
            Which frame of an animation or multi-page TIFF, from 0; required there.

        Raises
        ------
        SourceError
        """
        part = readers.read_image(source, name=name, frame=frame)
        self.add(part)
        return part

    def add_audio(self, source: Any, *, rate_hz: int | None = None, name: str | None = None) -> AudioPart:
        """Add a recording: a file, bytes, an array with its rate, or a (rate, array) pair as Gradio's microphone gives.

        Mixed down to mono and resampled to 16 kHz here, once.

        Parameters
        ----------
        source : path, bytes, binary file, ndarray or (int, ndarray)
            Arrays: shape (frames,) or (frames, channels); integers are scaled by their full range.
        rate_hz : int, optional
            Sampling rate of an array; required there.

        Raises
        ------
        SourceError, MediaTooLarge
        """
        part = readers.read_audio(source, rate_hz=rate_hz, name=name)
        self.add(part)
        return part

    def add_file(self, source: str | os.PathLike[str]) -> DocumentPart | ImagePart | AudioPart:
        """Add a file by its kind, told by its name and first bytes."""
        part = readers.read_file(source)
        self.add(part)
        return part

    def add_text(self, text: str, *, role: Role = "user", name: str = "text") -> TextPart:
        """Add text as one user (or ``role="system"``) message, exactly as given.

        Raises
        ------
        MessageError
            Empty text, or a role that text cannot be given (answers: :meth:`add_reply`, tools: :meth:`add_tool_result`).
        """
        if role not in ("user", "system"):
            raise MessageError(f"add_text takes the roles user and system, not {role!r}: use add_reply or add_tool_result")
        part = TextPart(text=readers.checked_text(text, name), name=name)
        self.add(part, role=role)
        return part

    def ask(self, question: str) -> TextPart:
        """Add the question."""
        return self.add_text(question, name="question")

    def add_reply(
        self, reply: Reply | str, *, reasoning: str = "", tool_calls: Iterable[ToolCall | Mapping[str, Any]] = ()
    ) -> ReplyPart | WrittenReplyPart:
        """Add the model's turn.

        A :class:`Reply` is appended as the very ids that were sampled, so the engine's prefix cache still holds it. Text is a
        turn written by hand.

        Raises
        ------
        MessageError
            A reply without ids, an empty turn, or a tool call that cannot be written as JSON.
        """
        if isinstance(reply, Reply):
            if reasoning or tuple(tool_calls):
                raise MessageError("a Reply brings its own thinking and tool calls: pass text to write a turn by hand")
            if not len(reply.token_ids):
                raise MessageError(f"this reply has no tokens ({reply.finish_reason}): there is nothing to append")
            part: ReplyPart | WrittenReplyPart = ReplyPart(token_ids=np.asarray(reply.token_ids))
        else:
            calls = tuple(tools.checked_call(call) for call in tool_calls)
            if not (reply or reasoning or calls):
                raise MessageError("an empty turn: give text, reasoning or tool calls")
            text = readers.checked_text(reply, "reply") if reply else ""
            thought = readers.checked_text(reasoning, "reasoning") if reasoning else ""
            part = WrittenReplyPart(text=text, reasoning=thought, tool_calls=calls)
        self.add(part)
        return part

    def add_tool_result(self, text: str, *, tool: str) -> ToolResultPart:
        """Add what the tool called `tool` returned, as text (the chat format has no media in tool results)."""
        if not tool:
            raise MessageError("a tool result needs the tool's name")
        part = ToolResultPart(text=readers.checked_text(text, "tool result", empty=True), tool=tool)
        self.add(part)
        return part

    def remove(self, index: int) -> Part:
        """Take out the entry at `index` and return its part."""
        if not -len(self._entries) <= index < len(self._entries):
            raise MessageError(f"no entry {index}: this context has {len(self._entries)}")
        entries = list(self._entries)
        _, part = entries.pop(index)
        self._entries = tuple(entries)
        return part

    def copy(self) -> Context:
        """A context of its own with the same parts (they are shared, never copied)."""
        other = Context(self._system, self._effort, self._tools)
        other._entries = self._entries
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
        """What this context costs, part by part, with `max_tokens` reserved for the answer (at least 1)."""
        if max_tokens < 1:
            raise MessageError(f"max_tokens is {max_tokens}: reserve at least 1 token for the answer")
        _, limits, name = rules_of(engine)
        return budget_of(self.layout(engine), limits=limits, limit_of=name, max_tokens=max_tokens)

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
        return f"Context(effort={self._effort:g}, {len(self._tools)} tools, {len(self._entries)} entries: {named})"
