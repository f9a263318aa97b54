"""What one browser tab has on its desk: files not yet asked about, the conversation, the running answer, the last capture.

The same calls a notebook makes, in the order a page needs them; no Gradio here. A desk lives in the server's memory as long as its
tab, and an hour longer. Files are read when they come, and leave the desk for the conversation once their question is answered. A
stopped or failed exchange is shown and forgotten: it is not part of what is sent next.

Counting may run in a thread while an answer streams in the event loop: every step takes a copy of the conversation and puts a
whole new one in place.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError, InklingError
from engine.protocol import CapturePlan, Done, Event, PrefillProgress, Reasoning, Reply, Text, ToolCall
from workbench import Context, readers
from workbench.errors import EffortError, MessageError

if TYPE_CHECKING:
    from workbench import Budget, Capture
    from workbench.parts import Part

    from .link import Link

PAINTS_PER_S = 20.0
"""Repaints of a running answer; the last state is always painted."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the page's fields say, checked."""

    question: str
    effort: str | float
    max_tokens: int
    temperature: float

    @classmethod
    def read(cls, question: str | None, effort: str | float | None, max_tokens: float | None, temperature: float | None) -> Options:
        """The fields as they come from the page.

        Raises
        ------
        EffortError, MessageError
            A field is empty or no number.
        """
        if effort is None or effort == "":
            raise EffortError("no thinking effort: choose one, or write a number from 0 to 0.99")
        if isinstance(effort, str):
            with contextlib.suppress(ValueError):
                effort = float(effort)
        if not max_tokens or max_tokens < 1:
            raise MessageError("the answer needs room: at least 1 token")
        if temperature is None or not 0 <= temperature <= 2:
            raise MessageError("the temperature is a number from 0 (always the likeliest token) to 2")
        return cls((question or "").strip(), effort, int(max_tokens), float(temperature))


@dataclass(slots=True, eq=False)
class Turn:
    """One question and its answer as it grows.

    Attributes
    ----------
    accepted : bool
        The engine took it: it is no longer only a wish.
    problems : tuple of str
        Why it was refused, or broke off.
    """

    question: str
    files: tuple[str, ...] = ()
    text: str = ""
    reasoning: str = ""
    calls: list[str] = field(default_factory=list)
    done_tokens: int = 0
    total_tokens: int = 0
    waiting: bool = False
    accepted: bool = False
    running: bool = False
    stopped: bool = False
    reply: Reply | None = None
    problems: tuple[str, ...] = ()

    def take(self, event: Event) -> None:
        """Grow by one event of the stream."""
        self.accepted = True
        match event:
            case PrefillProgress():
                self.done_tokens, self.total_tokens, self.waiting = event.done_tokens, event.total_tokens, event.waiting
            case Text():
                self.text += event.text
            case Reasoning():
                self.reasoning += event.text
            case ToolCall():
                shown = (
                    event.raw
                    if event.arguments is None
                    else json.dumps({"name": event.name, "arguments": event.arguments}, indent=1)
                )
                self.calls.append(shown)
            case Done():
                # The whole reply is the truth; the pieces were for the eye.
                self.reply, self.text, self.reasoning = event.reply, event.reply.text, event.reply.reasoning


@dataclass(frozen=True, slots=True)
class File:
    """A file that was read and waits for its question."""

    path: str
    name: str
    part: Part


class Desk:
    """One tab's work."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.captured: Capture | None = None
        self._files: list[File] = []
        self._context: Context | None = None
        self._lock = threading.Lock()
        self._counts = self._counted = 0
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Desk:
        """Gradio copies the first value of a session's state for each tab: every tab gets an empty desk."""
        return Desk()

    @property
    def files(self) -> list[str]:
        """Paths of the files that wait."""
        return [file.path for file in self._files]

    def put_files(self, paths: Sequence[str]) -> list[str]:
        """Make `paths` the files that wait; returns one sentence for each that cannot be read, which is left out."""
        problems: list[str] = []
        with self._lock:
            held = {file.path: file for file in self._files}
            kept: list[File] = []
            for path in dict.fromkeys(paths):
                try:
                    kept.append(held.get(path) or _read(path))
                except InklingError as problem:
                    problems.append(_about(path, problem.message))
            self._files = kept
        return problems

    def budget(self, link: Link, options: Options) -> Budget | None:
        """Exact tokens of everything so far, the waiting files and the question included; None when a later count was faster."""
        with self._lock:
            self._counts += 1
            mine = self._counts
        found = self._draft(options).budget(link.known, max_tokens=options.max_tokens)
        with self._lock:
            if mine < self._counted:
                return None
            self._counted = mine
        return found

    def stop(self) -> None:
        """End the running answer, from any thread; without one, nothing."""
        if self._running is not None:
            loop, stopping = self._running
            loop.call_soon_threadsafe(stopping.set)

    async def ask(self, link: Link, question: str, *fields: Any) -> AsyncIterator[Turn]:
        """Ask, and yield the turn each time it is worth painting; the last one is final.

        Parameters
        ----------
        question, *fields
            As :meth:`Options.read` takes them.
        """
        turn = Turn(question=(question or "").strip(), files=tuple(file.name for file in self._files))
        if self._running is not None:
            turn.problems = ("An answer is still running: wait for it, or stop it.",)
            yield turn
            return
        stopping = asyncio.Event()
        self._running = (asyncio.get_running_loop(), stopping)
        turn.running = True
        try:
            yield turn
            options = Options.read(question, *fields)
            if not options.question:
                raise MessageError("The question is empty: write one.")
            engine = await link.engine()
            sent, files = self._draft(options), list(self._files)
            rendered = await asyncio.to_thread(sent.render, engine)
            stream = engine.astream(rendered, max_tokens=options.max_tokens, temperature=options.temperature)
            async with contextlib.aclosing(_growing(stream, turn, stopping)) as growing:
                async for _ in growing:
                    yield turn
            if turn.reply is not None:
                sent.add_reply(turn.reply)
                self._context, self.captured = sent, None
                self._files = [file for file in self._files if file not in files]
        except InklingError as problem:
            turn.problems = (problem.message,)
            if isinstance(problem, EngineError):
                link.lost()
        finally:
            turn.running = False
            self._running = None
            if turn.accepted:
                self.turns.append(turn)
        yield turn

    async def capture_tokens(self, link: Link) -> int | None:
        """Tokens that capturing the last exchange would compute; None when there is none, or it was captured."""
        if self._context is None or self.captured is not None:
            return None
        return len(await asyncio.to_thread(self._context.render, link.known))

    async def capture(self, link: Link) -> Capture:
        """Run the conversation up to the last answer once more and record its routing.

        Raises
        ------
        InklingError
            Nothing to capture, the engine is gone, or it cannot capture.
        """
        context = self._context
        if context is None:
            raise MessageError("There is no finished exchange to look into yet.")
        engine = await link.engine()
        found = await engine.acapture(context, CapturePlan(routing=True), recompute=True)
        if context is self._context:
            self.captured = found
        return found

    def _draft(self, options: Options) -> Context:
        """The conversation so far with the waiting files and the question: what Send would send."""
        with self._lock:
            draft = self._context.copy() if self._context else Context()
            draft.effort = options.effort
            for file in self._files:
                draft.add(file.part)
            if options.question:
                draft.ask(options.question)
        return draft


async def _growing(stream: AsyncIterator[Event], turn: Turn, stopping: asyncio.Event) -> AsyncGenerator[None]:
    """Feed `turn` from `stream`; yields when it should be painted. Closing the stream, on Stop too, aborts the request."""
    stop = asyncio.ensure_future(stopping.wait())
    coming: asyncio.Future[Any] | None = None
    painted, dirty = 0.0, False
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(stream, None))
            wait_s = max(0.0, painted + 1 / PAINTS_PER_S - time.monotonic()) if dirty else None
            ready, _ = await asyncio.wait({coming, stop}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if stop in ready:
                turn.stopped = True
                return
            if coming in ready:
                event, coming = coming.result(), None
                if event is None:
                    return
                turn.take(event)
                dirty = True
            if time.monotonic() - painted >= 1 / PAINTS_PER_S:
                painted, dirty = time.monotonic(), False
                yield
    finally:
        stop.cancel()
        if coming is not None:
            coming.cancel()
            with contextlib.suppress(asyncio.CancelledError, InklingError):
                await coming
        await stream.aclose()  # pyright: ignore[reportAttributeAccessIssue]


def _read(path: str) -> File:
    return File(path, Path(path).name, readers.read_file(path))


def _about(path: str, message: str) -> str:
    """A reader's words about a file, by its name: where an upload lies on the server is nobody's business."""
    name = Path(path).name
    said = message.replace(path, name)
    return said if name in said else f"{name}: {said}"
