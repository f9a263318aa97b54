"""What the kernel's routes share: the engine, the stores, what is going on. One per process, made at start, never replaced."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..protocol import EngineInfo, FramingIds
from .blobs import BlobStore
from .capture_costs import Speed
from .contexts import ContextStore
from .reuse import ReuseHistory
from .token_bytes import TokenBytes
from .turns import Turns

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
    first_done_tokens: int = 0
    first_done_at: float = 0.0

    def note(self, done_tokens: int) -> None:
        """Prompt tokens that are computed by now; the first ones come from the cache."""
        if self.waiting:
            self.waiting, self.first_done_tokens, self.first_done_at = False, done_tokens, time.monotonic()
        self.done_tokens = min(done_tokens, self.total_tokens)

    def left_s(self, usual_tokens_per_s: float | None) -> float | None:
        """Seconds until the prompt is computed: by its own rate, or by `usual_tokens_per_s`; None without either."""
        gained, took = self.done_tokens - self.first_done_tokens, time.monotonic() - self.first_done_at
        rate = gained / took if not self.waiting and gained > 0 and took > 0 else usual_tokens_per_s
        return None if not rate else round((self.total_tokens - self.done_tokens) / rate, 2)

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
    restarting : bool
        It ends to be started again.
    log : str or None
        Its log's path.
    turns : Turns
        Places at vLLM, given to clients in turn.
    admitted : Counter of str
        Requests that run or wait, by client (see :mod:`engine.kernel.admission`).
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
    turns: Turns
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    active: dict[str, Activity] = field(default_factory=dict)
    speed: Speed = field(default_factory=Speed)
    restarting: bool = False
    log: str | None = None
    admitted: Counter[str] = field(default_factory=Counter)
    reuse: ReuseHistory = field(default_factory=ReuseHistory)
