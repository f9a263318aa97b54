"""Recording what the draft heads propose: for every chosen token of a prompt, by each head, with the head's own probability.

While a prompt is computed, vLLM runs every multi-token-prediction block over all of the step's tokens, to fill the block's cache:
block `i` (from 0) at token `t` has seen the prompt up to token ``t + 1 + i`` and its output stands for token ``t + 2 + i``. vLLM
asks the head at the last token only; here it is asked at every chosen one. Behind the end of the prompt a block goes on with what
the model itself answers.

A step that drafts behind `t` accepts the first proposals that are right, up to the first that is not; verdicts follow from the
prompt's own tokens. Knows vLLM's speculators (:meth:`.watching.Watch.drafts`); lives as long as the capture.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .batch_rows import Rows
from .recording import TokenRecorder
from .seam_residual import LENS_ROWS
from .watching import Watch


class DraftsSeam:
    """Proposals for one request; recorder and columns are by depth, from 1."""

    def __init__(self, watch: Watch, recorder: TokenRecorder) -> None:
        self._watch, self.recorder = watch, recorder
        self._ids, self._at = np.empty(0, np.int64), np.empty(0, np.int64)
        self._verdict = np.empty(0, np.int8)
        watch.drafts(self._begin, self._at_head, recorder.end)

    def _begin(self, rows: Rows) -> None:
        self.recorder.begin(rows)
        if not len(self._ids):
            self._ids = self._watch.prompt_ids()
        # Positions of the recorded rows; none has failed yet.
        self._at = self.recorder.rows - rows.start + rows.t
        self._verdict = np.ones(len(self._at), np.int8)

    def _at_head(self, depth: int, hidden: Any) -> None:
        recorder = self.recorder
        if not recorder.records(depth):
            return
        found = proposals(self._watch.runner.speculator, recorder.take(hidden), depth - 1)
        if not found:  # not the rank that gathers
            recorder.put(depth, 0)
            return
        self._verdict = verdicts(self._verdict, found["token"].cpu().numpy(), self._at + 1 + depth, self._ids)
        recorder.put(depth, 0, **found, accepted=self._verdict)

    def finish(self) -> tuple[dict[str, tuple[int, int]], list[str]]:
        """See :meth:`TokenRecorder.finish`."""
        return self.recorder.finish()


def proposals(speculator: Any, rows: torch.Tensor, head: int) -> dict[str, torch.Tensor]:
    """Likeliest token of each row by a draft head, and its log-probability, each (t,); empty where the logits are not gathered.

    The head is spread over ranks: every rank must call.
    """
    tokens, logprobs = [], []
    for start in range(0, len(rows), LENS_ROWS):
        logits = speculator.compute_draft_logits(rows[start : start + LENS_ROWS].contiguous(), head)
        if logits is None:
            continue
        best = logits.float().log_softmax(dim=-1).max(dim=-1)
        tokens.append(best.indices.int())
        logprobs.append(best.values)
    return {"token": torch.cat(tokens), "logprob": torch.cat(logprobs)} if tokens else {}


def verdicts(before: np.ndarray, token: np.ndarray, place: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Whether proposals for the tokens at `place` are accepted, after those of smaller depth were (`before`).

    1 for accepted, 0 for not, -1 where `ids` end before it can be told; each (t,), int8.
    """
    known = place < len(ids)
    right = ids[np.minimum(place, len(ids) - 1)] == token
    return np.where(before == 1, np.where(known, right.astype(np.int8), -1), before).astype(np.int8)
