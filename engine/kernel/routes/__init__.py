"""The ``/workbench`` routes, one file each; a file has ``routes`` and knows HTTP, the stores know the rest."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from . import adapters, blobs, captures, contexts, generate, info, probe, scores, shutdown, status

PREFIX = "/workbench"


def attach(app: FastAPI) -> None:
    """Add every route to an application whose state has ``workbench``."""
    whole = APIRouter(prefix=PREFIX, tags=["workbench"])
    for module in (info, status, adapters, blobs, contexts, probe, generate, scores, captures, shutdown):
        whole.include_router(module.routes)
    app.include_router(whole)
