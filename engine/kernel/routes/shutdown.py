"""``POST /workbench/shutdown``: end the kernel; what is running is aborted, everything on disk stays."""

from __future__ import annotations

from ..dependencies import State
from .route import router

routes = router()


@routes.post("/shutdown", status_code=202)
async def shutdown(state: State) -> dict[str, bool]:
    """Begin to stop and answer at once."""
    state.stopping.set()
    return {"stopping": True}
