"""Errors of the engine's client side and kernel; the root of the project's one error tree.

    InklingError
    ├── EngineError
    │   ├── EngineStartError        the kernel did not come up (reason and log's place in the message)
    │   ├── EngineNotFound          nothing is running that could be attached
    │   ├── EngineAmbiguous         several are running: name one
    │   ├── EngineUnreachable       an address does not answer
    │   │   └── EngineDied          it answered before; the process is gone
    │   ├── EngineAuthError         the token is wrong or missing
    │   ├── EngineVersionError      client and kernel speak different API versions
    │   └── KernelMoved             this vLLM has moved a private name that our kernels replace
    ├── RequestRefused              refused before any work started
    │   ├── BadRequest              a malformed request or a value out of range
    │   ├── BlobMissing             a media blob was not uploaded, or its bytes do not match the hash
    │   ├── ContextUnknown          the kernel does not hold that context
    │   ├── ContextTooLong          prompt and reserved answer exceed the engine's limit
    │   ├── RenderMismatch          vLLM would run other token ids than were shown
    │   ├── FeatureUnsupported      this engine cannot do that (the reason is in the message)
    │   ├── AdapterUnknown          no adapter of that name is loaded, or lies in the engine's adapter folders
    │   ├── AdapterRefused          an adapter that cannot be loaded: a bad one, a name that is taken, too many
    │   ├── CaptureRefused          a capture plan this engine cannot fulfil
    │   ├── InterventionRefused     an intervention that is malformed, or that this engine or context cannot have
    │   ├── EngineBusy              as many requests as it takes are running or waiting
    │   └── QuotaFull               no room is left for what was sent
    ├── RequestFailed               accepted, then failed (the engine's own error is in the message)
    │   └── OutputInvalid           the answer is not the output or the call that was asked for
    └── ContextError                see ``workbench.errors``

A message says what was given, what is allowed and what to do next. ``code`` is stable and crosses HTTP; ``detail`` carries
the object that failed (JSON values only). This module knows nothing of HTTP or vLLM.
"""

from __future__ import annotations

from typing import Any, ClassVar


class InklingError(Exception):
    """Root of every error this project raises on purpose.

    Parameters
    ----------
    message : str
        What was given, what is allowed, what to do next.
    **detail
        JSON values that identify what failed (``path``, ``part``, ``request_id``, ``limit_tokens``, …).
    """

    code: ClassVar[str] = "inkling"
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail

    def to_json(self) -> dict[str, Any]:
        """The error as it crosses HTTP: ``{"code", "message", "detail"}``."""
        return {"code": self.code, "message": self.message, "detail": self.detail}


class EngineError(InklingError):
    """Something about the engine itself, not about one request."""

    code = "engine"


class EngineStartError(EngineError):
    """The engine kernel did not come up."""

    code = "engine-start"


class EngineNotFound(EngineError):
    """No running engine could be found."""

    code = "engine-not-found"


class EngineAmbiguous(EngineError):
    """Several engines are running and none was named."""

    code = "engine-ambiguous"


class EngineUnreachable(EngineError):
    """The address does not answer."""

    code = "engine-unreachable"
    http_status = 503


class EngineDied(EngineUnreachable):
    """The engine answered before and is gone now."""

    code = "engine-died"


class EngineAuthError(EngineError):
    """The bearer token is wrong or missing."""

    code = "engine-auth"
    http_status = 401


class EngineVersionError(EngineError):
    """Client and kernel speak different versions of the kernel API."""

    code = "engine-version"


class KernelMoved(EngineError):
    """The installed vLLM no longer has a private name that the engine replaces."""

    code = "kernel-moved"


class RequestRefused(InklingError):
    """Refused before any work started."""

    code = "refused"
    http_status = 400


class BadRequest(RequestRefused):
    """A malformed request, or a value out of its range."""

    code = "bad-request"


class BlobMissing(RequestRefused):
    """A media blob the request needs is not on the engine, or its bytes do not match its hash."""

    code = "blob-missing"
    http_status = 409


class ContextUnknown(RequestRefused):
    """The engine does not hold that context (any more): send it again."""

    code = "context-unknown"
    http_status = 404


class ContextTooLong(RequestRefused):
    """Prompt and reserved answer together exceed the engine's limit."""

    code = "context-too-long"
    http_status = 413


class RenderMismatch(RequestRefused):
    """vLLM would run other token ids than the ones that were shown to the user."""

    code = "render-mismatch"
    http_status = 409


class FeatureUnsupported(RequestRefused):
    """This engine cannot do what was asked; the message names the feature and the reason."""

    code = "unsupported"
    http_status = 422


class AdapterUnknown(RequestRefused):
    """No adapter of that name is loaded, or lies in the engine's adapter folders."""

    code = "adapter-unknown"
    http_status = 404


class AdapterRefused(RequestRefused):
    """An adapter that cannot be loaded: a bad one, a name that is taken, too many. Nothing has changed."""

    code = "adapter-refused"
    http_status = 422


class CaptureRefused(RequestRefused):
    """A capture plan this engine cannot fulfil, with the reason."""

    code = "capture-refused"
    http_status = 422


class InterventionRefused(RequestRefused):
    """An intervention that is malformed, or that this engine or this context cannot have, with what is allowed."""

    code = "intervention-refused"
    http_status = 422


class EngineBusy(RequestRefused):
    """As many requests as this engine takes at once are running or waiting already."""

    code = "engine-busy"
    http_status = 429


class QuotaFull(RequestRefused):
    """What the engine keeps of that kind is at its limit, and all of it was used lately."""

    code = "quota-full"
    http_status = 507


class RequestFailed(InklingError):
    """Accepted, then failed; the engine's own error is in the message."""

    code = "request-failed"
    http_status = 500


class OutputInvalid(RequestFailed):
    """The answer is not the structured output, or lacks the tool call, that was asked for; ``detail`` has what was written."""

    code = "output-invalid"


def from_json(error: dict[str, Any]) -> InklingError:
    """Rebuild an error that crossed HTTP; an unknown code becomes :class:`RequestFailed`."""
    kinds = {cls.code: cls for cls in _tree(InklingError)}
    kind = kinds.get(str(error.get("code")), RequestFailed)
    return kind(str(error.get("message", "the engine gave no message")), **dict(error.get("detail") or {}))


def _tree(cls: type[InklingError]) -> list[type[InklingError]]:
    return [cls] + [found for child in cls.__subclasses__() for found in _tree(child)]
