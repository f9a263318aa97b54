"""A chat as any host shows it: a conversation, an engine, one answer at a time, and the state that a page draws.

Used by the notebook widget and the app. The answer is read on a thread of its own and told to listeners at most
:data:`UPDATES_PER_S` times a second; the finished turn is state, so a dropped update loses nothing. Requests as in
:mod:`workbench.view_requests`:

    verb     args            result
    price    text            words, fits (what sending this would cost; nothing runs)
    send     text            turn
    stop     –               stopped
    retry    turn            turn (another answer to the same question; of a question without one, its answer)
    edit     turn, text      turn (another question in the same place)
    branch   turn, to        turn (shows the sibling number `to`)
    result   text, tool      turn (what a called tool returned; the answer goes on)
    tokens   turn            tokens (of an answer: each with its probability and alternatives)

This module knows no widget library; the tree is :class:`workbench.Conversation`'s.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from engine.errors import InklingError
from engine.protocol import EFFORTS

from .chat_live import LiveAnswer
from .chat_turns import reply_json, tokens_json
from .contexts import Context
from .conversations import Conversation, Turn
from .efforts import resolve_effort
from .entries import entry_of
from .errors import SelectionError
from .view_requests import answered

if TYPE_CHECKING:
    from engine import Engine

    from .parts import Part

UPDATES_PER_S = 30


class ChatSession:
    """One chat over one engine.

    Parameters
    ----------
    engine : Engine
    start : Context or Conversation, optional
        What stands before the first question; a conversation is continued as it is.
    max_tokens : int
        Upper bound of an answer.
    temperature : float
    logprobs : int or None
        Alternatives per token to ask for, shown on hover.
    """

    def __init__(
        self, engine: Engine, start: Context | Conversation | None = None, *, max_tokens: int = 256, temperature: float = 1.0,
        logprobs: int | None = 5,
    ) -> None:  # fmt: skip
        self.engine = engine
        self.conversation = start if isinstance(start, Conversation) else Conversation(start)
        named = {value: name for name, value in EFFORTS.items()}
        self.settings: dict[str, Any] = {
            "effort": named.get(self.conversation.context().effort), "max_tokens": max_tokens, "temperature": temperature,
            "logprobs": logprobs,
        }  # fmt: skip
        self.live: dict[str, Any] = {}
        self.problem: dict[str, Any] = {}
        self._listeners: list[Callable[[], object]] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopped: dict[str, Any] | None = None
        self._replies: dict[str, dict[str, Any]] = {}
        self.attached: tuple[Part, ...] = ()
        """Parts that go with the next question, before it; see :meth:`attach`."""
        self._parts = self._rows(self.conversation.context(self.conversation.root))
        self._attached: list[dict[str, Any]] = []

    def attach(self, parts: Iterable[Part]) -> None:
        """Let `parts` go with the next question, in place of those that waited."""
        context = Context.of(entries=[entry_of(part, "user") for part in parts])
        self.attached = context.parts
        self._attached = [row | {"label": f"{row['label']} (goes with the next question)"} for row in self._rows(context)]

    def _rows(self, context: Context) -> list[dict[str, Any]]:
        return [{"label": row.label, "tokens": row.tokens} for row in context.budget(self.engine.info).rows]

    def listen(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call `changed`, on whatever thread, when the state did; returns what ends that."""
        self._listeners.append(changed)
        return lambda: self._listeners.remove(changed)

    @property
    def busy(self) -> bool:
        """An answer is under way."""
        return bool(self.live)

    def wait(self, timeout_s: float | None = None) -> None:
        """Until no answer is under way."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def state(self) -> dict[str, Any]:
        """What a page draws: ``meta``, ``turns`` (this branch), ``live``, ``problem``; JSON values."""
        path = [turn for turn in self.conversation.path() if turn.kind != "context"]
        turns = [self._turn(turn) for turn in path]
        if self._stopped is not None:
            turns.append(self._stopped)
        info = self.engine.info
        reply = next((turn.reply for turn in reversed(path) if turn.reply is not None), None)
        used = (
            reply.usage.prompt_tokens + reply.usage.completion_tokens
            if reply is not None
            else sum(part["tokens"] for part in (*self._parts, *self._attached))
        )
        return {
            "meta": {
                "model": info.model, "context_tokens": info.limits.context_tokens, "used_tokens": used, "efforts": list(EFFORTS),
                "parts": [*self._parts, *self._attached],
                "notices": ["The checkpoint has random weights: its answers are noise."] if info.random_weights else [],
            },
            "turns": turns, "live": dict(self.live), "problem": dict(self.problem),
        }  # fmt: skip

    def answer(self, request: Any) -> tuple[dict[str, Any], list[bytes]]:
        """Answer one request; one that cannot be answered becomes an error answer."""
        verbs = {
            "price": self._price_asked, "send": self._send_asked, "stop": self._stop_asked, "retry": self._retry_asked,
            "edit": self._edit_asked, "branch": self._branch_asked, "result": self._result_asked,
            "tokens": self._tokens_asked,
        }  # fmt: skip
        return answered(request, verbs)

    def send(self, text: str) -> Turn:
        """Ask `text` on this branch; returns at once, the answer comes by itself.

        Raises
        ------
        SelectionError
            An answer is under way already.
        ContextTooLong, MessageError
            It cannot be sent; nothing was added.
        """
        question = self._ask(text, at=self.conversation.leaf, parts=self.attached)
        self.attach(())
        return question

    def give_result(self, text: str, *, tool: str) -> Turn:
        """Add what a called tool returned, and let the answer go on.

        Raises
        ------
        SelectionError
            An answer is under way already, or the last turn called no tool of that name.
        """
        self._idle()
        leaf = self.conversation.leaf
        called = [call.name for call in leaf.reply.tool_calls] if leaf.reply is not None else []
        if tool not in called:
            raise SelectionError(f"the last turn called {', '.join(called) or 'no tool'}, not {tool!r}: name a tool that it called")
        result = self.conversation.add_tool_result(text, tool=tool)
        self._begin(result)
        return result

    def stop(self) -> None:
        """Stop the answer under way; what had come is shown and is not part of the conversation."""
        self._stop.set()
        self.wait(30)

    def _ask(self, text: str, *, at: Turn, parts: Iterable[Part] = ()) -> Turn:
        self._idle()
        # Rendered once before it is added, so that what cannot be sent leaves no turn behind.
        trial = self.conversation.context(at)
        effort = self._new_effort(trial)
        trial.effort = trial.effort if effort is None else effort
        parts = tuple(parts)
        for part in parts:
            trial.add(part)
        trial.ask(text)
        trial.budget(self.engine.info, max_tokens=self.settings["max_tokens"]).check()
        question = self.conversation.ask(text, at=at, parts=parts, effort=effort)
        self._begin(question)
        return question

    def _begin(self, question: Turn) -> None:
        self._stop.clear()
        self.problem, self._stopped, self.live = {}, None, LiveAnswer().state
        self._tell()
        self._thread = threading.Thread(target=self._read, args=(question,), name="inkling-chat", daemon=True)
        self._thread.start()

    def _read(self, question: Turn) -> None:
        """The answer, event by event; ends in a turn, a stopped answer, or a problem, never in an exception."""
        context = self.conversation.context(question)
        options = {name: self.settings[name] for name in ("max_tokens", "temperature", "logprobs")}
        live, told, reply = LiveAnswer(), 0.0, None
        try:
            for event in self.engine.stream(context, **options):
                reply = live.take(event)
                self.live = live.state
                if self._stop.is_set() or reply is not None:
                    break
                if time.monotonic() - told >= 1 / UPDATES_PER_S:
                    told = time.monotonic()
                    self._tell()
            if reply is not None:
                self.conversation.add_reply(reply, at=question)
        except InklingError as problem:
            self.problem = problem.to_json()
        except Exception as problem:  # a page that hangs on "waiting" would hide it
            self.problem = {"code": "failed", "message": f"the answer failed: {type(problem).__name__}: {problem}"}
        if reply is None and (self._stop.is_set() or live.state["text"] or live.state["reasoning"]):
            self._stopped = live.left(broken=bool(self.problem))
        self.live = {}
        self._tell()

    def _new_effort(self, context: Context) -> float | None:
        """The effort to change to; None where it is the context's own, because a changed one computes everything again."""
        chosen = self.settings["effort"]
        value = None if chosen is None else resolve_effort(chosen)
        return None if value == context.effort else value

    def _idle(self) -> None:
        if self.busy:
            raise SelectionError("an answer is under way: stop it first, or wait for it")

    def _tell(self) -> None:
        for changed in list(self._listeners):
            changed()

    def _price_asked(self, text: str) -> dict[str, Any]:
        context = self.conversation.context()
        before = len(context.render(self.engine).token_ids)
        effort = self._new_effort(context)
        context.effort = context.effort if effort is None else effort
        for part in self.attached:
            context.add(part)
        context.ask(text)
        after = len(context.render(self.engine).token_ids)
        limit, reserved = self.engine.info.limits.context_tokens, self.settings["max_tokens"]
        words = f"+{after - before:,} tokens: {after:,} and up to {reserved:,} for the answer, of {limit:,}"
        return {"words": words, "fits": after + reserved <= limit, "tokens": after}

    def _send_asked(self, text: str) -> dict[str, Any]:
        return {"turn": self.send(text).id}

    def _stop_asked(self) -> dict[str, Any]:
        self._stop.set()
        return {"stopped": True}

    def _retry_asked(self, turn: str) -> dict[str, Any]:
        self._idle()
        named = self.conversation.turn(turn)
        if named.parent is None:
            raise SelectionError("only an answer, or a question without one, can be asked for again")
        question = self.conversation.turn(named.parent) if named.kind == "reply" else named
        self.conversation.select(question)
        self._begin(question)
        return {"turn": question.id}

    def _edit_asked(self, turn: str, text: str) -> dict[str, Any]:
        question = self.conversation.turn(turn)
        if question.kind != "user" or question.parent is None:
            raise SelectionError("only a question can be edited")
        # What went with the question goes with its other wording too.
        parts = [entry.part for entry in question.entries[:-1]]
        return {"turn": self._ask(text, at=self.conversation.turn(question.parent), parts=parts).id}

    def _result_asked(self, text: str, tool: str) -> dict[str, Any]:
        return {"turn": self.give_result(text, tool=tool).id}

    def _tokens_asked(self, turn: str) -> dict[str, Any]:
        reply = self.conversation.turn(turn).reply
        if reply is None:
            raise SelectionError("only an answer has tokens with probabilities")
        return {"tokens": tokens_json(reply)}

    def _branch_asked(self, turn: str, to: int) -> dict[str, Any]:
        self._idle()
        siblings = self._siblings(self.conversation.turn(turn))
        if not 0 <= to < len(siblings):
            raise SelectionError(f"there is no branch {to}: there are 0 to {len(siblings) - 1}")
        leaf = siblings[to]
        while children := self.conversation.children(leaf):
            leaf = children[-1]
        self.conversation.select(leaf)
        self._stopped = None
        self._tell()
        return {"turn": leaf.id}

    def _siblings(self, turn: Turn) -> list[Turn]:
        if turn.parent is None:
            return [turn]
        return [other for other in self.conversation.children(turn.parent) if other.kind == turn.kind]

    def _turn(self, turn: Turn) -> dict[str, Any]:
        siblings = self._siblings(turn)
        values: dict[str, Any] = {
            "id": turn.id, "role": turn.kind, "text": turn.text, "files": [entry.part.name for entry in turn.entries[:-1]],
            "branch": next(i for i, other in enumerate(siblings) if other.id == turn.id), "branches": len(siblings),
            "unanswered": turn.kind != "reply" and not self.conversation.children(turn),
        }  # fmt: skip
        if turn.reply is not None and turn.id not in self._replies:
            self._replies[turn.id] = reply_json(turn.reply)
        return values | self._replies.get(turn.id, {})
