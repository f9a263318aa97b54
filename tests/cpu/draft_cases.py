"""Random inputs for the launchers of drafting and of rejection sampling; see :mod:`.interpreted`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from .interpreted import Case
from .kernel_cases import HEAT, STATES, Rng, floats, ids, ints, launcher

_VERIFY, _MANY, _ONE = (f"spec_decode.{name}" for name in (
    "rejection_sampler", "multi_module_mtp.speculator", "target_dependent_ar.speculator",
))  # fmt: skip

STEPS, HIDDEN, MOST = 4, 12, STATES
BOUNDS, REQUESTS = [0, 5, 12, 17, 19], [3, 0, 5, 2]
"""Query rows of four requests: three verified four drafts or had a prompt chunk, one has a short one."""


def verification(rng: Rng, vocabulary: int, **more: Any) -> dict[str, Any]:
    """Four requests with 4, 4, 2 and 0 drafts: temperatures 0.8, 1, 0 and 0.7; likely drafts and a placeholder among them."""
    counts, states = [5, 5, 3, 1], [3, 0, 5, 2]
    rows = sum(counts)
    logits = torch.from_numpy(rng.normal(0, 3, (rows, vocabulary)).astype(np.float32))
    drafted = ids(rng, vocabulary, rows)
    best = logits.argmax(dim=1)
    bounds = np.cumsum([0, *counts])
    for row in (0, 1, 5, 6, 7, 10):
        drafted[row + 1] = best[row]
    drafted[bounds[1] + 4] = -1
    return {
        "target_logits": logits, "draft_logits": None, "draft_sampled": drafted, "cu_num_logits": ints(bounds),
        "pos": ints(rng.integers(0, 2**20, rows), torch.int64), "idx_mapping": ints(states, torch.int64),
        "expanded_idx_mapping": ints(np.repeat(states, counts), torch.int64),
        "expanded_local_pos": ints(np.concatenate([np.arange(count) for count in counts])),
        "temperature": floats(HEAT), "seed": ints(rng.integers(-(2**62), 2**62, STATES), torch.int64),
        "num_speculative_steps": STEPS,
    } | more  # fmt: skip


def with_proposal(rng: Rng, vocabulary: int, **more: Any) -> dict[str, Any]:
    """Drafts with logits of their own, near the target's."""
    given = verification(rng, vocabulary, **more)
    proposal = torch.from_numpy(rng.normal(0, 3, (STATES, STEPS, vocabulary)).astype(np.float32))
    for start, state in ((0, 3), (5, 0)):
        heat = HEAT[state]
        proposal[state] = given["target_logits"][start : start + STEPS] * heat + 0.3 * proposal[state]
    return given | {"draft_logits": proposal}


def verify(**given: Any) -> Any:
    """Sampled tokens as far as they count."""
    import importlib

    from .interpreted import GPU

    module = importlib.import_module(f"{GPU}.spec_decode.rejection_sampler")
    sampled, counts = module.rejection_sample(**given)
    return [row[:count].clone() for row, count in zip(sampled, counts.tolist(), strict=True)], counts


def seeds(make: Any, **more: Any) -> Any:
    """Several draws of the same case, so that acceptance, rejection and the rest are all met."""

    def build(rng: Rng, vocabulary: int) -> dict[str, Any]:
        return {"cases": [make(rng, vocabulary, **more) for _ in range(12 if vocabulary < 10_000 else 2)]}

    return build


def run_all(cases: list[dict[str, Any]]) -> Any:
    return [verify(**case) for case in cases]


def gather(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {
        "input_ids": ids(rng, vocabulary, 19), "positions": ints(rng.integers(20, 60, 19), torch.int64),
        "logits_indices": ints([0, 1, 2, 3, 4, 11, 17, 18], torch.int64),
        "expanded_idx_mapping": ints([3, 3, 3, 3, 3, 0, 2, 2], torch.int64), "expanded_local_pos": ints([0, 1, 2, 3, 4, 0, 0, 1]),
        "prefill_len": ints([30, 0, 61, 25, 0, 0]),
    }  # fmt: skip


def flatten(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {
        "flat": torch.zeros(14, dtype=torch.int64), "sampled": ids(rng, vocabulary, 4, STEPS + 1, dtype=torch.int64),
        "counts": ints([5, 1, 3, 0]), "bounds": ints([0, 5, 10, 13, 14]),
    }  # fmt: skip


def run_flatten(flat: torch.Tensor, sampled: torch.Tensor, counts: torch.Tensor, bounds: torch.Tensor) -> None:
    from vllm.v1.worker.gpu.spec_decode import rejection_sampler

    kernel: Any = rejection_sampler._flatten_sampled_kernel
    kernel[(4,)](flat, sampled, sampled.stride(0), counts, bounds, num_warps=1)


def batch(rng: Rng, vocabulary: int) -> SimpleNamespace:
    places = torch.cat([torch.arange(40, 45), torch.arange(0, 7), torch.arange(90, 95), torch.arange(16, 18)])
    return SimpleNamespace(
        num_reqs=4, input_ids=ids(rng, vocabulary, 19), positions=places, idx_mapping=ints(REQUESTS, torch.int64),
        seq_lens=ints([45, 7, 95, 18]), query_start_loc=ints(BOUNDS),
    )  # fmt: skip


def buffers() -> SimpleNamespace:
    return SimpleNamespace(
        input_ids=torch.zeros(24, dtype=torch.int32), positions=torch.zeros(24, dtype=torch.int64),
        seq_lens=ints([7] * MOST), query_start_loc=ints([*BOUNDS, 1, 1]),
    )  # fmt: skip


def counted() -> dict[str, torch.Tensor]:
    """One accepted of four, a prompt chunk that is not done, none accepted, one token sampled of two."""
    return {"num_sampled": ints([2, 0, 1, 1]), "num_rejected": ints([3, 0, 4, 0])}


def states(rng: Rng, *shape: int) -> torch.Tensor:
    return torch.from_numpy(rng.normal(0, 1, shape).astype(np.float32))


def first_inputs(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {
        "num_reqs": 4, "input_batch": batch(rng, vocabulary),
        "cached_draft_input_ids": ids(rng, vocabulary, STATES, STEPS - 1, dtype=torch.int64), **counted(),
        "last_sampled": ids(rng, vocabulary, STATES, 1, dtype=torch.int64),
        "next_prefill_tokens": ids(rng, vocabulary, STEPS, STATES),
        "draft_input_id_overrides": torch.zeros(MOST, STEPS - 1, dtype=torch.int64), "input_buffers": buffers(),
        "last_token_indices": torch.ones(MOST, dtype=torch.int64), "max_num_reqs": MOST, "num_speculative_steps": STEPS,
    }  # fmt: skip


def hidden_inputs(rng: Rng, vocabulary: int, embeds: bool = True) -> dict[str, Any]:
    return {
        "num_reqs": 4, "max_query_len": 7, "hidden_states": torch.zeros(24, HIDDEN),
        "target_hidden_states": states(rng, 19, HIDDEN),
        "cached_target_hidden_states": states(rng, STATES, STEPS - 1, HIDDEN),
        "input_embeds": states(rng, 24, HIDDEN) if embeds else None,
        "cached_draft_input_embeds": states(rng, STATES, STEPS - 1, HIDDEN) if embeds else None,
        "input_batch": batch(rng, vocabulary), "input_buffers": buffers(), "num_rejected": counted()["num_rejected"],
        "num_speculative_steps": STEPS,
    }  # fmt: skip


LAST = [1 + 2, 11, 12 + 3, 18]
"""Last input row of each request of :func:`batch` behind its gap."""


def trailing(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {
        "slot_mappings": ints(rng.integers(0, 99, (3, 24)), torch.int64), "query_start_loc": ints(BOUNDS),
        "last_token_indices": ints(LAST, torch.int64), "num_reqs": 4,
    }  # fmt: skip


def kept(rng: Rng, vocabulary: int) -> dict[str, Any]:
    given = buffers()
    given.input_ids = ids(rng, vocabulary, 24)
    return {
        "input_buffers": given, "draft_input_embeds": states(rng, 24, HIDDEN), "draft_input_hidden_states": states(rng, 24, HIDDEN),
        "cached_draft_input_ids": torch.zeros(STATES, STEPS - 1, dtype=torch.int64),
        "cached_draft_input_embeds": torch.zeros(STATES, STEPS - 1, HIDDEN),
        "cached_target_hidden_states": torch.zeros(STATES, STEPS - 1, HIDDEN), "last_token_indices": ints(LAST, torch.int64),
        "idx_mapping": ints([3, 0, -1, 2], torch.int64), "num_reqs": 4, "num_speculative_steps": STEPS, "use_input_embeds": True,
    }  # fmt: skip


def moved(rng: Rng, vocabulary: int) -> dict[str, Any]:
    given = buffers()
    given.input_ids = ids(rng, vocabulary, 24)
    return {
        "draft_tokens": ids(rng, vocabulary, 4, dtype=torch.int64), "draft_embeds": states(rng, 4, HIDDEN), "input_buffers": given,
        "input_embeds": states(rng, 24, HIDDEN), "last_token_indices": ints(LAST, torch.int64),
        "idx_mapping": ints([3, 0, -1, 2], torch.int64), "num_reqs": 4,
    }  # fmt: skip


def single_first(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {
        "last_token_indices": torch.ones(MOST, dtype=torch.int64), "current_draft_step": torch.tensor(3),
        "input_buffers": buffers(), "input_batch": batch(rng, vocabulary), **counted(),
        "last_sampled": ids(rng, vocabulary, STATES, 1, dtype=torch.int64),
        "next_prefill_tokens": ids(rng, vocabulary, 1, STATES), "max_num_reqs": MOST,
    }  # fmt: skip


def single_second(rng: Rng, vocabulary: int) -> dict[str, Any]:
    given = buffers()
    given.positions[:4] = torch.tensor([40, 6, 99, 17])
    return {
        "draft_tokens": ids(rng, vocabulary, 4, 2, dtype=torch.int64)[:, 0], "target_seq_lens": ints([45, 7, 100, 18]),
        "num_rejected": counted()["num_rejected"], "input_buffers": given,
        "sample_src_positions": torch.arange(MOST), "max_model_len": 100, "max_num_reqs": MOST,
    }  # fmt: skip


def single_next(rng: Rng, vocabulary: int) -> dict[str, Any]:
    given = buffers()
    given.positions[:4] = torch.tensor([40, 6, 99, 17])
    given.seq_lens[2] = 100
    return {
        "draft_tokens": ids(rng, vocabulary, 4, dtype=torch.int64), "current_draft_step": torch.tensor(1),
        "hidden_states": states(rng, 4, HIDDEN), "output_draft_tokens": torch.zeros(MOST, STEPS, dtype=torch.int64),
        "next_input_hidden_states": torch.zeros(24, HIDDEN), "input_buffers": given,
        "sample_src_positions": torch.arange(MOST), "num_reqs": 4, "max_model_len": 100, "num_speculative_steps": STEPS,
    }  # fmt: skip


_REJECT = (f"{_VERIFY}:rejection_sample",)
CASES = [
    Case("verifying", _REJECT, seeds(verification), run_all, whole=True),
    Case("verifying in float64", _REJECT, seeds(verification, use_fp64=True), run_all, whole=True),
    Case("verifying with logits of the drafts", _REJECT, seeds(with_proposal), run_all, whole=True),
    Case("verifying by blocks", _REJECT, seeds(verification, use_block_verification=True), run_all, whole=True),
    Case("verifying by blocks with logits of the drafts", _REJECT, seeds(with_proposal, use_block_verification=True), run_all,
         whole=True),
    Case("accepting at given rates", _REJECT,
         seeds(verification, synthetic_conditional_rates=floats([0.9, 0.7, 0.5, 0.3])), run_all, whole=True),
    Case("drafted rows", (f"{_VERIFY}._gather_draft_sampled_kernel",), gather, launcher(_VERIFY, "gather_draft_sampled")),
    Case("sampled rows", (f"{_VERIFY}._flatten_sampled_kernel",), flatten, run_flatten),
    Case("first inputs", (f"{_MANY}._prepare_input_buffers_kernel",), first_inputs, launcher(_MANY, "prepare_input_buffers")),
    Case("hidden inputs", (f"{_MANY}._prepare_input_hidden_states_and_embeddings_kernel",), hidden_inputs,
         launcher(_MANY, "prepare_input_hidden_states_and_embeddings")),
    Case("hidden inputs of text", (f"{_MANY}._prepare_input_hidden_states_and_embeddings_kernel",),
         lambda rng, v: hidden_inputs(rng, v, embeds=False), launcher(_MANY, "prepare_input_hidden_states_and_embeddings")),
    Case("trailing slots", (f"{_MANY}._pad_trailing_draft_slots_kernel",), trailing, launcher(_MANY, "pad_trailing_draft_slots")),
    Case("kept inputs", (f"{_MANY}._cache_inputs_kernel",), kept, launcher(_MANY, "cache_inputs")),
    Case("moved inputs", (f"{_MANY}._shift_input_ids_kernel", f"{_MANY}._shift_input_embeds_kernel"), moved,
         launcher(_MANY, "update_draft_inputs")),
    Case("one block: first inputs", (f"{_ONE}._prepare_prefill_inputs_kernel",), single_first,
         launcher(_ONE, "prepare_prefill_inputs")),
    Case("one block: second inputs", (f"{_ONE}._prepare_decode_inputs_kernel",), single_second,
         launcher(_ONE, "prepare_decode_inputs")),
    Case("one block: next inputs", (f"{_ONE}._update_draft_inputs_kernel",), single_next, launcher(_ONE, "update_draft_inputs")),
]  # fmt: skip
