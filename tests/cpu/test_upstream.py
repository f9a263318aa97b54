"""Faults of vLLM 0.32 that are worked round: each has a test of the remedy, and one that fails when vLLM has mended it.

docs/upstream.md tells of each: what happens, where, how to see it, and what is done about it here. A test named ``…_is_still_so``
that fails is good news: the remedy and its row can go.
"""

from __future__ import annotations

import inspect
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.cpu import blocks, runner, sconv, upstream

GPU = "vllm.v1.worker.gpu"


def source(module: str, function: str = "") -> str:
    """Text of a module of vLLM's, or of one of its functions; read, not imported."""
    import ast

    spec = find_spec(module)
    assert spec is not None
    text = Path(str(spec.origin)).read_text("utf-8")
    if not function:
        return text
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.name == function]
    assert found, f"{module} has no {function} any more"
    return ast.unparse(found[0])


def test_the_page_size_of_short_convolutions_is_still_a_constant() -> None:
    """``InklingConvState.block_size`` is the number of taps, whatever the pages were made."""
    text = source("vllm.models.inkling.nvidia.sconv_swa_attn")
    assert "self.block_size = kernel_size" in text
    assert text.count("self.block_size =") == 1
    for module in ("short_conv", "attention", "model"):
        assert "owner.block_size" in source(f"vllm.models.inkling.nvidia.{module}")


def test_the_kernel_registry_still_reads_vars_of_anything() -> None:
    assert 'vars(value).get("kernel")' in source("vllm.triton_utils.dispatcher")


def test_the_placeholder_of_triton_still_lacks_a_function() -> None:
    assert "next_power_of_2" not in source("vllm.triton_utils.importing")
    # While launchers of kernels that have other implementations call it.
    assert "triton.next_power_of_2" in source(f"{GPU}.sample.logprob")


def test_the_v2_runner_still_asks_for_triton() -> None:
    assert "if not HAS_TRITON" in source("vllm.config.vllm", "_validate_v2_model_runner")


def test_the_state_of_short_convolutions_is_still_bfloat16_only() -> None:
    assert "assert self._dtype == torch.bfloat16" in source("vllm.models.inkling.nvidia.sconv_swa_attn")


def test_chosen_log_probabilities_are_still_ignored_while_drafting() -> None:
    assert "logprob_token_ids_state" in source(f"{GPU}.sample.sampler", "__call__")
    assert "logprob_token_ids_state" not in source(f"{GPU}.spec_decode.rejection_sampler")


def test_the_thinking_marks_of_inkling_are_still_unknown() -> None:
    text = source("vllm.reasoning.inkling_reasoning_parser")
    assert "reasoning_start_str" not in text
    assert "reasoning_end_str" not in text


def test_positions_before_the_prompt_are_still_drafted_over() -> None:
    """The gap of rejected tokens is not bounded by what lies before it."""
    text = source(f"{GPU}.spec_decode.multi_module_mtp.speculator", "_prepare_input_buffers_kernel")
    assert "num_reprefill_tokens = max(0, num_rejected - 1)" in text
    assert "first_position - num_reprefill_tokens + i" in text
    assert text.count("first_position") == 2


def test_positions_before_the_prompt_have_no_slot() -> None:
    table = SimpleNamespace(gpu=torch.tensor([[5, 6]], dtype=torch.int32))
    tables: Any = SimpleNamespace(
        cp_size=1, slot_mappings=torch.zeros(1, 6, dtype=torch.int64), block_tables=[table], block_sizes=[4],
        _slot_mapping_enabled=[True],
    )  # fmt: skip
    slots = blocks.compute_slot_mappings(tables, torch.tensor([0]), torch.tensor([0, 5]), torch.arange(-2, 3), 6)
    assert slots.tolist() == [[-1, -1, 20, 21, 22, -1]]


def test_rows_before_the_prompt_are_no_taps() -> None:
    """Four rows at positions -2 to 1: the last two convolve as if nothing were before them."""
    values, weight = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)), torch.full((6, 4), 0.5)
    values[:2] = torch.nan
    out = sconv.convolve(
        values, weight, torch.full((3, 1, 4, 6), torch.nan), 0, 6, torch.arange(-2, 2), torch.tensor([[1]]),
        torch.zeros(4, dtype=torch.int64), torch.tensor([-1, -1, 4, 5]), torch.zeros(4, dtype=torch.int64),
    )  # fmt: skip
    torch.testing.assert_close(out[2], values[2] * 1.5)
    torch.testing.assert_close(out[3], values[3] * 1.5 + values[2] * 0.5)


def test_kept_inputs_still_stay_where_they_are() -> None:
    """The window is written from its end; nothing moves the rest."""
    text = source(f"{GPU}.spec_decode.multi_module_mtp.speculator", "_cache_inputs_kernel")
    assert "cache_write_slot = i - window_start" in text
    assert text.count("tl.store(cached_draft_input_ids_ptr") == 1


def test_kept_inputs_move_along() -> None:
    """A window of three inputs over steps of 5, 1, 2 and 4 rows holds the last three positions each time."""
    steps, window = 4, torch.zeros(2, 3, dtype=torch.int64)
    hidden = torch.zeros(2, 3, 2)
    first = 0
    for rows in (5, 1, 2, 4):
        places = torch.arange(first, first + rows)
        given = SimpleNamespace(input_ids=places.int() + 100, positions=places, query_start_loc=torch.tensor([0, rows]))
        upstream.cache_inputs(
            given, None, places[:, None].expand(-1, 2).float(), window, None, hidden, torch.tensor([rows - 1]), torch.tensor([1]),
            1, steps, False,
        )  # fmt: skip
        first += rows
        assert window[1].tolist() == [first + 97, first + 98, first + 99]
        assert hidden[1, :, 0].tolist() == [first - 3, first - 2, first - 1]
    assert not window[0].any()


def test_another_request_in_the_same_slot_starts_afresh() -> None:
    window, hidden = torch.full((1, 3), 7), torch.zeros(1, 3, 2)
    for first, rows in ((90, 4), (0, 1)):
        places = torch.arange(first, first + rows)
        given = SimpleNamespace(input_ids=places.int(), positions=places, query_start_loc=torch.tensor([0, rows]))
        upstream.cache_inputs(
            given, None, torch.zeros(rows, 2), window, None, hidden, torch.tensor([rows - 1]), torch.tensor([0]), 1, 4, False
        )
    assert window[0, -1] == 0


def test_the_remedies_are_in_place() -> None:
    assert runner.replacements()[f"{GPU}.spec_decode.multi_module_mtp.speculator:cache_inputs"] is upstream.cache_inputs
    wanted = list(inspect.signature(upstream.cache_inputs).parameters)
    text = source(f"{GPU}.spec_decode.multi_module_mtp.speculator", "cache_inputs")
    assert [name for name in wanted if f"{name}:" in text] == wanted


@pytest.mark.parametrize("row", ["engine/kernel/limits.py", "engine/cpu/upstream.py", "engine/cpu/sconv.py"])
def test_the_page_names_every_place(row: str) -> None:
    assert row in (Path(__file__).parents[2] / "docs" / "upstream.md").read_text("utf-8")
