"""What the kernel's routes share: the engine, the stores, what is going on. One per process, made at start, never replaced."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..protocol import EngineInfo, FramingIds
from .blobs import BlobStore
from .capture_costs import Speed
from .contexts import ContextStore
from .token_bytes import TokenBytes

if TYPE_CHECKING:
    from .adapters import AdapterStore
    from .jobs import CaptureJobs


@dataclass(slots=True)
class Activity:
    """One request of ours while it runs; `done_tokens` counts the prompt."""

    request_id: str
    kind: str
    total_tokens: int
    done_tokens: int = 0
    generated_tokens: int = 0
    waiting: bool = True
    began: float = field(default_factory=time.monotonic)

    def to_json(self) -> dict[str, Any]:
        """The activity as the status route tells it."""
        return {
            "request_id": self.request_id, "kind": self.kind, "waiting": self.waiting, "total_tokens": self.total_tokens,
            "done_tokens": self.done_tokens, "generated_tokens": self.generated_tokens,
            "running_s": round(time.monotonic() - self.began, 2),
        }  # fmt: skip


@dataclass(slots=True, kw_only=True)
class KernelState:
    """Everything a route needs.

    Attributes
    ----------
    llm : vllm.v1.engine.async_llm.AsyncLLM
    stopping : asyncio.Event
        Set once when the kernel is to end; open streams watch it.
    """

    llm: Any
    info: EngineInfo
    blobs: BlobStore
    contexts: ContextStore
    framing: FramingIds
    table: TokenBytes
    unsupported: dict[str, str]
    jobs: CaptureJobs
    adapters: AdapterStore
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    active: dict[str, Activity] = field(default_factory=dict)
    speed: Speed = field(default_factory=Speed)
