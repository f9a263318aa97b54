"""Log-probabilities of given tokens, in a worker: what the model thought of an answer that is already there.

The answer is run as part of the prompt. Where the rows of a step belong to it, the model's own head is applied to their last hidden
states; the head is as wide as the vocabulary, so the rest of the prompt, which may be a million tokens, is left out. Every rank
applies it, because the head is shared out among them; the first one keeps the numbers.

Private names of vLLM 0.32: ``GPUModelRunner.execute_model`` and its ``execute_model_state`` (``hidden_states``, ``input_batch``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .batch_rows import rows_of
from .head_logits import head_logits
from .request_ids import entry_of
from .taps import OBSERVE, Around, wrap

HEAD_ROWS = 64
"""Rows of logits at a time: 50 MB at Inkling's vocabulary."""


@dataclass(slots=True)
class _Wanted:
    """Tokens `ids` of a request, the first of them at position `first`, and what was found of them."""

    first: int
    ids: NDArray[np.int64]
    logprobs: NDArray[np.float64]


class Scoring:
    """The requests of one worker whose tokens are scored."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self._wanted: dict[str, _Wanted] = {}
        self._undo: Callable[[], None] | None = None

    def begin(self, request_id: str, first: int, ids: list[int]) -> None:
        """Score `ids` of the request called `request_id`, whose first one is its token `first` (at least 1)."""
        self._wanted[request_id] = _Wanted(first, np.asarray(ids, np.int64), np.full(len(ids), np.nan))
        if self._undo is None:
            self._undo = wrap(self._runner, "execute_model", self._run, rank=OBSERVE)

    def end(self, request_id: str) -> list[float]:
        """Natural logarithms in order; NaN for a token whose predecessor was not computed. Empty when nothing was begun."""
        wanted = self._wanted.pop(request_id, None)
        if not self._wanted and self._undo is not None:
            self._undo()
            self._undo = None
        return [] if wanted is None else wanted.logprobs.tolist()

    def _run(self, call: Around, *args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        state = self._runner.execute_model_state
        if state is not None and state.hidden_states is not None:
            batch = state.input_batch
            for row, name in enumerate(batch.req_ids):
                wanted = entry_of(self._wanted, name)
                if wanted is not None:
                    part = rows_of(batch, row).part
                    self._score(wanted, batch.positions[part].cpu().numpy(), state.hidden_states[part], part.start)
        return result

    def _score(self, wanted: _Wanted, positions: NDArray[np.int64], hidden: torch.Tensor, row: int) -> None:
        # Token t + 1 is what the hidden state at t predicts.
        number = positions - (wanted.first - 1)
        rows = np.flatnonzero((number >= 0) & (number < len(wanted.ids)))
        for at in range(0, len(rows), HEAD_ROWS):
            some = rows[at : at + HEAD_ROWS]
            logits = head_logits(self._runner.model, hidden[torch.from_numpy(some).to(hidden.device)], row)
            if logits is None:  # not the rank that gathers
                continue
            ids = torch.from_numpy(wanted.ids[number[some]]).to(logits.device)
            values = logits.float().log_softmax(-1).gather(1, ids[:, None])[:, 0]
            wanted.logprobs[number[some]] = values.double().cpu().numpy()
