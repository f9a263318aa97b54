"""What is asked of the engine and what comes back: sampling options, replies, usage, timings, stream events.

Frozen dataclasses; their JSON form is :mod:`engine.protocol.wire`'s business. Output is split into text, reasoning and tool calls
by token id, never by matching text, so a model that writes a control spelling as text keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

FinishReason = Literal["stop", "length", "abort"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How to sample.

    Attributes
    ----------
    max_tokens : int
        Upper bound of generated tokens, at least 1; reserved against the engine's limit.
    temperature : float
        0 is greedy. 0 to 2.
    top_p, top_k, seed
        As in vLLM; `top_k` 0 keeps all, `seed` None is random.
    logprobs : int or None
        Alternatives per generated token to report, 0 to 20; None reports none.
    tool_choice : str
        ``auto`` leaves it to the model, ``none`` forbids calls, ``required`` wants at least one, a tool's name wants exactly one
        call of that tool.
    parallel_tool_calls : bool
        Whether a turn may hold several calls.
    output : dict or None
        What the answer's text must be (:func:`engine.protocol.outputs.checked_output`).
    """

    max_tokens: int = 256
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    logprobs: int | None = None
    tool_choice: str = "auto"
    parallel_tool_calls: bool = True
    output: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts as vLLM counted them.

    Attributes
    ----------
    drafted, accepted : tuple of int, by depth
        Tokens that were drafted as the first, second, … of a step, and how many of them the model accepted; empty on an engine
        that does not draft.
    """

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    drafted: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()

    @property
    def acceptance(self) -> tuple[float, ...]:
        """Share of the drafts that were accepted, by depth; NaN where none was drafted."""
        return tuple(a / d if d else float("nan") for a, d in zip(self.accepted, self.drafted, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Wall-clock seconds measured in the kernel: until the first token, and until the last."""

    first_token_s: float
    total_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call the model made.

    Attributes
    ----------
    name : str
    arguments : dict or None
        None when the model's JSON could not be read: never execute such a call.
    raw : str
        The call exactly as written.
    problem : str or None
        Why `arguments` is None.
    """

    name: str
    arguments: dict[str, Any] | None
    raw: str
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """Log-probability of one generated token and of its alternatives (natural logarithm)."""

    token_id: int
    logprob: float
    alternatives: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reply:
    """One finished answer.

    Attributes
    ----------
    token_ids : ndarray of uint32, shape (t,)
        Exactly what was sampled, framing included; appended verbatim to a context it stays in the prefix cache.
    context : str
        Id of the rendered context it answers.
    notices : tuple of str
        What a reader must know about this answer, e.g. that the checkpoint has random weights.
    provenance : dict
        Model, revision, engine versions, sampling options, and the adapter's hash.
    adapter : str or None
        Name of the adapter that answered; None is the model alone.
    """

    text: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    token_ids: NDArray[np.uint32]
    usage: Usage
    timings: Timings
    finish_reason: FinishReason
    context: str
    request_id: str
    logprobs: tuple[TokenLogprob, ...] = ()
    notices: tuple[str, ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)
    adapter: str | None = None

    def __repr__(self) -> str:
        shown = self.text if len(self.text) <= 60 else self.text[:57] + "…"
        use = self.usage
        return f"Reply({shown!r}, {use.prompt_tokens:,} + {use.completion_tokens:,} tokens, {self.finish_reason})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillProgress:
    """The engine has computed `done_tokens` of the prompt's `total_tokens` (cached ones included in both).

    Attributes
    ----------
    waiting : bool
        It has not begun.
    position : int or None
        Requests of this kernel that wait before it; None once it runs.
    left_s : float or None
        Seconds until the first token, from this prompt's own rate or, before it has one, from the last prompts'.
    """

    done_tokens: int
    total_tokens: int
    waiting: bool = False
    position: int | None = None
    left_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """More answer text, and the ids it came from."""

    text: str
    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """More thinking text, and the ids it came from."""

    text: str
    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The stream ended; the whole reply."""

    reply: Reply


Event = PrefillProgress | Text | Reasoning | ToolCall | Done
