"""Whose request goes to vLLM next: clients take turns, so that one with many waiting requests does not hold up the others.

vLLM runs as many requests at once as it was told to and takes waiting ones in the order they came. Here no more are handed to it
than it runs; the rest wait by client, and a place that comes free goes to the next client in turn, to its oldest request. Requests
to vLLM's own routes do not pass here. Not thread-safe: everything happens on the kernel's event loop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque


class Turns:
    """The places at vLLM.

    Parameters
    ----------
    slots : int
        How many requests vLLM runs at once.
    """

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: OrderedDict[str, deque[Turn]] = OrderedDict()

    def join(self, client: str) -> Turn:
        """A turn for a request of `client`; it has come at once where there is room."""
        turn = Turn(self, client)
        self._waiting.setdefault(client, deque()).append(turn)
        self._go_on()
        return turn

    def order(self) -> list[Turn]:
        """Who waits, in the order in which places will be given if nobody else comes."""
        queues = [list(queue) for queue in self._waiting.values()]
        return [queue[depth] for depth in range(max(map(len, queues), default=0)) for queue in queues if depth < len(queue)]

    def _go_on(self) -> None:
        while self._free and self._waiting:
            client, queue = next(iter(self._waiting.items()))
            turn = queue.popleft()
            # To the end of the line of clients, or out of it.
            self._waiting.move_to_end(client)
            if not queue:
                del self._waiting[client]
            self._free -= 1
            turn.come.set()

    def _left(self, turn: Turn) -> None:
        if turn.come.is_set():
            self._free += 1
        else:
            queue = self._waiting[turn.client]
            queue.remove(turn)
            if not queue:
                del self._waiting[turn.client]
        self._go_on()


class Turn:
    """One request's turn.

    Attributes
    ----------
    come : asyncio.Event
        Set when it may go to vLLM.
    """

    def __init__(self, turns: Turns, client: str) -> None:
        self.client, self.come = client, asyncio.Event()
        self._turns: Turns | None = turns

    async def came(self, within_s: float) -> bool:
        """Wait for it a little; whether it has come."""
        try:
            await asyncio.wait_for(self.come.wait(), within_s)
        except TimeoutError:
            return False
        return True

    @property
    def position(self) -> int | None:
        """How many go before it; None once it has come."""
        return None if self.come.is_set() or self._turns is None else self._turns.order().index(self)

    def leave(self) -> None:
        """Give the place back, or stop waiting for one; harmless when that was done."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns._left(self)
