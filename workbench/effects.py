"""What changes of the model do to one reply, measured one at a time on a thread: how views that show weights get at causes.

A page starts a measurement and asks how far it is, so it works in every host and a busy notebook loses nothing. Each change is
judged by the log-probability of the reply's own tokens, so sampling plays no part; on request the question is also asked again,
greedily, with and without the change. Knows engines by their client, and no page.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.errors import InklingError
from engine.protocol import Intervention, Rendered, Reply
from engine.protocol.intervention_sets import describe

from .causes import interventions_of
from .errors import SelectionError

if TYPE_CHECKING:
    from engine import Engine

NO_ENGINE = "Give engine= and reply= to measure causes: then a change can be made and the answer judged again."


class _Stopped(Exception):
    """The reader does not want to wait any longer."""


@dataclass(slots=True)
class Effect:
    """What one change did.

    Attributes
    ----------
    words : str
        The change, in words.
    drop : float or None
        Log-probability that the reply loses under it, in nats; below 0 it gains. None while it is measured.
    by_token : list of float
        The same for every token of the reply.
    text, base_text : str or None
        Greedy answers under the change and without it, where they were asked for.
    """

    key: str
    words: str
    drop: float | None = None
    by_token: list[float] = field(default_factory=list)
    text: str | None = None
    base_text: str | None = None
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """The effect as JSON values."""
        return {
            "key": self.key, "words": self.words, "drop": self.drop, "by_token": [round(value, 4) for value in self.by_token],
            "text": self.text, "base_text": self.base_text, "problem": self.problem,
        }  # fmt: skip


class Effects:
    """Measurements on one reply.

    Parameters
    ----------
    engine : Engine or None
        Without one, :meth:`start` refuses and says what is missing.
    reply : Reply or None
        As that engine gave it; interventions stamped on it stay in force.

    Attributes
    ----------
    found : dict of str to Effect
        By key, in the order in which they were started; a finished one is not measured again.
    """

    def __init__(self, engine: Engine | None, reply: Reply | None) -> None:
        self.engine, self.reply = engine, reply
        self.found: dict[str, Effect] = {}
        self._running: str | None = None
        self._prefill: tuple[int, int] | None = None
        self._base: Any = None
        self._base_text: str | None = None
        self._problem: dict[str, Any] | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def ready(self) -> bool:
        """Whether there is what it takes."""
        return self.engine is not None and self.reply is not None

    def start(self, key: str, changes: Sequence[Intervention], *, again: bool = False) -> None:
        """Begin to measure `changes` together, unless that was done.

        Parameters
        ----------
        key : str
            Name under which it is found.
        again : bool
            Ask the question again, too.

        Raises
        ------
        SelectionError
            No engine or reply, or another measurement is under way.
        """
        if not self.ready:
            raise SelectionError(NO_ENGINE)
        if self._running is not None:
            raise SelectionError(f"{self.found[self._running].words} is being measured: stop it first, or wait for it")
        done = self.found.get(key)
        if done is not None and done.drop is not None and (done.text is not None or not again):
            return
        self._stop.clear()
        self.found.pop(key, None)
        self.found[key] = Effect(key, "; ".join(describe(item) for item in changes))
        self._running, self._prefill, self._problem = key, None, None
        self._thread = threading.Thread(
            target=self._measure, args=(key, tuple(changes), again), name="inkling-effects", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the measurement under way; nothing of it is kept."""
        self._stop.set()

    def wait(self, timeout_s: float | None = None) -> None:
        """Until nothing is under way."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def state(self) -> dict[str, Any]:
        """What a page draws, as JSON values.

        Returns
        -------
        dict
            ``running`` (key or None), ``prefill`` ([done, total] or None), ``found`` (list), ``problem`` (of the last measurement,
            as :meth:`InklingError.to_json` gives it, or None).
        """
        return {
            "running": self._running,
            "problem": self._problem,
            "prefill": list(self._prefill) if self._prefill else None,
            "found": [effect.to_json() for effect in list(self.found.values())],
        }

    def _measure(self, key: str, changes: tuple[Intervention, ...], again: bool) -> None:
        effect = self.found[key]
        try:
            self._judge(effect, changes, again)
        except _Stopped:
            self.found.pop(key, None)
        except InklingError as problem:
            effect.problem, self._problem = problem.message, problem.to_json()
        except Exception as problem:  # a page that waits for ever would hide it
            effect.problem = f"the measurement failed: {type(problem).__name__}: {problem}"
        finally:
            self._running = None

    def _judge(self, effect: Effect, changes: tuple[Intervention, ...], again: bool) -> None:
        engine, reply = self.engine, self.reply
        assert engine is not None
        assert reply is not None
        kept = interventions_of(reply)
        if self._base is None:
            self._base = engine.score(reply, interventions=kept, progress=self._read)
        changed = engine.score(reply, interventions=(*kept, *changes), progress=self._read)
        if again:
            prompt = prompt_of(engine, reply)
            if self._base_text is None:
                self._base_text = self._answer(prompt, kept)
            effect.text, effect.base_text = self._answer(prompt, (*kept, *changes)), self._base_text
        effect.by_token = np.subtract(self._base, changed).tolist()
        effect.drop = float(np.sum(effect.by_token))

    def _answer(self, prompt: Rendered, changes: tuple[Intervention, ...]) -> str:
        assert self.engine is not None
        assert self.reply is not None
        self._read(None)
        most = max(16, len(self.reply.token_ids) + 8)
        return self.engine.generate(prompt, max_tokens=most, temperature=0, interventions=changes).text

    def _read(self, progress: Any) -> None:
        if self._stop.is_set():
            raise _Stopped
        if progress is not None:
            self._prefill = (int(progress.done_tokens), int(progress.total_tokens))


def prompt_of(engine: Engine, reply: Reply) -> Rendered:
    """The context that a reply answers, without the reply.

    Raises
    ------
    ContextUnknown
        It was not sent by this client, or too long ago.
    """
    whole = engine.context_of(reply)
    tokens = len(whole) - len(reply.token_ids)
    return Rendered(
        token_ids=whole.token_ids[:tokens], spans=whole.spans[:-1], media=whole.media, image_rule=whole.image_rule,
        blobs=whole.blobs,
    )  # fmt: skip
