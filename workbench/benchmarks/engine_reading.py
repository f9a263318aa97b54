"""Prefill against transformers, in one go and in chunks of 1,024 with its cache, and against the layers' own time."""

from __future__ import annotations

import statistics
from typing import Any

from .bench import Bench
from .engine_sides import NATIVE, THEIRS, TORCH, Sides

CHUNK = 1_024

ONE_GO = {1_024: (3.0, 3.0), 4_096: (12.0, 12.0), 16_384: (50.0, 50.0)}
"""Least speed over transformers in one go, by tokens: with torch, with the native kernel."""

CHUNKED = {4_096: (3.5, 4.0), 16_384: (5.0, 7.0), 32_768: (6.0, 10.0)}
"""The same over transformers in chunks: the fair rival."""


def measure(bench: Bench, sides: Sides, *, largest: int, one_go: int) -> None:
    """Measure prompts of the lengths that have an aim, up to `largest`; transformers in one go up to `one_go`."""
    for tokens in sorted({*ONE_GO, *CHUNKED}):
        if tokens > largest:
            continue
        chunked, whole = CHUNKED.get(tokens), ONE_GO.get(tokens) if tokens <= one_go else None
        # A second of transformers' is worth a round; minutes are not worth seven.
        rounds = bench.rounds if tokens <= 4_096 else max(3, min(5, bench.rounds)) if tokens <= 16_384 else 3
        if chunked:
            _compare(bench, sides, tokens, CHUNK, chunked, rounds=rounds)
        if whole:
            _compare(bench, sides, tokens, 0, whole, rounds=rounds if tokens <= 4_096 else 3)


def _compare(bench: Bench, sides: Sides, tokens: int, chunk: int, aims: tuple[float, float], *, rounds: int) -> None:
    theirs = f"{THEIRS}, {'chunks of 1,024' if chunk else 'one go'}"
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in (NATIVE, TORCH, THEIRS)}
    took = bench.alternate(
        {
            NATIVE: sides.asking(NATIVE, _first, answers[NATIVE], requests=1, prompt_tokens=tokens, tokens=1),
            TORCH: sides.asking(TORCH, _first, answers[TORCH], requests=1, prompt_tokens=tokens, tokens=1),
            theirs: sides.asking(THEIRS, _first, answers[THEIRS], prompt_tokens=tokens, chunk=chunk),
        },
        rounds=rounds, warmup=1 if tokens <= 4_096 or (chunk and tokens <= 16_384) else 0,
    )  # fmt: skip
    label = f"{tokens:,} tokens"
    for name in took:
        bench.rate(f"prefill, {label}, {name}", took[name], amount=tokens, unit="tokens",
                   note=sides.told(THEIRS if name == theirs else name, rounds=rounds))  # fmt: skip
    for name, aim in ((TORCH, aims[0]), (NATIVE, aims[1])):
        note = sides.told(name, THEIRS, rounds=rounds)
        bench.ratio(f"prefill, {label}: {theirs} over {name}", took[theirs], took[name], at_least=aim, note=note)
    bench.value(f"memory beyond the weights, {label}, {theirs}", max(a["bytes"] for a in answers[THEIRS]), unit="bytes")
    if chunk and tokens >= 16_384:
        counted = answers[NATIVE][-rounds:]
        share = statistics.median(answer["first_s"] / (sum(answer["layers_s"]) + sum(answer["head_s"])) for answer in counted)
        bench.value(f"prefill, {label}: the engine's time over its model's", share, unit="×", at_most=1.2,
                    note=f"{sides.told(NATIVE, rounds=rounds)}; the model: layers and head, timed in the same steps")  # fmt: skip


def _first(answer: dict[str, Any]) -> float:
    return answer["first_s"]
