"""How things cross HTTP: the context frame, and the request and event JSON of ``/workbench``.

A context travels as one binary frame, so that a million ids are 4 MB and not a JSON list::

    b"IWC1" | uint32 header length | header (UTF-8 JSON) | token ids (uint32, little endian)

The header names media and, to send only what is new, a ``base`` context already on the engine and how many of its tokens to keep.
Events are server-sent events whose ``event:`` is the class name below and whose ``data:`` is one JSON object.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ..errors import BadRequest
from .images import ImageRule
from .outputs import checked_output, checked_tool_choice
from .plans import CapturePlan
from .rendered import Media, Rendered
from .replies import (
    Done,
    Event,
    FinishReason,
    PrefillProgress,
    Reasoning,
    Reply,
    Sampling,
    Text,
    Timings,
    TokenLogprob,
    ToolCall,
    Usage,
)  # fmt: skip
from .span_json import span_from_json
from .spans import Span

MAGIC = b"IWC1"
_LENGTH = struct.Struct("<I")


class MediaHeader(BaseModel):
    """One media item of a context frame."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["image", "audio"]
    blob: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    start: int = Field(ge=0)
    tokens: int = Field(ge=1)


class ContextHeader(BaseModel):
    """Header of a context frame; `media` lists the whole context's items, `base` shortens the ids only."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    media: list[MediaHeader] = []
    upscale: float | None = None
    upscale_cap_px: int = 2048
    patch_px: int = 40
    base: str | None = Field(default=None, pattern=r"^sha256:[0-9a-f]{64}$")
    base_tokens: int = Field(default=0, ge=0)

    @property
    def image_rule(self) -> ImageRule:
        return ImageRule(upscale=self.upscale, cap_px=self.upscale_cap_px, patch_px=self.patch_px)

    def media_items(self) -> tuple[Media, ...]:
        return tuple(Media(**item.model_dump()) for item in self.media)


def pack_context(rendered: Rendered, *, base: str | None = None, base_tokens: int = 0) -> bytes:
    """The frame for `rendered`; with `base`, without its first `base_tokens` ids."""
    return frame_context(
        rendered.id, rendered.token_ids, rendered.media, rendered.image_rule, base=base, base_tokens=base_tokens
    )  # fmt: skip


def frame_context(
    name: str, token_ids: NDArray[np.uint32], media: tuple[Media, ...], image_rule: ImageRule, *,
    base: str | None = None, base_tokens: int = 0,
) -> bytes:  # fmt: skip
    """The frame of a context given by its pieces (see :func:`pack_context`); `name` is its id."""
    header = ContextHeader(
        id=name,
        media=[MediaHeader(**dataclasses.asdict(item)) for item in media],
        upscale=image_rule.upscale, upscale_cap_px=image_rule.cap_px,
        patch_px=image_rule.patch_px, base=base, base_tokens=base_tokens,
    )  # fmt: skip
    head = header.model_dump_json().encode()
    ids = np.ascontiguousarray(token_ids[base_tokens:], dtype="<u4").tobytes()
    return MAGIC + _LENGTH.pack(len(head)) + head + ids


def unpack_context(frame: bytes) -> tuple[ContextHeader, NDArray[np.uint32]]:
    """Header and (new) ids of a frame.

    Raises
    ------
    BadRequest
        Not a context frame, or a malformed header.
    """
    if frame[:4] != MAGIC or len(frame) < 8:
        raise BadRequest(f"not a context frame: it must begin with {MAGIC!r}")
    (length,) = _LENGTH.unpack_from(frame, 4)
    head, ids = frame[8 : 8 + length], frame[8 + length :]
    if len(head) != length or len(ids) % 4:
        raise BadRequest("a context frame is cut short: send it again")
    try:
        header = ContextHeader.model_validate_json(head)
    except ValidationError as problem:
        raise BadRequest(f"a context frame's header is malformed: {problem}") from problem
    return header, np.frombuffer(ids, dtype="<u4").astype(np.uint32)


class SamplingBody(BaseModel):
    """:class:`Sampling` as JSON, with its ranges."""

    model_config = ConfigDict(extra="forbid")

    max_tokens: int = Field(default=256, ge=1)
    temperature: float = Field(default=1.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0)
    seed: int | None = Field(default=None, ge=0, lt=1 << 63)
    logprobs: int | None = Field(default=None, ge=0, le=20)
    tool_choice: Annotated[str, BeforeValidator(checked_tool_choice)] = "auto"
    parallel_tool_calls: bool = True
    output: Annotated[dict[str, Any], BeforeValidator(checked_output)] | None = None

    def options(self) -> Sampling:
        return Sampling(**self.model_dump())


class GenerateBody(BaseModel):
    """Body of ``POST /workbench/generate``."""

    model_config = ConfigDict(extra="forbid")

    context: str
    sampling: SamplingBody = SamplingBody()
    adapter: str | None = Field(default=None, max_length=80)
    interventions: list[dict[str, Any]] = []
    request_id: str | None = Field(default=None, max_length=80, pattern=r"^[A-Za-z0-9._-]+$")


class AdapterChoice(BaseModel):
    """The adapter that shall run; with `id`, only if it is that one still (:class:`~engine.protocol.adapters.AdapterInfo`)."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=80)
    id: str | None = None


class ScoreBody(BaseModel):
    """Body of ``POST /workbench/scores``: log-probabilities are wanted of the tokens from `first` on."""

    model_config = ConfigDict(extra="forbid")

    context: str
    first: int = Field(ge=1)
    adapter: AdapterChoice | None = None
    interventions: list[dict[str, Any]] = []


class CaptureBody(BaseModel):
    """Body of ``POST /workbench/captures``: a plan for a context.

    Attributes
    ----------
    spans : list of dict
        The context's spans (:func:`~engine.protocol.span_to_json`): attention is summed over them, and they stay with the capture.
    reply_tokens : int
        How many of the last tokens are a reply's: what ``"reply"`` selects.
    recompute : bool
        However many tokens it takes.
    """

    model_config = ConfigDict(extra="forbid")

    context: str
    plan: dict[str, Any]
    adapter: AdapterChoice | None = None
    interventions: list[dict[str, Any]] = []
    spans: list[dict[str, Any]] = []
    reply_tokens: int = Field(default=0, ge=0)
    recompute: bool = False

    def span_items(self) -> tuple[Span, ...]:
        """The spans.

        Raises
        ------
        BadRequest
            Not spans.
        """
        try:
            return tuple(span_from_json(item) for item in self.spans)
        except (KeyError, TypeError, ValueError) as problem:
            raise BadRequest(f"not spans: {problem!r}") from problem

    def capture_plan(self) -> CapturePlan:
        """The plan.

        Raises
        ------
        BadRequest
            An unknown field, or a plan that records nothing.
        """
        try:
            return CapturePlan.from_json(self.plan)
        except (TypeError, ValueError) as problem:
            raise BadRequest(f"not a capture plan: {problem}") from problem


def event_to_json(event: Event) -> tuple[str, dict[str, Any]]:
    """Name and data of a server-sent event."""
    if isinstance(event, Done):
        return "Done", reply_to_json(event.reply)
    return type(event).__name__, dataclasses.asdict(event)


def event_from_json(name: str, data: dict[str, Any]) -> Event:
    """The event that :func:`event_to_json` wrote."""
    if name == "Done":
        return Done(reply=reply_from_json(data))
    kind = {"PrefillProgress": PrefillProgress, "Text": Text, "Reasoning": Reasoning, "ToolCall": ToolCall}[name]
    return kind(**{key: tuple(value) if key == "token_ids" else value for key, value in data.items()})


def reply_to_json(reply: Reply) -> dict[str, Any]:
    """A reply as JSON values."""
    values = {f.name: getattr(reply, f.name) for f in dataclasses.fields(reply)}
    values["token_ids"] = reply.token_ids.tolist()
    values["usage"], values["timings"] = dataclasses.asdict(reply.usage), dataclasses.asdict(reply.timings)
    values["tool_calls"] = [dataclasses.asdict(call) for call in reply.tool_calls]
    values["logprobs"] = [[item.token_id, item.logprob, list(item.alternatives.items())] for item in reply.logprobs]
    values["notices"] = list(reply.notices)
    return values


def reply_from_json(values: dict[str, Any]) -> Reply:
    """The reply that :func:`reply_to_json` wrote."""
    finish: FinishReason = values["finish_reason"]
    usage: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values["usage"].items()}
    return Reply(
        text=values["text"], reasoning=values["reasoning"], finish_reason=finish, context=values["context"],
        request_id=values["request_id"], token_ids=np.asarray(values["token_ids"], dtype=np.uint32),
        tool_calls=tuple(ToolCall(**call) for call in values["tool_calls"]),
        usage=Usage(**usage), timings=Timings(**values["timings"]),
        logprobs=tuple(TokenLogprob(token_id=i, logprob=p, alternatives=dict(map(tuple, a))) for i, p, a in values["logprobs"]),
        notices=tuple(values["notices"]), provenance=dict(values["provenance"]), adapter=values.get("adapter"),
    )  # fmt: skip
