"""The model's own head on rows that vLLM itself does not ask it for: of tokens of a prompt, or of a stream between layers.

Where adapters may be loaded, vLLM's bookkeeping says which one each row of logits gets, for the rows it will ask for itself. For
other rows it is set to the adapter of the request they belong to, and back. The head is spread over ranks: every rank must call.

Private names of vLLM 0.32: ``model.lora_manager`` with ``_last_mapping`` and ``set_adapter_mapping``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def head_logits(model: Any, hidden: Any, row: int) -> Any:
    """Logits (t, vocabulary) of `hidden` (t, c), by the model with the adapter of the request that has row `row` of the step.

    None on a rank that does not gather them.
    """
    manager = getattr(model, "lora_manager", None)
    if manager is None or manager._last_mapping is None:
        return model.compute_logits(hidden)
    with mapped(manager, [manager._last_mapping.index_mapping[row]] * len(hidden)):
        return model.compute_logits(hidden)


@contextmanager
def mapped(manager: Any, ids: Sequence[int]) -> Iterator[None]:
    """Have the next rows of logits get the adapters `ids`, one for each; 0 is the model alone."""
    before = manager._last_mapping
    manager.set_adapter_mapping(type(before)(before.index_mapping, tuple(ids), is_prefill=before.is_prefill, type=before.type))
    try:
        yield
    finally:
        manager.set_adapter_mapping(before)
