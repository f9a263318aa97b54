"""How many drafted tokens of each request were accepted, by depth: the worker's counts, kept beside vLLM's request states.

vLLM counts over all requests only. The counts live where the model runs and are added to without reading anything back, so a GPU
does not wait for them; they are read once, when a reply is done. A request that is preempted and comes back goes on counting; the
counts of the last :data:`KEPT` requests that ended are remembered. Knows the V2 runner (0.32); knows no HTTP.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .request_ids import is_of
from .taps import OBSERVE, wrap

KEPT = 256
"""Ended requests whose counts are remembered: a reply asks for them milliseconds after its last token."""


class Acceptance:
    """Counts of one worker; exists only while it drafts.

    Parameters
    ----------
    runner : GPUModelRunner
        Its ``sample`` and ``_remove_request`` are wrapped for good.
    """

    def __init__(self, runner: Any) -> None:
        import torch

        self._runner, self.steps = runner, runner.num_speculative_steps
        size = (runner.max_num_reqs, 2, self.steps)
        self._counts = torch.zeros(size, dtype=torch.int64, device=runner.device)
        self._depths = torch.arange(self.steps, device=runner.device)
        self._ended: OrderedDict[str, Any] = OrderedDict()
        wrap(runner, "sample", self._sample, rank=OBSERVE)
        wrap(runner, "_remove_request", self._remove, rank=OBSERVE)

    def of(self, request: str) -> tuple[list[int], list[int]]:
        """Drafted and accepted tokens by depth of the request called `request`; zeros for one never seen."""
        states = self._runner.req_states.req_id_to_index
        total = [[0] * self.steps, [0] * self.steps]
        found = [self._counts[index] for name, index in states.items() if is_of(name, request)]
        found += [counts for name, counts in self._ended.items() if is_of(name, request)]
        for counts in found:
            total = [[a + b for a, b in zip(one, other, strict=True)] for one, other in zip(total, counts.tolist(), strict=True)]
        return total[0], total[1]

    def _sample(self, call: Any, hidden_states: Any, input_batch: Any, *rest: Any, **named: Any) -> Any:
        output, num_sampled, num_rejected = call(hidden_states, input_batch, *rest, **named)
        if input_batch.num_draft_tokens_per_req is not None:
            # Every verified row is either sampled from or rejected; one of the sampled tokens is the target's own.
            drafted = (num_sampled + num_rejected - 1)[:, None] > self._depths
            accepted = (num_sampled - 1)[:, None] > self._depths
            self._counts[input_batch.idx_mapping, 0] += drafted
            self._counts[input_batch.idx_mapping, 1] += accepted
        return output, num_sampled, num_rejected

    def _remove(self, call: Any, request: str) -> Any:
        index = self._runner.req_states.req_id_to_index.get(request)
        if index is not None:
            before = self._ended.pop(request, 0)
            self._ended[request] = self._counts[index] + before
            self._counts[index] = 0
            while len(self._ended) > KEPT:
                self._ended.popitem(last=False)
        return call(request)
