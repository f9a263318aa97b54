"""A worker that says how long the model takes within a step: for benches, never in an engine that serves.

``worker_extension_cls="engine.kernel.timed_worker.TimedWorker"``. The model's own part of a step is its layers and its head; what
is left of the step is vLLM's: scheduling, inputs, sampling, outputs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .worker import WorkbenchWorker


class TimedWorker(WorkbenchWorker):
    """Adds a stop-watch around the model's layers and its head."""

    _spent: dict[str, list[float]] | None = None

    def workbench_watch(self) -> dict[str, list[float]]:
        """Seconds of every call of ``layers`` and ``head`` since the last time this was asked; the first time starts the watch."""
        if self._spent is None:
            self._spent = {"layers": [], "head": []}
            model = self.model_runner.model
            for name, method in (("layers", "forward"), ("head", "compute_logits")):
                setattr(model, method, _timed(getattr(model, method), self._spent[name]))
        told = {name: list(times) for name, times in self._spent.items()}
        for times in self._spent.values():
            times.clear()
        return told


def _timed(call: Callable[..., Any], into: list[float]) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        result = call(*args, **kwargs)
        into.append(time.perf_counter() - began)
        return result

    return timed
