"""How a route gets what it shares with the others."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from .state import KernelState


def state_of(request: Request) -> KernelState:
    """The state of the application that serves `request`."""
    return request.app.state.workbench


State = Annotated[KernelState, Depends(state_of)]
