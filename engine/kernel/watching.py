"""Watching one request inside the running steps: its rows, and what passes the seams for them.

A :class:`Watch` wraps the places it is asked to, above every intervention, and calls its handlers only while a step computes tokens
of the request (:mod:`.batch_rows`). Modules of a drafter pass through the same functions and are left alone; the drafter itself
is watched after the step, when it proposes.

Private names of vLLM 0.32: those of :mod:`.layer_places`, the runner's ``prepare_inputs`` and ``execute_model``, and its
speculator's ``propose`` and ``_run_model``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..protocol.plans import SITES
from .batch_rows import Rows, rows_of
from .layer_places import layers_with, lookup, modules
from .request_ids import is_of
from .taps import OBSERVE, wrap


class Watch:
    """One request, watched until :meth:`close`.

    Parameters
    ----------
    runner : GPUModelRunner
    request_id : str
        Prefix of vLLM's own id.
    tokens : int
        Length its prompt must have.
    """

    def __init__(self, runner: Any, request_id: str, tokens: int) -> None:
        self.runner, self.request_id, self.tokens = runner, request_id, tokens
        self.rows: Rows | None = None
        self.problems: list[str] = []
        self.begin: list[Callable[[Rows], None]] = []
        self.end: list[Callable[[], None]] = []
        self._layer_of = {id(module): layer for layer, module in modules(runner)}
        self._scaling: dict[int, Any] = {}
        self._drafting: Rows | None = None
        self._undo = [
            wrap(runner, "prepare_inputs", self._prepare_inputs, rank=OBSERVE),
            wrap(runner, "execute_model", self._execute_model, rank=OBSERVE),
        ]

    def close(self) -> None:
        """Take every wrapper off."""
        for undo in reversed(self._undo):
            undo()
        self._undo = []

    def gate(self, handler: Callable[..., None]) -> None:
        """``handler(layer, logits, weights, ids)`` after an expert selection; (t, …) of the whole step."""

        def around(call: Any, module: Any, logits: Any) -> Any:
            weights, ids = call(module, logits)
            if self.rows is not None and (layer := self._layer_of.get(id(module))) is not None:
                handler(layer, logits, weights, ids)
            return weights, ids

        self._wrap("gate", around)

    def sconv(self, handler: Callable[..., None]) -> None:
        """``handler(layer, site, module, x, cache, blocks)`` for each short convolution.

        `x` (t, c) is its input, this rank's channels; `cache` and `blocks` (requests, pages) hold the inputs of the past.
        """
        kv = {module.k_sconv.weight.data_ptr(): module for module in layers_with(self.runner, "attention").values()}

        def prepared(call: Any, *args: Any) -> Any:
            found = call(*args)
            # vLLM hands over a view of the weight: its storage says whose it is.
            module = kv.get(args[1].data_ptr())
            if self.rows is not None and module is not None and id(module) in self._layer_of:
                _, keys, values, _ = args[0].split(
                    [args[7] * args[9], args[8] * args[9], args[8] * args[9], args[7] * args[10]], dim=1
                )  # fmt: skip
                layer, cache, blocks = self._layer_of[id(module)], args[11], args[15]
                handler(layer, "k", module.k_sconv, keys, cache, blocks)
                handler(layer, "v", module.v_sconv, values, cache, blocks)
            return found

        def forward(call: Any, module: Any, x: Any, positions: Any) -> Any:
            out = call(module, x, positions)
            if self.rows is not None and (layer := self._layer_of.get(id(module))) is not None:
                from vllm.forward_context import get_forward_context

                metadata: Any = get_forward_context().attn_metadata
                if isinstance(metadata, dict):
                    blocks = metadata[module.owner.prefix].block_table
                    handler(layer, SITES[module.stream_idx], module, x, module.owner.kv_cache, blocks)
            return out

        self._wrap("prep", prepared)
        self._wrap("sconv", forward)

    def attention(self, handler: Callable[..., None]) -> None:
        """``handler(layer, module, q, relative, log_scaling, blocks)`` after attention; keys are in the cache by then.

        `q` (t, h, c) and `relative` (t, h, distance) are this rank's heads, with the logarithmic factor on them if there is one.
        """

        def forward(call: Any, module: Any, positions: Any, hidden_states: Any, log_scaling: Any = None) -> Any:
            if (layer := self._layer_of.get(id(module))) is not None:
                self._scaling[layer] = None if module.is_local else log_scaling
            return call(module, positions, hidden_states, log_scaling)

        def around(call: Any, module: Any, q: Any, relative: Any, output: Any) -> Any:
            done = call(module, q, relative, output)
            if self.rows is not None and (layer := self._layer_of.get(id(module))) is not None:
                from vllm.forward_context import get_forward_context

                metadata: Any = get_forward_context().attn_metadata
                handler(layer, module, q, relative, self._scaling.get(layer), metadata[module.prefix].block_table)
            return done

        self._wrap("scaling", forward)
        self._wrap("attention", around)

    def residual(self, handler: Callable[..., None]) -> None:
        """``handler(layer, site, hidden)``: the residual stream after a sublayer was added, (t, c), whole on every rank."""

        def around(call: Any, delta: Any, hidden: Any, sconv: Any, norm: Any, positions: Any) -> Any:
            normed, total = call(delta, hidden, sconv, norm, positions)
            if self.rows is not None and (layer := self._layer_of.get(id(sconv))) is not None:
                handler(layer, SITES[sconv.stream_idx], total)
            return normed, total

        self._wrap("residual", around)

    def drafts(self, begin: Callable[[Rows], None], handler: Callable[..., None], end: Callable[[], None]) -> None:
        """``handler(depth, hidden)`` for each draft head from 1, between `begin` and `end`: its outputs, (t, c) of the whole step.

        A drafter with one head runs it again on its own proposals, for the last token only: those runs are left out.
        """
        speculator, heads, ran = self.runner.speculator, draft_heads(self.runner), [0]

        def proposing(call: Any, input_batch: Any, *args: Any, **kwargs: Any) -> Any:
            ran[0], self._drafting = 0, self._find(input_batch)
            if self._drafting is None:
                return call(input_batch, *args, **kwargs)
            begin(self._drafting)
            try:
                return call(input_batch, *args, **kwargs)
            finally:
                end()
                self._drafting = None

        def running(call: Any, *args: Any, **kwargs: Any) -> Any:
            found = call(*args, **kwargs)
            ran[0] += 1
            if self._drafting is not None and ran[0] <= heads:
                handler(ran[0], found[0])
            return found

        self._undo += [
            wrap(speculator, "propose", proposing, rank=OBSERVE),
            wrap(speculator, "_run_model", running, rank=OBSERVE),
        ]

    def prompt_ids(self) -> np.ndarray:
        """Token ids of the request's prompt, while it is in the batch; (t,)."""
        states = self.runner.req_states
        (index,) = [at for name, at in states.req_id_to_index.items() if is_of(name, self.request_id)]
        return states.all_token_ids.gpu[index, : self.tokens].cpu().numpy().astype(np.int64)

    def note(self, problem: str) -> None:
        """Remember a problem once."""
        if problem not in self.problems:
            self.problems.append(problem)

    def _wrap(self, place: str, around: Any) -> None:
        holder, name = lookup(place)
        self._undo.append(wrap(holder, name, around, rank=OBSERVE))

    def _prepare_inputs(self, call: Any, *args: Any, **kwargs: Any) -> Any:
        batch = call(*args, **kwargs)
        self.rows = self._find(batch)
        if self.rows is not None:
            for begin in self.begin:
                begin(self.rows)
        return batch

    def _execute_model(self, call: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        finally:
            if self.rows is not None:
                for end in self.end:
                    end()
            self.rows = None

    def _find(self, batch: Any) -> Rows | None:
        wanted = [row for row, name in enumerate(batch.req_ids) if is_of(name, self.request_id)]
        if not wanted:
            return None
        row, *others = wanted
        if others:
            self.note(f"{len(wanted)} requests are called {self.request_id}: their rows cannot be told apart")
            return None
        states = self.runner.req_states
        length = int(states.prompt_len.np[states.req_id_to_index[batch.req_ids[row]]])
        if length != self.tokens:
            self.note(f"the engine runs {length} tokens, {self.tokens} were expected")
            return None
        rows = rows_of(batch, row)
        # What lies behind the prompt is the answer's, which is not recorded.
        return replace(rows, stop=rows.start + min(rows.stop - rows.start, max(0, self.tokens - rows.t)))


def draft_heads(runner: Any) -> int:
    """Draft heads of the model that run: 0 where nothing is drafted, or not by the model's own heads."""
    heads = getattr(getattr(runner.speculator, "model", None), "model", None)
    return min(int(getattr(heads, "num_mtp_layers", 0)), int(runner.num_speculative_steps or 0))
