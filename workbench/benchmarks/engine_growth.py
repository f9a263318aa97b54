"""What a context costs as it grows: seconds to read it, a decode step behind it, memory; with slopes and a picture.

Every length that was measured is kept (:mod:`.engine_kept`): an interrupted run of hours goes on where it was, and a later run of
the same revision adds lengths. What was kept says so in its row. The million that went through the engine kernel is shown beside.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..palettes import OKABE_ITO
from .bench import Bench
from .engine_kept import KERNEL, Kept
from .engine_sides import NATIVE, THEIRS, Sides

LENGTHS = (1_024, 4_096, 16_384, 65_536, 262_144, 1_048_064)
ANSWER = 16
SHOWN = (("prefill_s", "prefill", "s"), ("step_s", "a decode step behind", "s"), ("bytes", "memory at", "bytes"))

COLOURS = ("blue", "orange", "green", "vermilion")

Once = Callable[[int], dict[str, float]]


def measure(
    bench: Bench, sides: Sides, *, to: int, theirs_to: int, folder: Path, beside: tuple[str, int, Once] | None = None
) -> None:
    """Our engine up to `to` tokens, transformers in chunks up to `theirs_to`; a picture in `folder`.

    Parameters
    ----------
    beside : (str, int, callable), optional
        Another program: what it is called, up to how many tokens, and what gives its values for one length.
    """
    kept, found = Kept(), dict[str, dict[int, dict[str, float]]]()
    programs: list[tuple[str, int, Once]] = [
        (NATIVE, to, lambda tokens: _once(sides, NATIVE, tokens)), (THEIRS, theirs_to, lambda tokens: _once(sides, THEIRS, tokens))
    ]  # fmt: skip
    for tokens in LENGTHS:
        for name, limit, once in [*programs, *([beside] if beside else [])]:
            if tokens > limit:
                continue
            note = _about(sides, name, tokens)
            values = kept.get(mark := f"{name}/{note}/{tokens}")
            again = values is not None
            if values is None:
                values = kept.put(mark, once(tokens))
            found.setdefault(name, {})[tokens] = values
            _show(bench, name, tokens, values, note + (", from an earlier run" if again else ""))
    for tokens, values in kept.through_the_kernel().items():
        found.setdefault(KERNEL, {})[tokens] = values
        _show(bench, KERNEL, tokens, values, "the part `million`: in pieces, the demo's checkpoint")
    for name, rows in found.items():
        for key, what in (("prefill_s", "prefill"), ("step_s", "a decode step")):
            if len(rows) > 1:
                grows = slope({tokens: row[key] for tokens, row in rows.items()})
                bench.value(f"log-log slope of {what}, {name}, over the last lengths", grows, unit="")
    bench.remark("Memory is our process's whole peak (interpreter, libraries, weights, cache), that of all three processes of the "
                 "kernel, and what transformers needs beyond what it held before: read them for their growth.")  # fmt: skip
    if len(found[NATIVE]) > 1:
        bench.remark(f"![growth]({_picture(found, folder).name})")


def _about(sides: Sides, name: str, tokens: int) -> str:
    rounds = 3 if tokens <= 16_384 else 1
    if name in (NATIVE, THEIRS):
        sides.of(name)
        return sides.told(name, rounds=rounds)
    sides.of(NATIVE)
    return sides.told(NATIVE, rounds=1)


def _show(bench: Bench, name: str, tokens: int, values: dict[str, float], note: str) -> None:
    for key, what, unit in SHOWN:
        bench.value(f"{what} {tokens:,} tokens, {name}", values[key], unit=unit, note=note)


def slope(values: dict[int, float]) -> float:
    """Exponent of growth over the last three lengths (or what there is).

    Examples
    --------
    >>> round(slope({1: 5.0, 10: 10.0, 100: 1000.0, 1000: 100000.0}), 3)
    2.0
    """
    lengths = sorted(values)[-3:]
    return float(np.polyfit(np.log(lengths), np.log([values[n] for n in lengths]), 1)[0])


def _once(sides: Sides, name: str, tokens: int) -> dict[str, float]:
    answers: list[dict[str, Any]] = []
    job: dict[str, Any] = {"chunk": 1_024} if name == THEIRS else {"requests": 1}
    ask = sides.asking(name, lambda answer: answer["first_s"], answers, prompt_tokens=tokens, tokens=ANSWER, **job)
    if name == NATIVE:
        sides.of(name).ask({"memory": True})
    for _ in range(3 if tokens <= 16_384 else 1):
        ask()
    held = sides.of(name).ask({"memory": True})["bytes"] if name == NATIVE else max(answer["bytes"] for answer in answers)
    return {
        "prefill_s": statistics.median(answer["first_s"] for answer in answers),
        "step_s": statistics.median(second for answer in answers for second in answer["steps_s"]), "bytes": held,
    }  # fmt: skip


def _picture(found: dict[str, dict[int, dict[str, float]]], folder: Path) -> Path:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for axis, (key, _, unit), what in zip(axes, SHOWN, ("prefill", "a decode step", "memory"), strict=True):
        for (name, rows), marker, colour in zip(found.items(), "os^D", COLOURS, strict=False):
            axis.loglog(list(rows), [row[key] for row in rows.values()], marker=marker, color=OKABE_ITO[colour], label=name)
        axis.set(xlabel="tokens of context", title=f"{what}, {unit}")
        axis.grid(visible=True, which="major", alpha=0.3)
    axes[0].legend(fontsize=8)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "engine_growth.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path
