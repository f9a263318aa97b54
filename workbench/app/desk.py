"""What one browser has on its desk: files not yet asked about, the conversation, what was captured; kept on disk.

The same objects a notebook has (``Conversation``, ``ChatSession``, ``Capture``), in the order a page needs them; no Gradio here.
Files are read when they come, wait for the next question, and go with it. After every change the desk's folder holds all of it: a
reloaded page, and a restarted app, go on where they were. Answers are read on the session's own thread and end in the conversation
whether a page looks or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError, InklingError
from engine.protocol import EFFORTS
from workbench import Context, Conversation, readers
from workbench.chat_sessions import ChatSession
from workbench.errors import ContextFileError, MessageError

if TYPE_CHECKING:
    from engine import Engine
    from engine.protocol import Reply
    from workbench import Budget, Capture, CapturePlan
    from workbench.conversations import Turn
    from workbench.parts import Part

    from .link import Link

RUN, WAITING, SETTINGS = "run.inkling", "waiting.inkling", "settings.json"
DEFAULTS: dict[str, Any] = {"effort": "low", "max_tokens": 128, "temperature": 0.0, "logprobs": 5}
_NAMES = {value: name for name, value in EFFORTS.items()}
ASKS = ("send", "retry", "edit", "result")
"""What a page asks that needs the engine."""


class Desk:
    """One browser's work.

    Parameters
    ----------
    folder : Path or None
        Where it is kept; None keeps nothing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.key = secrets.token_urlsafe(16)
        """Unguessable name of what a page is shown of it."""
        self.chosen = ""
        """Id of the reply to look into; empty for the last."""
        self.captured: Capture | None = None
        self.touched_at = time.monotonic()
        self.losses: tuple[str, ...] = ()
        self._files: list[Part] = []
        self._settings = dict(DEFAULTS)
        self._conversation = Conversation(Context(effort=DEFAULTS["effort"]))
        self._chat: ChatSession | None = None
        self._lock, self._keeping = threading.Lock(), threading.Lock()
        self._counts = self._counted = 0
        if folder is not None:
            self._restore(folder)

    @property
    def conversation(self) -> Conversation:
        """The tree of questions and answers."""
        return self._conversation

    @property
    def files(self) -> list[Part]:
        """The files that wait."""
        return list(self._files)

    @property
    def begun(self) -> bool:
        """Something was asked: what stands before everything is fixed."""
        return bool(self._conversation.turns)

    @property
    def busy(self) -> bool:
        """An answer is under way."""
        return self._chat is not None and self._chat.busy

    def chat(self, engine: Engine) -> ChatSession:
        """The session over the conversation, on `engine`."""
        if self._chat is None or self._chat.conversation is not self._conversation:
            self._chat = chat = ChatSession(engine, self._conversation)
            chat.settings = self._settings
            # Pages come and go; an answer that ended while none looked is kept all the same.
            chat.listen(lambda: None if chat.busy or chat is not self._chat else self.keep_soon())
        self._chat.engine = engine
        if self._chat.attached != tuple(self._files):
            self._chat.attach(self._files)
        return self._chat

    def answer(self, link: Link, content: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Answer what the chat's page asks (:mod:`workbench.chat_sessions`); what needs the engine finds it first."""
        asks = content.get("verb") in ASKS
        try:
            engine = link.engine() if asks else link.known
            chat = self.chat(engine)
        except InklingError as problem:
            if isinstance(problem, EngineError):
                link.lost()
            return {"id": content.get("id"), "ok": False, "error": problem.to_json()}, []
        before = len(self._conversation.turns)
        found = chat.answer(content)
        if len(self._conversation.turns) > before:
            if content.get("verb") == "send":
                # They are part of the question now.
                self._files = []
            self.keep_soon()
        return found

    def use(self, settings: dict[str, Any]) -> None:
        """Take what the page's fields say; the next answer goes by it."""
        self._settings.update({name: settings[name] for name in self._settings if name in settings})

    def put_files(self, paths: Sequence[str], *, name: str | None = None) -> list[str]:
        """Let the files at `paths`, and those in zip archives, wait too; one sentence for each that is left out."""
        problems: list[str] = []
        for path in dict.fromkeys(paths):
            try:
                if Path(path).suffix.lower() == ".zip":
                    found = readers.read_folder(path)
                    parts = found.parts
                    problems += [f"{Path(path).name}: {item.path} is left out: {item.reason}" for item in found.skipped]
                else:
                    parts = (readers.read_file(path, name=name),)
            except InklingError as problem:
                problems.append(_about(path, problem.message))
                continue
            with self._lock:
                self._files += parts
        return problems

    def keep_only(self, indices: Sequence[int]) -> None:
        """Take away the waiting files that are not named."""
        with self._lock:
            self._files = [part for number, part in enumerate(self._files) if number in indices]

    def begin_with(self, system: str, tools: str) -> None:
        """Set what stands before everything: system text, and tool declarations as JSON.

        Raises
        ------
        MessageError
            Not JSON, not declarations, or the conversation has begun.
        """
        try:
            declared = json.loads(tools) if tools.strip() else []
        except ValueError as problem:
            raise MessageError(f"the tools are not JSON: {problem}") from None
        before = self._conversation.context(self._conversation.root)
        made = Context(system or None, before.effort, declared if isinstance(declared, list) else [declared])
        if (made.system, made.tools) == (before.system, before.tools):
            return
        if self.begun:
            raise MessageError("system text and tools stand before everything: start over to change them")
        self._conversation = Conversation(made)

    def budget(self, link: Link) -> Budget | None:
        """Exact tokens of everything so far and of the waiting files; None when a later count was faster."""
        with self._lock:
            self._counts += 1
            mine = self._counts
        draft = self._conversation.context()
        if self._settings["effort"] is not None:
            draft.effort = self._settings["effort"]
        for part in self.files:
            draft.add(part)
        found = draft.budget(link.known, max_tokens=max(1, int(self._settings["max_tokens"] or 1)))
        with self._lock:
            if mine < self._counted:
                return None
            self._counted = mine
        return found

    def context_of(self, chosen: str = "") -> Context | None:
        """The conversation up to the answer `chosen`, or the last one on this branch; None without an answer."""
        turn = self._answer_turn(chosen)
        return None if turn is None else self._conversation.context(turn)

    def reply_of(self, chosen: str = "") -> Reply:
        """The answer `chosen`, or the last one on this branch.

        Raises
        ------
        MessageError
            There is none yet.
        """
        turn = self._answer_turn(chosen)
        if turn is None or turn.reply is None:
            raise MessageError("There is no answer to look into yet.")
        return turn.reply

    def _answer_turn(self, chosen: str) -> Turn | None:
        named = next((turn for turn in self._conversation.turns if turn.reply is not None and turn.id == chosen), None)
        return named or next((turn for turn in reversed(self._conversation.path()) if turn.reply is not None), None)

    async def capture(self, link: Link, plan: CapturePlan, chosen: str = "") -> Capture:
        """Run the conversation up to an answer once more and record what `plan` names.

        Raises
        ------
        InklingError
            Nothing to capture, the engine is gone, or it cannot capture.
        """
        self.reply_of(chosen)
        context = self.context_of(chosen)
        assert context is not None  # there is a reply
        engine = await asyncio.to_thread(link.engine)
        self.captured = await engine.acapture(context, plan, recompute=True)
        return self.captured

    def stop(self) -> None:
        """End the running answer; without one, nothing."""
        if self._chat is not None and self.busy:
            self._chat.stop()

    def clear(self) -> None:
        """Start over."""
        self.stop()
        root = self._conversation.context(self._conversation.root)
        self._files, self.captured, self.losses, self.chosen = [], None, (), ""
        self._conversation = Conversation(root)

    def open(self, path: str | Path) -> None:
        """Put a saved run, or a saved context, in place of the conversation.

        Raises
        ------
        ContextFileError
            Neither; what was here stays.
        """
        try:
            found = Conversation.load(path)
        except ContextFileError as problem:
            try:
                found = Conversation(Context.load(path))
            except ContextFileError:
                raise ContextFileError(_about(str(path), problem.message)) from None
        self.stop()
        self._files, self.captured, self.chosen = [], None, ""
        self._conversation = found
        self._settings["effort"] = _NAMES.get(found.context().effort, self._settings["effort"])

    def save(self, path: Path) -> Path:
        """Write the run as one file; ``Conversation.load`` opens it in a notebook."""
        return self._conversation.save(path)

    def keep_soon(self) -> None:
        """:meth:`keep`, while the caller goes on."""
        if self.folder is not None:
            threading.Thread(target=self.keep, name="inkling-keep").start()

    def keep(self) -> None:
        """Write the desk to its folder, whole."""
        if self.folder is None:
            return
        with self._keeping:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._conversation.save(self.folder / RUN)
            waiting = Context()
            for part in self.files:
                waiting.add(part)
            waiting.save(self.folder / WAITING)
            (self.folder / SETTINGS).write_text(json.dumps(self._settings), encoding="utf-8")

    def _restore(self, folder: Path) -> None:
        """What the folder holds; what is damaged is left out and named."""
        losses: list[str] = []
        for name, take in ((RUN, self._take_run), (WAITING, self._take_waiting)):
            if (folder / name).exists():
                try:
                    losses += take(folder / name)
                except ContextFileError as problem:
                    losses.append(_about(str(folder / name), problem.message))
        with contextlib.suppress(OSError, ValueError):
            self.use(json.loads((folder / SETTINGS).read_text("utf-8")))
        self.losses = tuple(losses)

    def _take_run(self, path: Path) -> tuple[str, ...]:
        self._conversation = Conversation.load(path, salvage=True)
        return self._conversation.losses

    def _take_waiting(self, path: Path) -> tuple[str, ...]:
        waiting = Context.load(path, salvage=True)
        self._files = list(waiting.parts)
        return waiting.losses


def _about(path: str, message: str) -> str:
    """A reader's words about a file, by its name: where it lies on the server is nobody's business."""
    name = Path(path).name
    said = message.replace(path, name)
    return said if name in said else f"{name}: {said}"
