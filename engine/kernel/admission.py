"""How many requests may run or wait at once: the next one is refused with the limit's name, instead of waiting for ever.

vLLM takes waiting requests in the order they came, so nobody overtakes; what a client must not do is fill the queue without bound.
The limits are in the engine's info. Lifetimes: one :class:`Admitted` a request.
"""

from __future__ import annotations

from ..errors import EngineBusy
from .state import KernelState


class Admitted:
    """A place among the requests that run or wait; taken when made.

    Raises
    ------
    EngineBusy
        All places are taken.
    """

    def __init__(self, state: KernelState) -> None:
        limit = state.info.limits.requests
        if state.admitted >= limit:
            raise EngineBusy(
                f"{state.admitted} requests are running or waiting, this engine takes {limit} (limits.requests): try again when "
                "one has ended, 'inkling engine status' shows them", limit=limit,
            )  # fmt: skip
        state.admitted += 1
        self._state: KernelState | None = state

    def leave(self) -> None:
        """Give the place back; harmless when that was done."""
        if self._state is not None:
            self._state.admitted -= 1
            self._state = None
