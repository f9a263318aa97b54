"""The engine this app talks to: one for all pages, found again after it was restarted.

Pages ask :meth:`Link.look` every few seconds; however many are open, the engine is asked once per ``FRESH_S``. When it is gone,
the next look tries to attach to a running one, so that restarting the engine repairs every page. When none runs, a page may have
one started again, in the way that the command gave; what was started so is the command's to stop. Nothing here stops an engine.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from engine import Engine
from engine.errors import EngineError, EngineNotFound, InklingError
from engine.protocol import EngineInfo

FRESH_S = 2.0
"""How long a look at the engine stays valid."""

REMEDY = "Start one with: inkling engine start. This page finds it by itself, and nothing that was said is lost."

Start = Callable[[Callable[[str], None]], Engine]
"""Starts an engine and waits for it; tells each line of progress to what it is given."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen of the engine: its info, or why there is none.

    Attributes
    ----------
    starting : str
        How far the start of another one is; empty when none is being started.
    can_start : bool
        A page may have one started.
    """

    info: EngineInfo | None
    problem: str = ""
    starting: str = ""
    can_start: bool = False


class Link:
    """A shared handle on one engine.

    Parameters
    ----------
    engine : Engine
    find : callable
        Finds a running engine; called in a thread after the present one was lost.
    start : callable, optional
        Starts one when none runs and a page asks for it. Without it pages can only wait for one.

    Attributes
    ----------
    known : Engine
        The engine as last seen, gone or not; for counting, which needs its limits only.
    """

    def __init__(self, engine: Engine, find: Callable[[], Engine], start: Start | None = None) -> None:
        self.known = engine
        self._started: Engine | None = None
        self._start = start
        self._step = self._failure = ""
        self._one_start = threading.Lock()
        self._gone = False
        self._find = find
        self._seen = Sight(engine.info)
        self._seen_at = time.monotonic()
        self._looking = threading.Lock()

    def look_now(self) -> Sight:
        """See whether the engine answers; attach to a running one when it does not. Blocks for a moment."""
        with self._looking:
            if time.monotonic() - self._seen_at > FRESH_S:
                self._seen = self._probe()
                self._seen_at = time.monotonic()
            return self._seen

    async def look(self) -> Sight:
        """:meth:`look_now` for asynchronous callers."""
        return await asyncio.to_thread(self.look_now)

    def engine(self) -> Engine:
        """The engine, known to answer. Blocks for a moment.

        Raises
        ------
        EngineNotFound
            It is gone and no other is running.
        """
        if self._gone:
            self.lost()
        sight = self.look_now()
        if sight.info is None:
            raise EngineNotFound(sight.problem)
        return self.known

    def lost(self) -> None:
        """An answer broke off: the next look asks again at once."""
        self._seen_at = 0.0

    def start_again(self) -> None:
        """Have an engine started where none runs, and return at once; :meth:`look_now` tells how far it is.

        Does nothing while one is being started, where one answers, and where the command gave no way to.
        """
        start = self._start
        if start is None or not self._one_start.acquire(blocking=False):
            return
        self._step, self._failure = "beginning", ""
        self.lost()
        threading.Thread(target=self._bring_up, args=(start,), name="inkling-start", daemon=True).start()

    def close(self) -> Engine | None:
        """The last engine that was started here, after a start that is under way has ended."""
        with self._one_start:
            return self._started

    def _bring_up(self, start: Start) -> None:
        try:
            if self._probe_known() is None:
                self.known = self._started = start(partial(setattr, self, "_step"))
                self._gone = False
        except InklingError as problem:
            self._failure = problem.message
        finally:
            self._step = ""
            self._one_start.release()
            self.lost()

    def _probe(self) -> Sight:
        if (info := self._probe_known()) is not None:
            return Sight(info)
        if self._step:
            return Sight(None, starting=self._step)
        try:
            self.known = self._find()
        except InklingError as problem:
            why = self._failure or ("" if isinstance(problem, EngineNotFound) else problem.message)
            said = f"{why.rstrip('.')}. {REMEDY}" if why else REMEDY
            return Sight(None, said, can_start=self._start is not None)
        self._gone = False
        return Sight(self.known.info)

    def _probe_known(self) -> EngineInfo | None:
        if not self._gone:
            try:
                self.known.status()
            except EngineError:
                self._gone = True
            else:
                return self.known.info
        return None
