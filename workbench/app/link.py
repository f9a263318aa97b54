"""The engine this app talks to: one for all pages, found again after it was restarted.

Pages ask :meth:`Link.look` every few seconds; however many are open, the engine is asked once per ``FRESH_S``. When it is gone,
the next look tries to attach to a running one, so that restarting the engine repairs every page. It never starts or stops an
engine: that is the command's business.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from engine import Engine
from engine.errors import EngineError, EngineNotFound, InklingError
from engine.protocol import EngineInfo

FRESH_S = 2.0
"""How long a look at the engine stays valid."""

REMEDY = "Start one with: inkling engine start. This page finds it by itself."


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen of the engine: its info, or why there is none."""

    info: EngineInfo | None
    problem: str = ""


class Link:
    """A shared handle on one engine.

    Parameters
    ----------
    engine : Engine
    find : callable
        Finds a running engine; called in a thread after the present one was lost.

    Attributes
    ----------
    known : Engine
        The engine as last seen, gone or not; for counting, which needs its limits only.
    """

    def __init__(self, engine: Engine, find: Callable[[], Engine]) -> None:
        self.known = engine
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

    def _probe(self) -> Sight:
        if not self._gone:
            try:
                self.known.status()
                return Sight(self.known.info)
            except EngineError:
                self._gone = True
        try:
            self.known = self._find()
        except InklingError as problem:
            return Sight(None, f"{problem.message} {REMEDY}")
        self._gone = False
        return Sight(self.known.info)
