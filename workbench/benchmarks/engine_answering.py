"""Decode at a thousand tokens of context: against transformers, four requests against one, and what of a step is vLLM's."""

from __future__ import annotations

import statistics
from typing import Any

from .bench import Bench
from .engine_sides import NATIVE, THEIRS, Sides

CONTEXT, ANSWER = 1_024, 64


def measure(bench: Bench, sides: Sides) -> None:
    """Measure."""
    answers: dict[str, list[dict[str, Any]]] = {"one": [], "four": []}
    took = bench.alternate({
        "one request": sides.asking(NATIVE, _per_token(1), answers["one"], requests=1, prompt_tokens=CONTEXT, tokens=ANSWER),
        "four requests": sides.asking(NATIVE, _per_token(4), answers["four"], requests=4, prompt_tokens=CONTEXT, tokens=ANSWER),
        THEIRS: sides.asking(THEIRS, _per_token(1), prompt_tokens=CONTEXT, tokens=ANSWER),
    })  # fmt: skip
    notes = {name: sides.told(THEIRS if name == THEIRS else NATIVE, rounds=bench.rounds) for name in took}
    for name, series in took.items():
        bench.rate(f"decode at {CONTEXT:,}, {name}", series, amount=1, unit="tokens", note=notes[name])
    bench.ratio("decode: one request over transformers, tokens per second", took[THEIRS], took["one request"], at_least=1.3,
                note=notes["one request"])  # fmt: skip
    bench.ratio("decode: four requests over one, tokens per second", took["one request"], took["four requests"], at_least=2.5,
                note=notes["four requests"])  # fmt: skip
    for name, found in answers.items():
        _parts(bench, name, found[-bench.rounds :], notes[f"{name} request{'' if name == 'one' else 's'}"])


def _parts(bench: Bench, name: str, answers: list[dict[str, Any]], note: str) -> None:
    """What a step consists of."""
    steps = statistics.median(second for answer in answers for second in answer["steps_s"])
    # The first calls of a job are its prefill's.
    layers, head = (
        statistics.median(second for answer in answers for second in answer[part][-len(answer["steps_s"]) :])
        for part in ("layers_s", "head_s")
    )
    request = f"{name} request{'' if name == 'one' else 's'}"
    note = f"{note}, of all their steps"
    bench.value(f"a decode step, {request}", steps * 1e3, unit="ms", note=note)
    bench.value(f"of it the layers, {request}", layers * 1e3, unit="ms", note=note)
    bench.value(f"of it the head, {request}", head * 1e3, unit="ms", note=note)
    bench.value(f"of it vLLM without a model, {request}", (steps - layers - head) * 1e3, unit="ms", note=note)


def _per_token(requests: int) -> Any:
    return lambda answer: sum(answer["steps_s"]) / len(answer["steps_s"]) / requests
