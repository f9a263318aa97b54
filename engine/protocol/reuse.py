"""What of a context the prefix cache holds: asked before a run, or explained after one.

The engine knows token counts, the client knows spans; put together they say which parts are reused, which are computed, and which
part broke the prefix. Three numbers tell the story: tokens an earlier request here shares from the beginning, tokens whose global
keys and values are still cached, and tokens that are reused, which ends at a resume point of the sliding layers and short
convolutions.
"""

from __future__ import annotations

from dataclasses import dataclass

from .spans import Span, span_at


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReuse:
    """One part of a context: tokens reused from the cache, and tokens to compute."""

    label: str
    part: str | None
    cached_tokens: int
    to_compute_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """How much of a context is reused, and why not more.

    Attributes
    ----------
    cached_tokens : int
        Leading tokens that are reused.
    matching_tokens : int or None
        Leading tokens whose global keys and values are cached; beyond `cached_tokens` there is no resume point. None after a run.
    shared_tokens : int
        Leading tokens that the most similar earlier request of this engine had too.
    hit_tokens : int
        Hits come in multiples of this many tokens.
    earlier : str or None
        Context of that request.
    prefill_tokens_per_s : float or None
        Measured here lately; None before the first long prompt.
    spans : tuple of Span
        Of the context, where the client has them.
    """

    prompt_tokens: int
    cached_tokens: int
    matching_tokens: int | None
    shared_tokens: int
    hit_tokens: int
    earlier: str | None = None
    prefill_tokens_per_s: float | None = None
    spans: tuple[Span, ...] = ()

    @property
    def to_compute_tokens(self) -> int:
        """Prompt tokens that are computed."""
        return self.prompt_tokens - self.cached_tokens

    @property
    def prefill_s(self) -> float | None:
        """Seconds until the first token, by the measured rate; None without one."""
        return self.to_compute_tokens / self.prefill_tokens_per_s if self.prefill_tokens_per_s else None

    @property
    def by_part(self) -> tuple[PartReuse, ...]:
        """Reuse of each part, in the order of the context; framing counts with the part before it."""
        rows: list[PartReuse] = []
        for span in self.spans:
            cached = min(max(self.cached_tokens - span.start, 0), len(span))
            same = rows and (span.part is None or rows[-1].part == span.part)
            label, part = (rows[-1].label, rows[-1].part) if same else (span.label, span.part)
            row = PartReuse(label=label, part=part, cached_tokens=cached, to_compute_tokens=len(span) - cached)
            if same:
                before = rows.pop()
                row = PartReuse(
                    label=label, part=part, cached_tokens=before.cached_tokens + cached,
                    to_compute_tokens=before.to_compute_tokens + row.to_compute_tokens,
                )  # fmt: skip
            rows.append(row)
        return tuple(rows)

    @property
    def broken_by(self) -> Span | None:
        """The span in which this context differs from the most similar earlier one; None when it only goes on, or has no
        precedent."""
        if not self.spans or self.earlier is None or self.shared_tokens >= self.prompt_tokens:
            return None
        return span_at(self.spans, self.shared_tokens)

    @property
    def reason(self) -> str:
        """One sentence: why no more is reused."""
        if self.to_compute_tokens <= 2 * self.hit_tokens:
            return "everything but the end is reused: the last block is always computed"
        if self.shared_tokens < self.hit_tokens:
            return "nothing that begins like this has run here since the engine started"
        broken = self.broken_by
        where = f"it differs from an earlier context at token {self.shared_tokens:,}" + (f", in {broken.label}" if broken else "")
        if self.shared_tokens >= self.prompt_tokens - self.hit_tokens:
            where = "an earlier context had all of it"
        if self.matching_tokens is None:
            lost = self.shared_tokens - self.cached_tokens
            return f"{where}; {lost:,} tokens that they share had no resume point any more" if lost > self.hit_tokens else where
        if self.matching_tokens + self.hit_tokens < self.shared_tokens:
            return f"{where}; of what they share, {self.shared_tokens - self.matching_tokens:,} tokens are no longer cached"
        if self.cached_tokens + self.hit_tokens < self.matching_tokens:
            return f"{where}; the last resume point of sliding layers and convolutions before that is at {self.cached_tokens:,}"
        return where

    def __str__(self) -> str:
        lines = [f"{self.cached_tokens:,} of {self.prompt_tokens:,} tokens cached: {self.reason}"]
        lines += [f"  {row.label}: {row.cached_tokens:,} cached, {row.to_compute_tokens:,} to compute" for row in self.by_part]
        return "\n".join(lines)
