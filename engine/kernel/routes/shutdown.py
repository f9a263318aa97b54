"""``POST /workbench/shutdown``: end the kernel; what is running is aborted, everything on disk stays."""

from __future__ import annotations

from ...errors import FeatureUnsupported
from ..dependencies import State
from .route import router

routes = router()


@routes.post("/shutdown", status_code=202)
async def shutdown(state: State, restart: bool = False) -> dict[str, bool]:
    """Begin to stop and answer at once; with `restart`, to be started again where it is, which takes a supervisor."""
    if restart and not state.info.supervised:
        raise FeatureUnsupported(
            "nobody watches over this engine, it would not come back: start it with supervise=True ('inkling engine start "
            "--supervise')"
        )
    state.restarting = restart
    state.stopping.set()
    return {"stopping": True, "restarting": restart}
