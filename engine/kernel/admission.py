"""How many requests may run or wait at once, of one client and of all: the next one is refused with the limit's name.

What a client must not do is fill the queue without bound, nor take all the places there are. In which order waiting requests run is
:mod:`.turns`' business. The limits are in the engine's info. Lifetimes: one :class:`Admitted` a request.
"""

from __future__ import annotations

from fastapi import Request

from ..errors import EngineBusy
from .state import KernelState

CLIENT_HEADER = "x-inkling-client"
"""By which a client says that its requests are one's; who does not is told by the address it comes from."""


def client_of(request: Request) -> str:
    """Whose request it is."""
    return request.headers.get(CLIENT_HEADER, "")[:80] or (request.client.host if request.client else "")


class Admitted:
    """A place among the requests that run or wait; taken when made.

    Raises
    ------
    EngineBusy
        All places are taken, or all that this client may have.
    """

    def __init__(self, state: KernelState, client: str = "") -> None:
        limits, all_of_them, own = state.info.limits, state.admitted.total(), state.admitted[client]
        if all_of_them >= limits.requests:
            raise EngineBusy(
                f"{all_of_them} requests are running or waiting, this engine takes {limits.requests} (limits.requests): try again "
                "when one has ended, 'inkling engine status' shows them", limit=limits.requests,
            )  # fmt: skip
        if own >= limits.requests_per_client:
            raise EngineBusy(
                f"{own} requests of this client are running or waiting, one client may have {limits.requests_per_client} "
                "(limits.requests_per_client): wait for one to end", limit=limits.requests_per_client,
            )  # fmt: skip
        state.admitted[client] += 1
        self._state: KernelState | None = state
        self._client = client

    def leave(self) -> None:
        """Give the place back; harmless when that was done."""
        if self._state is not None:
            self._state.admitted[self._client] -= 1
            if not self._state.admitted[self._client]:
                del self._state.admitted[self._client]
            self._state = None
