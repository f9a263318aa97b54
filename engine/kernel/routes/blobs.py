"""``/workbench/blobs/{hash}``: media bytes, uploaded once."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from ...errors import BadRequest
from ..dependencies import State
from .route import router

routes = router()


@routes.head("/blobs/{name}")
async def has(name: str, state: State) -> Response:
    """200 when the engine holds the blob, else 404."""
    return Response(status_code=200 if state.blobs.has(name) else 404)


@routes.put("/blobs/{name}")
async def put(name: str, request: Request, state: State) -> JSONResponse:
    """Store the request's body under its hash; 201 when it is new, 200 when it was there."""
    announced = request.headers.get("content-length", "0")
    if not announced.isdigit():
        raise BadRequest(f"content-length is {announced[:40]!r}, not a number")
    new = await state.blobs.put(name, request.stream(), announced_bytes=int(announced))
    return JSONResponse({"blob": name, "new": new}, status_code=201 if new else 200)
