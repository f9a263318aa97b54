"""The programs that ``inkling bench engine`` compares on one checkpoint: our engine twice, and transformers.

A program is started when it is first asked for, and ended with the bench."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from .bench import Bench
from .children import Child, child

NATIVE, TORCH, THEIRS = "engine", "engine, torch attention", "transformers"


class Sides:
    """Children by name; all of them see the same prompts in the same round.

    Parameters
    ----------
    model, label : str
        The checkpoint's folder, and what the record calls it.
    below : int
        Prompts are random ids below this one.
    longest : int
        Tokens of the longest prompt.
    stack : ExitStack
        Ends what was started.
    """

    def __init__(self, bench: Bench, model: str, label: str, *, below: int, longest: int, stack: ExitStack) -> None:
        self._bench, self._model, self._below, self._longest, self._stack = bench, model, below, longest, stack
        self._children: dict[str, Child] = {}
        self.threads: dict[str, int] = {}
        self._label = "S" if label == "demo-few" else label
        self._asked: dict[tuple[str, int], int] = {}

    def of(self, name: str) -> Child:
        """The child called `name`, started on first use."""
        if name not in self._children:
            self._bench.note(f"starting {name}")
            self._children[name], told = self._stack.enter_context(self._start(name))
            self.threads[name] = told["threads"]
        return self._children[name]

    def _start(self, name: str) -> Any:
        if name == THEIRS:
            return child("workbench.benchmarks.oracle", {"model": self._model, "below": self._below})
        # Everything in one process, as little cache as holds the longest prompt: 1.5 kB a token with its sliding layers' pages.
        args = {
            "max_model_len": self._longest + 256, "max_num_batched_tokens": 2048,
            "kv_cache_memory_bytes": (1 << 28) + 2_048 * (self._longest + 8_192),
        }  # fmt: skip
        settings = {"model": self._model, "runner": "v2", "watch": True, "below": self._below, "args": args}
        return child("engine.cpu.timed", settings, {"INKLING_NATIVE": "0"} if name == TORCH else {})

    def asking(
        self, name: str, measure: Callable[[dict[str, Any]], float], into: list[dict[str, Any]] | None = None, **job: Any
    ) -> Callable[[], float]:
        """A run of one side: a job with a fresh prompt, its answer measured by `measure` and kept in `into`.

        The seed counts a side's prompts of this length: those of a round read the same one, and none is read twice, which an
        engine with a prefix cache would do for nothing.
        """
        one, kind = self.of(name), (name, job["prompt_tokens"])

        def side() -> float:
            count = self._asked[kind] = self._asked.get(kind, -1) + 1
            answer = one.ask(job | {"seed": self._bench.seed * 100_000 + count + 1_000 * job["prompt_tokens"]})
            if into is not None:
                into.append(answer)
            return measure(answer)

        return side

    def told(self, *names: str, rounds: int) -> str:
        """What a row says of itself: model, vocabulary, threads, statistic."""
        threads = sorted({self.threads[name] for name in names})
        return f"{self._label}, {self._below:,} ids, {'/'.join(map(str, threads))} threads, median of {rounds} rounds"
