"""The prefix cache explained: what ran here before, how much a context shares with it, how fast prompts are computed.

Remembers the last prompts with their answers, as token ids; nothing on disk. Two contexts with the same placeholders are told apart
by their media. Lifetimes: the kernel's.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..protocol import Media, Reuse
from .contexts import StoredContext
from .core_calls import NAME
from .media import cache_name

if TYPE_CHECKING:
    from .state import KernelState

REMEMBERED = 16
"""Prompts that are compared with; 4 MB each at a million tokens."""

RATE_TOKENS = 256
"""Shorter prompts say nothing about the rate."""


@dataclass(frozen=True, slots=True, eq=False)
class _Ran:
    token_ids: NDArray[np.uint32]
    media: tuple[Media, ...]


class ReuseHistory:
    """What ran lately, and at what rate prompts were computed."""

    def __init__(self) -> None:
        self._ran: OrderedDict[tuple[str, str | None], _Ran] = OrderedDict()
        self._rate: float | None = None
        self.hit_tokens = 1

    @property
    def prefill_tokens_per_s(self) -> float | None:
        """Computed prompt tokens a second, the last runs weighing most; None before the first long prompt."""
        return self._rate

    def most_similar(self, context: StoredContext, adapter: str | None = None) -> tuple[str | None, int]:
        """The earlier context of that adapter that shares most tokens from the beginning, and how many."""
        best: tuple[str | None, int] = (None, 0)
        for (name, whose), ran in self._ran.items():
            if whose != adapter:
                continue
            shared = shared_tokens(context, ran.token_ids, ran.media)
            if shared > best[1]:
                best = (name, shared)
        return best

    def add(
        self, context: StoredContext, answer: list[int], *, computed_tokens: int, first_token_s: float, adapter: str | None = None
    ) -> None:
        """Note that a context has run."""
        ids = np.concatenate([context.token_ids, np.asarray(answer, dtype=np.uint32)])
        self._ran[context.id, adapter] = _Ran(ids, context.media)
        self._ran.move_to_end((context.id, adapter))
        while len(self._ran) > REMEMBERED:
            self._ran.popitem(last=False)
        if computed_tokens >= RATE_TOKENS and first_token_s > 0:
            rate = computed_tokens / first_token_s
            self._rate = rate if self._rate is None else 0.5 * (self._rate + rate)


def shared_tokens(context: StoredContext, token_ids: NDArray[np.uint32], media: tuple[Media, ...]) -> int:
    """Tokens from the beginning that two contexts have in common, media included."""
    length = min(len(context), len(token_ids))
    differ = np.flatnonzero(context.token_ids[:length] != token_ids[:length])
    shared = int(differ[0]) if len(differ) else length
    theirs = {item.start: item.blob for item in media}
    other = [item.start for item in context.media if theirs.get(item.start) != item.blob]
    return min([shared, *other])


async def ask_core(state: KernelState, token_ids: NDArray[np.uint32], media: list[list[Any]]) -> list[int]:
    """Reused and matching tokens and the granularity, from the engine core (see :mod:`engine.kernel.core_calls`)."""
    ids = np.ascontiguousarray(token_ids, dtype="<u4").tobytes()
    answer = await state.llm.engine_core.call_utility_async(NAME, ids, media)
    state.reuse.hit_tokens = answer[2]
    return answer


def cache_media(context: StoredContext) -> list[list[Any]]:
    """Kind, name, start and tokens of every media item as vLLM's cache counts them: from the marker, which it replaces as well."""
    return [[item.kind, cache_name(item, context.image_rule), item.start - 1, item.tokens + 1] for item in context.media]


async def probe(state: KernelState, context: StoredContext) -> Reuse:
    """What of a context would be reused if it ran now. Nothing runs."""
    cached, matching, hit = await ask_core(state, context.token_ids, cache_media(context))
    earlier, shared = state.reuse.most_similar(context)
    return Reuse(
        prompt_tokens=len(context), cached_tokens=cached, matching_tokens=matching, shared_tokens=max(shared, matching),
        hit_tokens=hit, earlier=earlier, prefill_tokens_per_s=state.reuse.prefill_tokens_per_s,
    )  # fmt: skip


def to_json(reuse: Reuse) -> dict[str, Any]:
    """A reuse as it crosses HTTP: numbers without spans, which the client has."""
    return {name: getattr(reuse, name) for name in reuse.__slots__ if name != "spans"}
