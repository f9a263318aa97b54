"""Recording what the router chose: expert ids, their weights and the sinks' weights, and on request its raw logits."""

from __future__ import annotations

from typing import Any

from .recording import TokenRecorder
from .watching import Watch


class RoutingSeam:
    """Routing of one request; rank 0 sees all of it."""

    def __init__(self, watch: Watch, recorder: TokenRecorder, plan: Any, shape: Any) -> None:
        self.recorder, self._k, self._logits = recorder, shape.experts_per_token, plan.logits
        self._outputs = shape.experts + shape.sinks
        watch.begin.append(recorder.begin)
        watch.end.append(recorder.end)
        watch.gate(self._at_gate)

    def _at_gate(self, layer: int, logits: Any, weights: Any, ids: Any) -> None:
        recorder, k = self.recorder, self._k
        if not recorder.records(layer):
            return
        if not recorder.writes:
            recorder.put(layer, 0)
            return
        weights, ids = recorder.take(weights).cpu(), recorder.take(ids).cpu()
        values = {"expert": ids[:, :k], "weight": weights[:, :k], "sink": weights[:, k:]}
        if self._logits:
            # The gate's rows are padded; what is beyond the sinks means nothing.
            values["logits"] = recorder.take(logits)[:, : self._outputs]
        recorder.put(layer, 0, **values)

    def finish(self) -> tuple[dict[str, tuple[int, int]], list[str]]:
        """See :meth:`TokenRecorder.finish`."""
        return self.recorder.finish()
