"""``/workbench/adapters``: load, list and unload adapters."""

from __future__ import annotations

from ...protocol.adapters import AdapterBody, AdapterInfo, AdapterList
from ..dependencies import State
from .route import router

routes = router()


@routes.get("/adapters")
async def list_adapters(state: State) -> AdapterList:
    """What is loaded, and what could be."""
    return state.adapters.list()


@routes.post("/adapters", status_code=201)
async def load(body: AdapterBody, state: State) -> AdapterInfo:
    """Load an adapter from one of the engine's adapter folders; refused before anything changes when it is a bad one."""
    return await state.adapters.load(body.adapter, body.name)


@routes.delete("/adapters/{name}")
async def unload(name: str, state: State) -> AdapterInfo:
    """Let an adapter go; requests that run with it finish with it."""
    return await state.adapters.unload(name)
