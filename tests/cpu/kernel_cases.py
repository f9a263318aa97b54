"""Random inputs for the launchers of sampling and of the V2 runner's bookkeeping; see :mod:`.interpreted`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from .interpreted import GPU, Case

ROWS, STATES, LENGTH = 5, 6, 64
OWNERS = [3, 3, 3, 0, 5]
"""Request state of each row of logits: one request with two drafts, two without."""
BACK = [0, 1, 2, 0, 0]

Rng = np.random.Generator


def launcher(module: str, name: str) -> Any:
    """A call of vLLM's function, looked up when it runs."""
    import importlib

    return lambda **given: getattr(importlib.import_module(f"{GPU}.{module}"), name)(**given)


def ints(values: Any, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(np.asarray(values).tolist(), dtype=dtype)


def logits(rng: Rng, vocabulary: int, rows: int = ROWS) -> torch.Tensor:
    values = torch.from_numpy(rng.normal(0, 3, (rows, vocabulary)).astype(np.float32))
    values[1, rng.integers(0, vocabulary, vocabulary // 3)] = -torch.inf
    return values


def owners(dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return ints(OWNERS, dtype)


def floats(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def ids(rng: Rng, vocabulary: int, *shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return ints(rng.integers(0, vocabulary, shape), dtype)


def lengths() -> dict[str, torch.Tensor]:
    return {"prompt_len": ints([4, 9, 9, 20, 9, 30]), "total_len": ints([4, 9, 9, 41, 9, 33])}


HEAT = [1.0, 0.0, 0.7, 0.8, 2.0, 0.0]


def temperature(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {"logits": logits(rng, vocabulary), "expanded_idx_mapping": owners(), "temperature": floats(HEAT)}


def gumbel(rng: Rng, vocabulary: int, **more: Any) -> dict[str, Any]:
    return {
        "logits": logits(rng, vocabulary), "expanded_idx_mapping": owners(), "temperature": floats(HEAT),
        "seed": ints(rng.integers(-(2**62), 2**62, STATES), torch.int64), "pos": ints([50, 51, 52, 4, 33], torch.int64),
        "apply_temperature": False, "is_drafting": False,
    } | more  # fmt: skip


def gumbel_drafts(rng: Rng, vocabulary: int) -> dict[str, Any]:
    given = gumbel(rng, vocabulary, apply_temperature=True, is_drafting=True)
    given["expanded_idx_mapping"] = ints([3, 1, 4, 0, -1], torch.int64)
    return given | {"logits_cache": torch.zeros(STATES, 2, vocabulary), "logits_cache_col": torch.tensor(1)}


def min_p(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {"logits": logits(rng, vocabulary), "expanded_idx_mapping": owners(), "min_p": floats([0.0, 0, 0, 0.05, 0, 0.9])}


def penalties(rng: Rng, vocabulary: int) -> dict[str, Any]:
    tokens = ids(rng, vocabulary, ROWS)
    tokens[2] = -1  # a placeholder among the drafts
    counts = torch.zeros(STATES, vocabulary, dtype=torch.int32)
    counts[:, rng.integers(0, vocabulary, 20)] = 2
    counts[3, tokens[1]] = 0
    mask = ints(rng.integers(-(2**31), 2**31, (STATES, -(-vocabulary // 32))))
    return {
        "logits": logits(rng, vocabulary), "expanded_idx_mapping": owners(), "token_ids": tokens, "expanded_local_pos": ints(BACK),
        "repetition_penalty": floats([1.0, 1, 1, 1.3, 1, 1]), "frequency_penalty": floats([0.5, 0, 0, -0.2, 0, 0]),
        "presence_penalty": floats([0.0, 0, 0, 0.7, 0, 0]), "prompt_bin_mask": mask, "output_bin_counts": counts,
    }  # fmt: skip


def bincount(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {
        "expanded_idx_mapping": ints([3, 0], torch.int64), "all_token_ids": ids(rng, vocabulary, STATES, LENGTH),
        "prompt_len": lengths()["prompt_len"], "prefill_len": lengths()["total_len"],
        "prompt_bin_mask": ints(np.ones((STATES, -(-vocabulary // 32)))),
        "output_bin_counts": torch.ones(STATES, vocabulary, dtype=torch.int32), "max_prefill_len": LENGTH,
    }  # fmt: skip


def bias(rng: Rng, vocabulary: int) -> dict[str, Any]:
    def distinct() -> torch.Tensor:
        return ints([rng.permutation(vocabulary)[:16] for _ in range(STATES)])

    stops = distinct()
    allowed = stops.clone()
    return {
        "logits": logits(rng, vocabulary), "expanded_idx_mapping": owners(), "pos": ints([50, 51, 52, 4, 33], torch.int64),
        "num_allowed_token_ids": ints([3, 0, 0, 0, 0, 7]), "allowed_token_ids": allowed,
        "num_logit_bias": ints([0, 0, 0, 16, 0, 2]), "logit_bias_token_ids": distinct(),
        "logit_bias": torch.from_numpy(rng.normal(0, 5, (STATES, 16)).astype(np.float32)),
        "min_lens": ints([90, 0, 0, 53, 0, 90]), "num_stop_token_ids": ints([3, 0, 0, 5, 0, 3]),
        "restore_when_all_masked": ints([1, 0, 0, 0, 0, 1]), "stop_token_ids": stops, "check_all_masked_rows": True,
    }  # fmt: skip


def bad_words(rng: Rng, vocabulary: int) -> dict[str, Any]:
    said, drafted = ids(rng, vocabulary, STATES, LENGTH), ids(rng, vocabulary, ROWS)
    words = ids(rng, vocabulary, STATES, 40)
    words[3, :3] = torch.tensor([int(said[3, 40]), int(drafted[1]), 17])  # matches across the drafts
    words[3, 3:5] = torch.tensor([int(said[3, 40]), 23])
    words[5, :1] = 29
    return {
        "logits": logits(rng, vocabulary), "expanded_idx_mapping": owners(), "bad_word_token_ids": words,
        "bad_word_offsets": ints([[0, 3, 5, 9], [0] * 4, [0] * 4, [0, 3, 5, 9], [0] * 4, [0, 1, 4, 40]]),
        "num_bad_words": ints([0, 0, 0, 3, 0, 2]), "all_token_ids": said, **lengths(), "input_ids": drafted,
        "expanded_local_pos": ints(BACK), "max_num_bad_words": 3,
    }  # fmt: skip


def scores(rng: Rng, vocabulary: int, own: bool = True) -> dict[str, Any]:
    given: dict[str, Any] = {
        "logits": logits(rng, vocabulary), "num_logprobs": 4, "sampled_token_ids": ids(rng, vocabulary, ROWS, dtype=torch.int64),
        "cu_num_logits": None,
    }  # fmt: skip
    if own:
        state = SimpleNamespace(
            num_token_ids=SimpleNamespace(gpu=ints([0, 0, 0, 6, 0, 0])),
            token_ids=SimpleNamespace(gpu=ids(rng, vocabulary, STATES, 128)),
        )  # fmt: skip
        given |= {"logprob_token_ids_state": state, "expanded_idx_mapping": owners(), "max_per_req_token_ids": 6}
    return given


def prompt_ids(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {
        "num_tokens": 12, "query_start_loc": ints([0, 5, 12]), "idx_mapping": ints([3, 0], torch.int64),
        "num_computed_tokens": ints([2, 0, 0, 16, 0, 0]), "all_token_ids": ids(rng, vocabulary, STATES, LENGTH),
    }  # fmt: skip


def nans(rng: Rng, vocabulary: int) -> dict[str, Any]:
    values = logits(rng, vocabulary)
    values[0, ::7] = torch.nan
    return {"logits": values}


def grammar(rng: Rng, vocabulary: int) -> dict[str, Any]:
    batch = SimpleNamespace(
        req_ids=["a", "b", "c"], cu_num_logits_np=np.array([0, 3, 4, 5], np.int32), num_draft_tokens_per_req=np.array([2, 0, 0]),
        cu_num_logits=ints([0, 3, 4, 5]),
    )  # fmt: skip
    words = -(-vocabulary // 32)
    return {
        "logits": logits(rng, vocabulary), "batch": batch,
        "bitmask": rng.integers(-(2**31), 2**31, (4, words)).astype(np.int32), "vocabulary": vocabulary,
    }  # fmt: skip


def run_grammar(logits: torch.Tensor, batch: Any, bitmask: np.ndarray, vocabulary: int) -> None:
    from vllm.v1.worker.gpu.structured_outputs import StructuredOutputsWorker

    worker = StructuredOutputsWorker(12, vocabulary, torch.device("cpu"), mask_stride=3, num_bonus_tokens=1)
    worker.apply_grammar_bitmask(logits, batch, ["a", "c"], bitmask)


def thinking(rng: Rng, vocabulary: int) -> dict[str, Any]:
    """Requests: one thinks over its budget, one within, one ended, one has no budget; drafts continue a marker or end it."""
    total, rows = [2100, 9, 40, 41, 60, 33], [3, 3, 3, 0, 5, 2]
    said = ids(rng, vocabulary - 10, STATES, 4096) + 9
    start, end, forced = [3, 4], [5, 6], [7, 5, 6]
    said[0, 30:32] = ints(start)
    said[3, 38:41] = ints([*start, 7])
    said[5, 10:12], said[5, 20:22] = ints(start), ints(end)
    said[2, 39] = 3
    drafted = ids(rng, vocabulary - 10, len(rows)) + 9
    drafted[1], drafted[5] = 5, 4
    return {
        "logits": logits(rng, vocabulary, len(rows)), "req_ids": ints([3, 0, 5, 2], torch.int64),
        "expanded_idx_mapping": ints(rows, torch.int64), "thinking_token_budget": ints([100, -1, 0, 1, -1, 3]),
        "all_token_ids": said, "total_len": ints(total), "input_ids": drafted, "expanded_local_pos": ints([0, 1, 2, 0, 0, 0]),
        "cached_last_start": ints([-1, -1, -1, 38, -1, 10]), "cached_last_end": ints([-1] * STATES),
        "cached_scan_pos": ints([0, 0, 0, 39, 0, 12]), "reasoning_start_token_ids": ints(start),
        "natural_reasoning_end_token_ids": ints(end), "reasoning_end_token_ids": ints(forced),
    }  # fmt: skip


def trace(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {
        "sampled": ids(rng, vocabulary, 3, dtype=torch.int64), "idx_mapping": ints([3, 0, 5], torch.int64),
        "trace_token_ids": ids(rng, vocabulary, STATES, LENGTH), "trace_len": ints([9, 0, 0, 21, 0, 60]), **lengths(),
    }  # fmt: skip


def mask(rng: Rng, vocabulary: int) -> dict[str, Any]:
    values = logits(rng, vocabulary)
    values[values < 5] = -torch.inf
    return {
        "logits": values, "cu_num_logits": ints([0, 3, 4, 5]), "num_sampled_tokens": ints([2, 1, 0]), "max_num_kept": 7,
        "rows_per_request": 3,
    }  # fmt: skip


def run_mask(**given: Any) -> Any:
    """What is defined: as many ids as were kept and counted, and no more."""
    from vllm.v1.worker.gpu.sample.output import SamplingMaskTensors

    found = SamplingMaskTensors.from_logits(**given)
    counts = found.counts.tolist()
    kept = [ids[:count].clone() for ids, count in zip(found.token_ids, counts, strict=True)]
    return found.counts, kept, [bits for bits, count in zip(found.packed_mask, counts, strict=True) if count]


SAMPLE = [
    Case("temperature", ("sample.gumbel._temperature_kernel",), temperature, launcher("sample.gumbel", "apply_temperature")),
    Case("gumbel", ("sample.gumbel._gumbel_sample_kernel",), gumbel, launcher("sample.gumbel", "gumbel_sample")),
    Case("gumbel in float64", ("sample.gumbel._gumbel_sample_kernel",), lambda rng, v: gumbel(rng, v, use_fp64=True),
         launcher("sample.gumbel", "gumbel_sample")),
    Case("gumbel of drafts", ("sample.gumbel._gumbel_sample_kernel",), gumbel_drafts, launcher("sample.gumbel", "gumbel_sample")),
    Case("min-p", ("sample.min_p._min_p_kernel",), min_p, launcher("sample.min_p", "apply_min_p")),
    Case("penalties", ("sample.penalties._penalties_kernel",), penalties, launcher("sample.penalties", "apply_penalties")),
    Case("token statistics", ("sample.penalties._bincount_kernel",), bincount, launcher("sample.penalties", "bincount")),
    Case("bias, allowed, minimum", ("sample.logit_bias._bias_kernel",), bias, launcher("sample.logit_bias", "apply_logit_bias")),
    Case("bad words", ("sample.bad_words._bad_words_kernel",), bad_words, launcher("sample.bad_words", "apply_bad_words")),
    Case("log-probabilities and ranks", ("sample.logprob._topk_log_softmax_kernel", "sample.logprob._ranks_kernel"),
         lambda rng, v: scores(rng, v, own=False), launcher("sample.logprob", "compute_topk_scores")),
    Case("log-probabilities of given ids", (
        "sample.logprob._topk_log_softmax_kernel", "sample.logprob._ranks_kernel", "sample.logprob._fill_logprob_token_ids_kernel",
    ), scores, launcher("sample.logprob", "compute_topk_scores")),
    Case("prompt log-probabilities", ("sample.prompt_logprob._prompt_logprobs_token_ids_kernel",), prompt_ids,
         launcher("sample.prompt_logprob", "get_prompt_logprobs_token_ids")),
    Case("NaNs", ("metrics.logits._num_nans_kernel",), nans, launcher("metrics.logits", "get_num_nans")),
    Case("grammar", ("structured_outputs._apply_grammar_bitmask_kernel",), grammar, run_grammar),
    Case("thinking budget", (
        "sample.thinking_budget._update_committed_marker_cache_kernel", "sample.thinking_budget._thinking_budget_kernel",
    ), thinking, launcher("sample.thinking_budget", "apply_thinking_budget")),
    Case("trace replay", ("sample.trace_replay._trace_replay_kernel",), trace,
         launcher("sample.trace_replay", "apply_trace_tokens")),
    Case("sampling mask", ("sample.output._compact_sampling_mask_kernel",), mask, run_mask),
]  # fmt: skip


def prefill(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {
        "input_ids": torch.zeros(20, dtype=torch.int32), "next_prefill_tokens": torch.ones(3, STATES, dtype=torch.int32),
        "idx_mapping": ints([3, 0, 5], torch.int64), "query_start_loc": ints([0, 5, 12, 13]),
        "all_token_ids": ids(rng, vocabulary, STATES, LENGTH), "prefill_len": ints([10, 0, 0, 20, 0, 30]),
        "num_computed_tokens": ints([2, 0, 0, 5, 0, 30]),
    }  # fmt: skip


def positions(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {
        "idx_mapping": ints([3, 0, 5], torch.int64), "query_start_loc": ints([0, 5, 12, 13]),
        "num_computed_tokens": ints([2, 0, 0, 5, 0, 30]), "pos": torch.zeros(20, dtype=torch.int64),
        "seq_lens": ints([9] * STATES),
    }  # fmt: skip


def combine(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {
        "input_ids": ids(rng, vocabulary, 20), "idx_mapping": ints([3, 0, 5], torch.int64),
        "last_sampled_tokens": ids(rng, vocabulary, STATES, 1, dtype=torch.int64), "query_start_loc": ints([0, 3, 12, 13]),
        "seq_lens": ints([44, 20, 31, 0, 0, 0]), "prefill_len": ints([25, 0, 0, 41, 0, 30]),
        "draft_tokens": ids(rng, vocabulary, STATES, 2, dtype=torch.int64), "cu_num_logits": ints([0, 3, 4, 5]), "num_logits": 5,
    }  # fmt: skip


def rejected(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {
        "num_sampled": ints([2, 1, 1]), "seq_lens": ints([44, 20, 31]), "cu_num_logits": ints([0, 3, 4, 5]),
        "idx_mapping": ints([3, 0, 5], torch.int64), "prefill_len": ints([25, 0, 0, 41, 0, 30]),
    }  # fmt: skip


def update(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {
        "idx_mapping": ints([3, -1, 5], torch.int64), "num_computed_tokens": ints([2, 0, 0, 41, 0, 30]),
        "last_sampled_tokens": ids(rng, vocabulary, STATES, 1, dtype=torch.int64),
        "output_bin_counts": torch.zeros(STATES, vocabulary, dtype=torch.int32),
        "sampled_tokens": ids(rng, vocabulary, 3, 3, dtype=torch.int64), "num_sampled": ints([2, 1, 0]),
        "num_rejected": ints([1, 0, 0]), "query_start_loc": ints([0, 3, 12, 13]),
        "all_token_ids": ids(rng, vocabulary, STATES, LENGTH), "total_len": lengths()["total_len"],
    }  # fmt: skip


def update_computed(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {name: value for name, value in positions(rng, vocabulary).items() if name not in ("pos", "seq_lens")}


def expand(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {
        "idx_mapping": ints([3, 0, 5], torch.int64), "total_num_logits": 5, "cu_num_logits": ints([0, 3, 4, 5]),
        "max_expand_len": 3,
    }  # fmt: skip


def writes(rng: Rng, vocabulary: int) -> dict[str, Any]:
    return {"contents": rng.integers(0, 99, 12).tolist()}


def run_writes(contents: list[int]) -> Any:
    from vllm.v1.worker.gpu.buffer_utils import StagedWriteTensor

    tensor = StagedWriteTensor((4, 9), torch.int32, torch.device("cpu"))
    tensor.stage_write(1, 3, contents[:5])
    tensor.stage_write(3, 0, contents[5:])
    tensor.stage_write(1, 4, contents[:2])
    tensor.apply_write()
    return tensor.gpu


def run_tables(contents: list[int]) -> Any:
    from vllm.v1.worker.gpu.block_table import BlockTables

    tables = BlockTables([4, 16], STATES, 64, [16, 4], torch.device("cpu"), slot_mapping_enabled=[True, False])
    tables.append_block_ids(3, (contents, contents[:3]), overwrite=True)
    tables.append_block_ids(0, (contents[4:], contents[3:5]), overwrite=True)
    tables.append_block_ids(3, (contents[:2], contents[:1]), overwrite=False)
    tables.apply_staged_writes()
    mapping, bounds = ints([3, 0], torch.int64), ints([0, 5, 12])
    gathered = [table.clone() for table in tables.gather_block_tables(mapping, 3)]
    places = torch.cat([torch.arange(38, 43), torch.arange(7)])
    slots = tables.compute_slot_mappings(mapping, bounds, places, 14).clone()
    return gathered, slots, [table.gpu for table in tables.block_tables]


_BATCH = "input_batch"
BATCH = [
    Case("prompt inputs", (f"{_BATCH}._prepare_prefill_inputs_kernel",), prefill, launcher(_BATCH, "prepare_prefill_inputs")),
    Case("positions", (f"{_BATCH}._prepare_pos_seq_lens_kernel",), positions, launcher(_BATCH, "prepare_pos_seq_lens")),
    Case("sampled and drafted inputs", (f"{_BATCH}._combine_sampled_and_draft_tokens_kernel",), combine,
         launcher(_BATCH, "combine_sampled_and_draft_tokens")),
    Case("rejected counts", (f"{_BATCH}._get_num_sampled_and_rejected_kernel",), rejected,
         launcher(_BATCH, "get_num_sampled_and_rejected")),
    Case("appending", (f"{_BATCH}._post_update_kernel",), update, launcher(_BATCH, "post_update")),
    Case("advancing", (f"{_BATCH}._post_update_num_computed_tokens_kernel",), update_computed,
         launcher(_BATCH, "post_update_num_computed_tokens")),
    Case("expansion", (f"{_BATCH}._expand_idx_mapping_kernel",), expand, launcher(_BATCH, "expand_idx_mapping")),
    Case("staged writes", ("buffer_utils:StagedWriteTensor.apply_write",), writes, run_writes, whole=True),
    Case("block tables", (
        "buffer_utils:FusedStagedWriter.apply", "block_table:BlockTables.gather_block_tables",
        "block_table:BlockTables.compute_slot_mappings",
    ), writes, run_tables, whole=True),
]  # fmt: skip

CASES = [*SAMPLE, *BATCH]
