"""``GET /workbench/info``: what this engine is and can do."""

from __future__ import annotations

from ...protocol import EngineInfo
from ..dependencies import State
from .route import router

routes = router()


@routes.get("/info")
async def info(state: State) -> EngineInfo:
    """Identity, limits, image rule, seams that can fire, adapters that are loaded."""
    return state.info.model_copy(update={"adapters": state.adapters.support()})
