"""What vLLM does wrong with adapters, and that it is put right. Each first half fails when vLLM mends it: then our half can go."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from engine.cpu.replacing import lookup
from engine.kernel import adapter_fixes as fixes


def upstream(name: str) -> Any:
    """vLLM's own function, also where this process has put it right."""
    return inspect.unwrap(lookup(name)[2])


def test_the_heads_adapter_path_keeps_padding() -> None:
    base = SimpleNamespace(logits_mup_width_multiplier=2.0, org_vocab_size=5, soft_cap=None, scale=1.0)
    wrapper, logits = SimpleNamespace(base_layer=base, logits_as_input=True), torch.arange(16.0).view(2, 8)
    theirs = upstream(fixes.LOGITS)
    assert theirs(wrapper, None, logits).shape == (2, 8), "mended: real_vocabulary can go"
    assert fixes.real_vocabulary(theirs)(wrapper, None, logits).equal(logits[:, :5] / 2)
    nothing = fixes.real_vocabulary(lambda *_: None)
    assert nothing(wrapper, None, logits) is None


def test_a_request_with_drafts_has_one_adapter_row_only() -> None:
    from vllm.lora.request import LoRARequest
    from vllm.v1.worker.gpu.lora_utils import LoraState

    state = LoraState(4)
    state.add_request("a", 2, LoRARequest("x", 7, "somewhere"))
    state.add_request("b", 0, None)
    state.add_request("c", 1, LoRARequest("y", 9, "elsewhere"))
    arguments = state, ["a", "b", "c"], np.array([2, 0, 1]), np.array([3, 5, 1])
    theirs = upstream(fixes.MAPPING)
    rows, tokens, active = theirs(*arguments)
    assert (tuple(rows), len(tokens), len(active)) == ((7, 0, 9), 9, 2), "mended: adapter_of_each_row can go"
    state.logits_per_request = np.array([3, 1, 1])  # type: ignore[attr-defined]
    rows, tokens, _ = fixes.adapter_of_each_row(theirs)(*arguments)
    assert (rows, tokens) == ((7, 7, 7, 0, 9), (7, 7, 7, 0, 0, 0, 0, 0, 9))

    runner = SimpleNamespace(lora_state=state)
    batch = SimpleNamespace(cu_num_logits_np=np.array([0, 4, 5]))
    assert fixes.remembering_rows(lambda _: batch)(runner) is batch
    assert state.logits_per_request.tolist() == [4, 1]  # type: ignore[attr-defined]


def test_logits_of_prompt_tokens_know_no_adapter() -> None:
    for name in fixes.PROMPT:
        assert "lora" not in inspect.getsource(upstream(name)), "mended: adapter_of_each_token can go"
    from vllm.lora.layers import LoRAMapping

    seen: list[tuple[int, ...]] = []

    class Manager:
        _last_mapping = LoRAMapping((1, 1, 0, 2, 2, 2), (1, 0, 2), is_prefill=True)

        def set_adapter_mapping(self, mapping: Any) -> None:
            seen.append(mapping.prompt_mapping)

    class Model:
        lora_manager = Manager()

        def compute_logits(self, rows: torch.Tensor) -> torch.Tensor:
            return rows

    hidden = torch.arange(60.0).view(20, 3)[4:10]

    def pieces(_worker: Any, logits_fn: Any, states: torch.Tensor) -> list[torch.Tensor]:
        return [logits_fn(states[:2]), logits_fn(states[2:5])]

    ours = fixes.adapter_of_each_token(pieces)
    found = ours(None, Model().compute_logits, hidden)
    assert found[1].equal(hidden[2:5])
    step = (1, 0, 2)
    assert seen == [(1, 1), step, (0, 2, 2), step], "each piece its own, and the step's again after it"
    with pytest.raises(ZeroDivisionError):
        fixes.adapter_of_each_token(lambda *_: 1 // 0)(None, Model().compute_logits, hidden)
    assert seen[-1] == (1, 0, 2)
    seen.clear()
    Manager._last_mapping = LoRAMapping((0,) * 6, (0, 0, 0), is_prefill=True)
    ours(None, Model().compute_logits, hidden)
    ours(None, lambda rows: rows, hidden)
    assert not seen, "nothing to do without adapters"


def test_two_adapters_of_one_name_are_one() -> None:
    from vllm.lora.request import LoRARequest

    old, new, again = LoRARequest("name", 1, "a"), LoRARequest("name", 2, "b"), LoRARequest("other", 1, "a")
    equal, number = upstream(fixes.EQUAL), upstream(fixes.HASH)
    assert equal(old, new), "mended: same_adapter can go"
    assert number(old) == number(new)
    ours, our_number = fixes.same_adapter(equal), fixes.adapter_hash(number)
    assert not ours(old, new)
    assert ours(old, again)
    assert not ours(old, "name")
    assert our_number(old) == our_number(again) != our_number(new)


def test_a_bad_adapter_of_a_request_raises_in_the_step() -> None:
    """So nothing but checked adapters may ever reach a request: the kernel loads before it serves."""
    from vllm.exceptions import LoRAAdapterNotFoundError
    from vllm.lora.request import LoRARequest
    from vllm.lora.worker_manager import LRUCacheWorkerLoRAManager

    manager = object.__new__(LRUCacheWorkerLoRAManager)
    manager.max_position_embeddings = None
    manager._adapter_manager = SimpleNamespace(  # type: ignore[assignment]
        lora_slots=1, supported_lora_modules=[], packed_modules_mapping={}, list_adapters=dict
    )
    with pytest.raises(LoRAAdapterNotFoundError):
        manager._apply_adapters({LoRARequest("x", 1, "/nothing/here")})


def test_every_name_is_in_this_vllm_and_installing_is_repeatable() -> None:
    fixes.install()
    first = lookup(fixes.LOGITS)[2]
    fixes.install()
    assert lookup(fixes.LOGITS)[2] is first
    from vllm.lora.request import LoRARequest

    assert len({LoRARequest("n", 1, "a"), LoRARequest("n", 2, "a"), LoRARequest("m", 1, "a")}) == 2
