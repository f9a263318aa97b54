"""The route class of ``/workbench``: our errors in our form, wherever the routes are mounted.

vLLM's application has its exception handling fixed before a plugin can add to it, and would answer in OpenAI's form.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from ...errors import BadRequest, InklingError


class WorkbenchRoute(APIRoute):
    """Answers ``{"error": {"code", "message", "detail"}}`` with the error's status."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except InklingError as problem:
                return error_response(problem)
            except RequestValidationError as problem:
                return error_response(BadRequest("; ".join(_sentence(error) for error in problem.errors())))

        return answer


def router() -> APIRouter:
    """A router of such routes."""
    return APIRouter(route_class=WorkbenchRoute)


def error_response(error: InklingError) -> JSONResponse:
    """An error as it crosses HTTP."""
    return JSONResponse({"error": error.to_json()}, status_code=error.http_status)


def _sentence(error: dict[str, Any]) -> str:
    place = ".".join(str(part) for part in error["loc"])
    given = repr(error.get("input"))
    return f"{place} is {given if len(given) <= 80 else given[:77] + '…'}: {error['msg']}"
