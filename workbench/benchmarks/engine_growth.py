"""What a context costs as it grows: seconds to read it, a decode step behind it, memory; with slopes and a picture.

Every length that was measured is kept in a file in the user's cache, by model, versions and side: an interrupted run of hours goes
on where it was, and a later run of the same revision adds lengths. What was kept says so in its row.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from engine.protocol import places

from . import machine
from .bench import Bench
from .engine_sides import NATIVE, THEIRS, Sides

LENGTHS = (1_024, 4_096, 16_384, 65_536, 262_144, 1_048_064)
ANSWER = 16
KEPT = ("prefill_s", "step_s", "bytes")


def measure(bench: Bench, sides: Sides, *, to: int, theirs_to: int, folder: Path) -> None:
    """Our engine up to `to` tokens, transformers in chunks up to `theirs_to`; a picture in `folder`."""
    kept, found = _Kept(), {NATIVE: {}, THEIRS: {}}
    for tokens in LENGTHS:
        for name, limit in ((NATIVE, to), (THEIRS, theirs_to)):
            if tokens > limit:
                continue
            mark = f"{name}/{sides.told(*_started(sides, name), rounds=1)}/{tokens}"
            values = kept.get(mark)
            again = values is not None
            if values is None:
                values = kept.put(mark, _once(sides, name, tokens, rounds=3 if tokens <= 16_384 else 1))
            found[name][tokens] = values
            note = sides.told(name, rounds=3 if tokens <= 16_384 else 1) + (", from an earlier run" if again else "")
            for key, what, unit in (
                ("prefill_s", "prefill", "s"),
                ("step_s", "a decode step behind", "s"),
                ("bytes", "memory at", "bytes"),
            ):
                bench.value(f"{what} {tokens:,} tokens, {name}", values[key], unit=unit, note=note)
    for name, rows in found.items():
        for key, what in (("prefill_s", "prefill"), ("step_s", "a decode step")):
            if len(rows) > 1:
                grows = slope({tokens: row[key] for tokens, row in rows.items()})
                bench.value(f"log-log slope of {what}, {name}, over the last lengths", grows, unit="")
    bench.remark("Memory is our process's whole peak (interpreter, libraries, weights, cache), and what transformers needs beyond "
                 "what it held before: read them for their growth.")  # fmt: skip
    if len(found[NATIVE]) > 1:
        bench.remark(f"![growth]({_picture(found, folder).name})")


def slope(values: dict[int, float]) -> float:
    """Exponent of growth over the last three lengths (or what there is).

    Examples
    --------
    >>> round(slope({1: 5.0, 10: 10.0, 100: 1000.0, 1000: 100000.0}), 3)
    2.0
    """
    lengths = sorted(values)[-3:]
    return float(np.polyfit(np.log(lengths), np.log([values[n] for n in lengths]), 1)[0])


def _started(sides: Sides, name: str) -> tuple[str]:
    sides.of(name)
    return (name,)


def _once(sides: Sides, name: str, tokens: int, *, rounds: int) -> dict[str, float]:
    answers: list[dict[str, Any]] = []
    job: dict[str, Any] = {"chunk": 1_024} if name == THEIRS else {"requests": 1}
    ask = sides.asking(name, lambda answer: answer["first_s"], answers, prompt_tokens=tokens, tokens=ANSWER, **job)
    if name == NATIVE:
        sides.of(name).ask({"memory": True})
    for _ in range(rounds):
        ask()
    held = sides.of(name).ask({"memory": True})["bytes"] if name == NATIVE else max(answer["bytes"] for answer in answers)
    return {
        "prefill_s": statistics.median(answer["first_s"] for answer in answers),
        "step_s": statistics.median(second for answer in answers for second in answer["steps_s"]), "bytes": held,
    }  # fmt: skip


class _Kept:
    """Measured lengths of this revision on this machine, in a file."""

    def __init__(self) -> None:
        self._path = places.cache_folder() / "benches" / "engine-growth.json"
        self._under = json.dumps([machine.versions(), machine.machine()], sort_keys=True)
        try:
            self._all = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError):
            self._all = {}

    def get(self, mark: str) -> dict[str, float] | None:
        return self._all.get(self._under, {}).get(mark)

    def put(self, mark: str, values: dict[str, float]) -> dict[str, float]:
        self._all.setdefault(self._under, {})[mark] = values
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._all, indent=1), "utf-8")
        return values


def _picture(found: dict[str, dict[int, dict[str, float]]], folder: Path) -> Path:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for axis, key, what in zip(axes, KEPT, ("prefill, s", "a decode step, s", "memory, bytes"), strict=True):
        for (name, rows), marker in zip(found.items(), "os", strict=True):
            if rows:
                axis.loglog(list(rows), [row[key] for row in rows.values()], marker=marker, label=name)
        axis.set(xlabel="tokens of context", title=what)
        axis.grid(visible=True, which="major", alpha=0.3)
    axes[0].legend()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "engine_growth.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path
