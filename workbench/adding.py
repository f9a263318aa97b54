"""Adding to a context: files and objects are read, words are checked, turns are appended.

Each method reads everything first and adds then, so one that fails leaves the context as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np

from engine.protocol import Reply, ToolCall

from . import readers, tools
from .entries import entry_of
from .errors import MessageError
from .messages import Role
from .parts import AudioPart, DocumentPart, ImagePart, Part, RecordingPart, ReplyPart, TextPart, ToolResultPart, WrittenReplyPart

if TYPE_CHECKING:
    from .entries import Entry
    from .readers.folders import Gathered

Fileish = str | os.PathLike[str] | bytes | BinaryIO
Show = Literal["auto", "text", "image", "both"]
Progress = Callable[[str, int, int], object]
"""Told what is read, how much is done and how much there is; returning False cancels, and nothing is added."""


class Adding:
    """The ``add_…`` methods of :class:`workbench.Context`."""

    def _insert(self, entries: Iterable[Entry], at: int | None = None) -> None:
        raise NotImplementedError

    def add(self, part: Part, *, role: Role = "user", at: int | None = None) -> Part:
        """Add a part that was read or made before; parts are immutable, so contexts share them freely.

        Parameters
        ----------
        at : int, optional
            Index in :attr:`items` to stand at; behind everything by default.
        """
        self._insert([entry_of(part, role)], at)
        return part

    def add_document(
        self, source: Fileish, *, name: str | None = None, password: str | None = None, encoding: str | None = None,
        show: Show = "auto", pages: str | Iterable[int] | None = None, sheets: Iterable[str] | None = None,
        cells: str | None = None, pictures: bool = True, progress: Progress | None = None,
    ) -> DocumentPart:  # fmt: skip
        """Add a document: PDF, DOCX, PPTX, XLSX, HTML, Markdown, CSV, JSON, notebooks, source code, plain text, multi-page TIFF.

        Parameters
        ----------
        source : path, bytes or binary file
        name : str, optional
            What the model and the reader call it; the file's name by default. It also tells the kind of raw bytes.
        password : str, optional
            For an encrypted PDF.
        encoding : str, optional
            Of a text file; UTF-8 (or the one its byte order mark names) by default.
        show : {"auto", "text", "image", "both"}
            How the pages of a PDF are given. ``auto`` is text, and an image for a page without text (a scan).
        pages : str or iterable of int, optional
            Which pages, slides or cells, from 1: ``"1-5,9"``. All by default.
        sheets : iterable of str, optional
            Which sheets of an XLSX file. All by default.
        cells : str, optional
            Which cells of its sheets: ``"A1:D20"``.
        pictures : bool
            Take along pictures that stand in an office file, a notebook or a web page.
        progress : callable, optional
            Told (what, done, total) page by page; returning False cancels.

        Raises
        ------
        SourceError
            Missing, unreadable, empty, encrypted, of a kind without a reader, or without the pages asked for.
        """
        options = readers.Options(
            password=password, encoding=encoding, show=show, pages=readers.page_numbers(pages),
            sheets=None if sheets is None else tuple([sheets] if isinstance(sheets, str) else sheets), cells=cells,
            pictures=pictures, progress=progress,
        )  # fmt: skip
        part = readers.read_document(source, name=name, options=options)
        self.add(part)
        return part

    def add_image(self, source: Any, *, name: str | None = None, frame: int | None = None) -> ImagePart:
        """Add an image: a file, bytes, a PIL image, or an array of shape (rows, columns[, channels]).

        Parameters
        ----------
        source : path, bytes, binary file, PIL.Image.Image or ndarray
            Arrays: uint8, uint16 (full range) or float from 0 to 1; grey, grey + alpha, RGB or RGBA.
        frame : int, optional
            Which frame of an animation or multi-page TIFF, from 0; required there (:meth:`add_document` takes them all).

        Raises
        ------
        SourceError
        """
        part = readers.read_image(source, name=name, frame=frame)
        self.add(part)
        return part

    def add_audio(
        self, source: Any, *, rate_hz: int | None = None, name: str | None = None, start_s: float = 0.0,
        stop_s: float | None = None, split: bool = True,
    ) -> AudioPart | RecordingPart:  # fmt: skip
        """Add a recording: a file, bytes, an array with its rate, or a (rate, array) pair as Gradio's microphone gives.

        Mixed down to mono and resampled to 16 kHz here, once. One that is longer than a clip may be (12,000 tokens, 600 s) is cut
        at silences into clips whose time goes on.

        Parameters
        ----------
        source : path, bytes, binary file, ndarray or (int, ndarray)
            Arrays: shape (frames,) or (frames, channels); integers are scaled by their full range.
        rate_hz : int, optional
            Sampling rate of an array; required there.
        start_s, stop_s : float
            The stretch to take, in seconds; the whole by default. Places count from the recording's own beginning.
        split : bool
            False refuses a recording that is too long for one clip.

        Raises
        ------
        SourceError, MediaTooLarge
        """
        part = readers.read_audio(source, rate_hz=rate_hz, name=name, start_s=start_s, stop_s=stop_s, split=split)
        self.add(part)
        return part

    def add_file(
        self, source: str | os.PathLike[str], *, name: str | None = None
    ) -> DocumentPart | ImagePart | AudioPart | RecordingPart:
        """Add a file by its kind, told by its name and first bytes."""
        part = readers.read_file(source, name=name)
        self.add(part)
        return part

    def add_folder(
        self, source: str | os.PathLike[str], *, only: Iterable[str] = (), skip: Iterable[str] = (), hidden: bool = False,
        progress: Progress | None = None,
    ) -> Gathered:  # fmt: skip
        """Add every file of a folder or a zip archive, in the order of their paths.

        ``.gitignore`` files are respected. Binary files, and what cannot be read, are left out and listed with the reason.

        Parameters
        ----------
        source : path
            A folder, or a ``.zip`` file.
        only, skip : iterable of str
            Patterns as in ``.gitignore``: take these alone; leave these out.
        hidden : bool
            Take files and folders whose names begin with a dot.
        progress : callable, optional
            Told (path, done, total) file by file; returning False cancels, and nothing is added.

        Returns
        -------
        Gathered
            ``parts`` that were added, and ``skipped``: path and reason of what was not.

        Raises
        ------
        SourceError
            No such folder, or nothing in it that can be read.
        """
        found = readers.read_folder(source, only=tuple(only), skip=tuple(skip), hidden=hidden, progress=progress)
        self._insert([entry_of(part, "user") for part in found.parts])
        return found

    def add_fragment(self, fragment: str) -> Part:
        """Add a kept part by its hash, or the beginning of it (:mod:`workbench.fragments`).

        Raises
        ------
        FragmentError
            No fragment, or several, of this hash.
        """
        from . import fragments

        return self.add(fragments.get(fragment))

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
