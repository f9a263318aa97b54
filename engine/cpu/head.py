"""The output head: logits of a few rows over the whole vocabulary.

A step of decoding multiplies one to a handful of rows with all 201,024 rows of the head, which costs what reading the head costs.
vLLM's product puts the rows first, and for a few of them the CPU's matrix library reads the head several times over. The native
product (:mod:`engine.cpu.native.layers`) reads it once; so does torch with the head first. ``python -m engine.cpu.profiled`` shows
its share of a step. A draft at temperature 0 needs no logits but the largest: a copy of the head in bytes, made on the first draft,
rules out all but a few entries, and those are compared exactly. Knows no sampler. Three methods stand in for vLLM's: see its
``models/inkling/nvidia/logits_processor.py`` and ``mtp.py``, and ``v1/worker/gpu/spec_decode/speculator.py``.
"""

from __future__ import annotations

from typing import Any

import torch

from .native import layers

FEW_ROWS = 9
"""Up to so many rows the head is read once; a larger batch of logits is the matrix library's."""


def product(rows: torch.Tensor, head: torch.Tensor, scale: float) -> torch.Tensor:
    """``scale * rows @ head.T``.

    Parameters
    ----------
    rows : Tensor
        Shape (t, c).
    head : Tensor
        Shape (v, c): an entry of the vocabulary each.

    Returns
    -------
    Tensor
        Shape (t, v), contiguous, of `rows`' dtype.
    """
    count = rows.shape[0]
    if not 0 < count <= FEW_ROWS:
        return torch.addmm(head.new_zeros(1), rows, head.t(), beta=0.0, alpha=scale)
    if (found := layers.few_rows(rows, head, scale)) is not None:
        return found
    columns = head @ rows.t().contiguous()
    return torch.mul(columns.t(), scale, out=columns.new_empty(count, head.shape[0]))


def base_forward(
    self: Any, lm_head: Any, hidden_states: torch.Tensor, embedding_bias: torch.Tensor | None = None, skip_gather: bool = False
) -> torch.Tensor | None:
    """In the place of ``InklingLogitsProcessor._base_forward``."""
    mup = self.logits_mup_width_multiplier
    if not mup:
        from vllm.model_executor.layers.logits_processor import LogitsProcessor

        return LogitsProcessor.forward(self, lm_head, hidden_states, embedding_bias, skip_gather)
    assert self.soft_cap is None
    assert self.scale == 1.0
    logits = product(hidden_states, lm_head.weight, 1.0 / mup)
    return logits if skip_gather else _gathered(self, logits)


def draft_logits(self: Any, hidden_states: torch.Tensor, spec_step_idx: int = 0) -> torch.Tensor | None:
    """In the place of ``InklingMTP.compute_logits``."""
    mup = self.config.logits_mup_width_multiplier
    if not mup:
        return self.logits_processor(self.lm_head, hidden_states)
    assert self.logits_processor.soft_cap is None
    assert self.logits_processor.scale == 1.0
    return _gathered(self.logits_processor, product(hidden_states, self.lm_head.weight, 1.0 / mup))


def draft_top(self: Any, hidden_states: torch.Tensor, spec_step_idx: int = 0) -> torch.Tensor:
    """In the place of ``InklingMTP.get_top_tokens``: the likeliest token of each row, and the same as the logits' argmax."""
    head, entries = self.lm_head.weight, self.logits_processor.org_vocab_size
    if self.lm_head.tp_size == 1 and 0 < len(hidden_states) <= FEW_ROWS:
        kept: tuple[int, layers.Coarse] | None = self.__dict__.get("coarse_head")
        if kept is None or kept[0] != head.data_ptr():
            kept = self.__dict__["coarse_head"] = (head.data_ptr(), layers.Coarse.of(head[:entries]))
        if (found := layers.likeliest(hidden_states, head[:entries], kept[1])) is not None:
            return found
    logits = draft_logits(self, hidden_states)
    assert logits is not None  # without a GPU every rank gets them
    return logits.argmax(dim=-1)


def sample_draft(original: Any) -> Any:
    """In the place of ``DraftModelSpeculator.sample_draft``, `original`: logits only for those who need more than the largest."""

    def sample_draft(
        self: Any, hidden_states: torch.Tensor, positions: torch.Tensor, idx_mapping: torch.Tensor, temperature: torch.Tensor,
        seeds: torch.Tensor, draft_step: torch.Tensor, draft_logits: torch.Tensor | None, spec_step_idx: int = 0,
    ) -> torch.Tensor:  # fmt: skip
        if draft_logits is None and self.acceptance_estimator is None:
            return self.get_draft_top_tokens(hidden_states, spec_step_idx)
        return original(
            self, hidden_states, positions, idx_mapping, temperature, seeds, draft_step, draft_logits, spec_step_idx=spec_step_idx
        )

    return sample_draft


def _gathered(processor: Any, logits: torch.Tensor) -> torch.Tensor | None:
    """All ranks' parts of the vocabulary, without its padding."""
    whole = processor._gather_logits(logits)
    return None if whole is None else whole[..., : processor.org_vocab_size]
