"""Faults of vLLM 0.32 with adapters on Inkling, put right in the workers, on GPUs and without.

1. The head's adapter path keeps the padded vocabulary: ids that mean nothing could be sampled, by any request of an engine that has
   adapters switched on. Cut to the real vocabulary, as the plain path does.
2. The runner names one adapter per request for the logits, but a request that verifies drafts has a row for each: rows beyond get
   another request's adapter, or none.
3. Log-probabilities of a prompt ask for the logits of every token of the batch, with the same one adapter per request.
4. Two adapters are equal when their names are: an adapter that took over a name while its predecessor still runs is never
   activated, and the step fails.

Each is one function here and one test that fails when vLLM puts it right (``docs/upstream.md``). Active only where the engine has
adapters; private names are looked up when a worker starts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ..cpu.replacing import lookup, replace
from .head_logits import mapped

_RUNNER = "vllm.v1.worker.gpu"

LOGITS = "vllm.models.inkling.nvidia.logits_processor:InklingLogitsProcessor._lora_forward"
MAPPING = f"{_RUNNER}.lora_utils:LoraState.make_lora_inputs"
INPUTS = f"{_RUNNER}.model_runner:GPUModelRunner.prepare_inputs"
PROMPT = tuple(
    f"{_RUNNER}.sample.prompt_logprob:PromptLogprobsWorker.{name}"
    for name in ("compute_prompt_logprobs", "compute_prompt_token_id_logprobs")
)
_OURS = "put_right_by_inkling"

EQUAL, HASH = "vllm.lora.request:LoRARequest.__eq__", "vllm.lora.request:LoRARequest.__hash__"


def install() -> None:
    """Put the faults right in this process, a worker. Repeatable.

    Raises
    ------
    KernelMoved
        vLLM no longer has one of the names; nothing has been replaced then.
    """
    changes = {
        LOGITS: real_vocabulary, INPUTS: remembering_rows, MAPPING: adapter_of_each_row, EQUAL: same_adapter, HASH: adapter_hash,
    } | dict.fromkeys(PROMPT, adapter_of_each_token)  # fmt: skip
    found = {name: (lookup(name)[2], change) for name, change in changes.items()}
    made = {name: change(original) for name, (original, change) in found.items() if not hasattr(original, _OURS)}
    for function in made.values():
        setattr(function, _OURS, True)
    replace(made, rebind_in=_RUNNER)


def real_vocabulary(original: Callable[..., Any]) -> Callable[..., Any]:
    """Fault 1: logits of ids that mean something, and of no others."""

    @wraps(original)
    def _lora_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        logits = original(self, *args, **kwargs)
        return None if logits is None else logits[..., : self.base_layer.org_vocab_size]

    return _lora_forward


def remembering_rows(original: Callable[..., Any]) -> Callable[..., Any]:
    """Fault 2, its first half: keep how many rows of logits each request of the step has."""

    @wraps(original)
    def prepare_inputs(self: Any, *args: Any, **kwargs: Any) -> Any:
        batch = original(self, *args, **kwargs)
        self.lora_state.logits_per_request = np.diff(batch.cu_num_logits_np)
        return batch

    return prepare_inputs


def adapter_of_each_row(original: Callable[..., Any]) -> Callable[..., Any]:
    """Fault 2, its second half: a request's adapter for every row of its logits."""

    @wraps(original)
    def make_lora_inputs(self: Any, req_ids: list[str], idx_mapping: Any, num_scheduled_tokens: Any) -> Any:
        per_request, per_token, active = original(self, req_ids, idx_mapping, num_scheduled_tokens)
        return tuple(np.repeat(per_request, self.logits_per_request).tolist()), per_token, active

    return make_lora_inputs


def adapter_of_each_token(original: Callable[..., Any]) -> Callable[..., Any]:
    """Fault 3: the logits of prompt tokens are asked for under a mapping of their own."""

    @wraps(original)
    def compute(self: Any, logits_fn: Callable[[Any], Any], hidden_states: Any, *args: Any, **kwargs: Any) -> Any:
        manager = getattr(getattr(logits_fn, "__self__", None), "lora_manager", None)
        if manager is None or not any(manager._last_mapping.index_mapping):
            return original(self, logits_fn, hidden_states, *args, **kwargs)
        mapping = manager._last_mapping
        row_bytes = hidden_states.stride(0) * hidden_states.element_size()

        def logits_of(rows: Any) -> Any:
            # A slice of the batch's hidden states, which stand in the order of its tokens.
            first = (rows.data_ptr() - hidden_states.data_ptr()) // row_bytes
            with mapped(manager, mapping.index_mapping[first : first + len(rows)]):
                return logits_fn(rows)

        return original(self, logits_of, hidden_states, *args, **kwargs)

    return compute


def same_adapter(original: Callable[..., Any]) -> Callable[..., Any]:
    """Fault 4: equal is what has the same number, which is never used twice."""

    @wraps(original)
    def __eq__(self: Any, value: object) -> bool:
        return type(value) is type(self) and self.lora_int_id == value.lora_int_id  # type: ignore[attr-defined]

    return __eq__


def adapter_hash(original: Callable[..., Any]) -> Callable[..., Any]:
    """Goes with :func:`same_adapter`."""

    @wraps(original)
    def __hash__(self: Any) -> int:
        return hash(self.lora_int_id)

    return __hash__
