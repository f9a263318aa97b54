"""Recording the residual stream: its norm after each addition, on request itself, and what the model's head makes of it (the lens).

Every rank has the whole stream. The lens uses the model's own final norm, scaling and head, on the rows that were asked for.
"""

from __future__ import annotations

from typing import Any

import torch

from ..protocol.plans import ADDITIONS
from .head_logits import head_logits
from .recording import TokenRecorder, row_blocks
from .watching import Watch

LENS_ROWS = 32
"""Rows through the head at a time: its output is as wide as the vocabulary."""


class ResidualSeam:
    """The residual stream of one request."""

    def __init__(self, watch: Watch, recorder: TokenRecorder, plan: Any) -> None:
        self._model, self.recorder, self._plan = watch.runner.model, recorder, plan
        watch.begin.append(recorder.begin)
        watch.end.append(recorder.end)
        watch.residual(self._at_residual)

    def _at_residual(self, layer: int, site: str, hidden: Any) -> None:
        recorder = self.recorder
        if not recorder.records(layer):
            return
        rows = recorder.take(hidden)
        blocks = row_blocks(len(rows), rows.shape[1])
        norms = [torch.linalg.vector_norm(rows[start:stop].float(), dim=-1) for start, stop in blocks]
        values = {"norm": torch.cat(norms)}
        if self._plan.keep == "vectors":
            values["vector"] = rows.float()
        if self._plan.lens and site == "mlp":
            values |= lens(self._model, rows, self._plan.lens, row=int(recorder.rows[0]))
        recorder.put(layer, ADDITIONS.index(site), **values)

    def finish(self) -> tuple[dict[str, tuple[int, int]], list[str]]:
        """See :meth:`TokenRecorder.finish`."""
        return self.recorder.finish()


def lens(model: Any, rows: torch.Tensor, top: int, *, row: int) -> dict[str, torch.Tensor]:
    """Likeliest next tokens and their log-probabilities, each (t, k), were `rows` the last layer's stream.

    `row` is a row of the step that belongs to the same request. The head is spread over ranks: every rank must call, only the
    first gets the logits.
    """
    tokens, logprobs = [], []
    for start in range(0, len(rows), LENS_ROWS):
        logits = head_logits(model, model.model.norm(rows[start : start + LENS_ROWS].contiguous()), row)
        if logits is None:
            continue
        found = torch.log_softmax(logits.float(), dim=-1).topk(top, dim=-1)
        tokens.append(found.indices.int())
        logprobs.append(found.values)
    return {"lens_token": torch.cat(tokens), "lens_logprob": torch.cat(logprobs)} if tokens else {}
