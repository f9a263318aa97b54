"""The runner's torch kernels against independent formulas, and the replacing of vLLM's names."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import engine.cpu
from engine.cpu import batch, blocks, constraints, features, logprobs, model, penalties, replacing, runner, sampling
from engine.errors import KernelMoved


def murmur3(data: bytes, seed: int = 0) -> int:
    """MurmurHash3 x86 32 of whole words, from its public description."""
    h = seed
    for at in range(0, len(data), 4):
        k = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 & 0xFFFFFFFF
        k = (k << 15 | k >> 17) & 0xFFFFFFFF
        h ^= k * 0x1B873593 & 0xFFFFFFFF
        h = ((h << 13 | h >> 19) & 0xFFFFFFFF) * 5 + 0xE6546B64 & 0xFFFFFFFF
    h ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ h >> shift) * factor & 0xFFFFFFFF
    return h ^ h >> 16


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_noise_is_murmur3_of_seed_position_and_token(seed: int, position: int, token: int) -> None:
    data = b"".join(value.to_bytes(size, "little") for value, size in ((seed, 8), (position, 4), (token, 4)))
    ids = np.array([token], np.uint32)
    assert sampling.hash32(seed, position, ids)[0] == murmur3(data)
    uniform = (murmur3(data) + 0.5) * 2.0**-32
    # float32 logarithms; near u = 1 the kernel itself clamps.
    if uniform < 0.999:
        found = float(sampling.gumbel_noise(seed, position, ids)[0])
        assert math.isclose(found, -math.log(-math.log1p(-uniform)), rel_tol=2e-5, abs_tol=2e-5)


def draw(logits: torch.Tensor, heat: float, seed: int) -> int:
    rows = logits[None].clone()
    best, value = torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, 2)
    sampling.gumbel_sample(
        best, 2, value, 2, None, 0, 0, None, None, 0, rows, len(logits), torch.tensor([0]), torch.tensor([seed]),
        torch.tensor([5]), torch.tensor([heat]), len(logits), 1024, False, False, False, False,
    )  # fmt: skip
    return int(best.gather(1, value.argmax(1, keepdim=True)))


def test_sampling_follows_the_distribution() -> None:
    """2,000 draws: each share within four standard deviations (a chance of 1 in 4,000 to fail for one fixed set of seeds)."""
    logits = torch.tensor([1.0, 0.0, -torch.inf, 2.0, -1.0])
    shares = np.bincount([draw(logits, 1.0, seed) for seed in range(2000)], minlength=5) / 2000
    wanted = logits.softmax(0).numpy()
    assert shares[2] == 0
    assert (np.abs(shares - wanted) <= 4 * np.sqrt(wanted * (1 - wanted) / 2000)).all()
    assert draw(logits, 0.0, 1) == 3


def test_temperature_and_min_p() -> None:
    logits = torch.tensor([[1.0, 2.0, 4.0]] * 3)
    rows = torch.tensor([2, 0, 1])
    sampling.temperature(logits, 3, rows, torch.tensor([0.0, 2.0, 1.0]), 3, 1024)
    assert logits.tolist() == [[1, 2, 4], [1, 2, 4], [0.5, 1, 2]]
    sampling.min_p(logits, 3, rows, torch.tensor([0.0, math.exp(-1.2), 0.5]), 3, 1024)
    assert logits.isneginf().tolist() == [[True, True, False], [False] * 3, [True, False, False]]


def test_logprobs_and_ranks() -> None:
    logits = torch.randn(40, 500, generator=torch.Generator().manual_seed(0)) * 5
    ids = logits.topk(3).indices
    out, rank = torch.zeros(40, 3), torch.zeros(40, dtype=torch.int64)
    logprobs.topk_log_softmax(out, logits, 500, ids, 3, 3, 500, 1024, 4)
    torch.testing.assert_close(out.double(), logits.double().log_softmax(-1).gather(1, ids), atol=1e-5, rtol=0)
    logprobs.ranks(rank, logits, 500, ids[:, 2].contiguous(), 500, 8192)
    assert rank.tolist() == [3] * 40
    logprobs.ranks(rank, torch.zeros(40, 500), 500, ids[:, 0].contiguous(), 500, 8192)
    assert rank.tolist() == [500] * 40


@settings(deadline=None)
@given(
    prompt=st.lists(st.integers(0, 39), min_size=1, max_size=20),
    output=st.lists(st.integers(0, 39), max_size=10),
    drafted=st.lists(st.integers(0, 39), max_size=3),
    repetition=st.sampled_from([1.0, 1.7, 0.6]),
    frequency=st.sampled_from([0.0, 0.9, -0.4]),
    presence=st.sampled_from([0.0, 1.1]),
)
def test_penalties(prompt, output, drafted, repetition, frequency, presence) -> None:
    vocabulary = 40
    tokens = torch.zeros(2, 64, dtype=torch.int32)
    tokens[1, : len(prompt) + len(output)] = torch.tensor(prompt + output)
    seen, counts = torch.zeros(2, 2, dtype=torch.int32), torch.zeros(2, vocabulary, dtype=torch.int32)
    lengths = torch.tensor([0, len(prompt)]), torch.tensor([0, len(prompt) + len(output)])
    penalties.bincount(torch.tensor([1]), tokens, 64, *lengths, seen, 2, counts, vocabulary, 1024)
    rows = len(drafted) + 1
    logits = torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(3))
    wanted = logits.double().numpy()
    for row in range(rows):
        said = np.bincount(np.array(output + drafted[:row], int), minlength=vocabulary)
        known = (said > 0) | np.isin(np.arange(vocabulary), prompt)
        line = wanted[row]
        line[known] = np.where(line[known] > 0, line[known] / repetition, line[known] * repetition)
        line -= frequency * said + presence * (said > 0)
    penalties.penalties(
        logits, vocabulary, torch.ones(rows, dtype=torch.int64), torch.tensor([0, *drafted]), torch.arange(rows),
        torch.tensor([1.0, repetition]), torch.tensor([0.0, frequency]), torch.tensor([0.0, presence]), seen, 2, counts,
        vocabulary, vocabulary, 8192,
    )  # fmt: skip
    np.testing.assert_allclose(logits.numpy(), wanted, atol=1e-5)


def test_grammar_mask_forbids_cleared_bits() -> None:
    allowed = np.zeros(64, np.uint8)
    allowed[[3, 31, 32, 40]] = 1
    mask = torch.from_numpy(np.packbits(allowed, bitorder="little").view(np.int32))[None]
    logits = torch.zeros(3, 50)
    constraints.grammar_bitmask(logits, 50, torch.tensor([1 * 4 + 1]), torch.tensor([0, 1, 3]), mask, 2, 50, 4, 8192)
    assert logits[2].isfinite().nonzero()[:, 0].tolist() == [3, 31, 32, 40]
    assert logits[:2].isfinite().all()


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), min_size=1, max_size=4), st.sampled_from([1, 4, 16]))
def test_positions_slots_and_expansion(requests: list[tuple[int, int]], page: int) -> None:
    """Requests with `done` tokens advance by `new`; tables of two groups, one of which has no slots."""
    count, total = len(requests), sum(new for _, new in requests)
    mapping = torch.arange(count - 1, -1, -1)
    bounds = torch.tensor([0, *np.cumsum([new for _, new in requests])])
    done = torch.zeros(8, dtype=torch.int32)
    done[mapping] = torch.tensor([past for past, _ in requests], dtype=torch.int32)
    positions, lengths = torch.zeros(total + 3, dtype=torch.int64), torch.full((8,), 9, dtype=torch.int32)
    batch.prepare_pos_seq_lens(positions, lengths, mapping, bounds, done, 8, 1024)
    assert positions[:total].tolist() == [past + place for past, new in requests for place in range(new)]
    assert lengths.tolist() == [past + new for past, new in requests] + [0] * (8 - count)

    table = SimpleNamespace(gpu=torch.arange(8 * 64, dtype=torch.int32).view(8, 64) + 1)
    tables = SimpleNamespace(
        cp_size=1, slot_mappings=torch.zeros(2, total + 5, dtype=torch.int64), block_tables=[table, table],
        block_sizes=[page, page], _slot_mapping_enabled=[True, False],
    )  # fmt: skip
    slots = blocks.compute_slot_mappings(tables, mapping, bounds, positions, total + 2)
    wanted = [
        int(table.gpu[state, place // page]) * page + place % page
        for state, (past, new) in zip(mapping.tolist(), requests, strict=True)
        for place in range(past, past + new)
    ]
    assert slots.tolist() == [[*wanted, -1, -1], [-1] * (total + 2)]

    expanded, local = torch.zeros(total, dtype=torch.int64), torch.zeros(total, dtype=torch.int32)
    batch.expand_idx_mapping(mapping, expanded, local, bounds, 16)
    assert expanded.tolist() == [state for state, (_, new) in zip(mapping.tolist(), requests, strict=True) for _ in range(new)]
    assert local.tolist() == [place for _, new in requests for place in range(new)]


def test_sampled_tokens_are_appended() -> None:
    tokens, last, total = torch.zeros(3, 10, dtype=torch.int32), torch.zeros(3, 1, dtype=torch.int64), torch.tensor([0, 4, 2])
    computed, counts = torch.tensor([0, 3, 2]), torch.zeros(3, 20, dtype=torch.int32)
    batch.post_update(
        torch.tensor([1, -1, 2]), computed, last, counts, 20, torch.tensor([[7, 7], [9, 9], [5, 6]]), 2, torch.tensor([2, 1, 0]),
        torch.tensor([1, 0, 0]), torch.tensor([0, 3, 4, 6]), tokens, 10, total, num_warps=1,
    )  # fmt: skip
    assert (tokens[1, 4:6].tolist(), last[1].item(), total.tolist()) == ([7, 7], 7, [0, 6, 2])
    assert (computed.tolist(), counts[1, 7].item(), counts.sum().item()) == ([0, 5, 4], 2, 2)


def test_every_replaced_name_is_in_this_vllm() -> None:
    for name in [*model.replacements(), *runner.replacements(), *(":".join(k.rsplit(".", 1)) for k in runner.kernels())]:
        replacing.lookup(name)


def test_a_moved_name_is_named_and_nothing_is_replaced() -> None:
    table = {"engine.cpu.norms:rmsnorm": None, "vllm.models.inkling.nvidia.ops.norm:gone_norm": None}
    with pytest.raises(KernelMoved, match=r"ops\.norm:gone_norm is not in vLLM 0\.32"):
        replacing.replace(table, rebind_in="engine.cpu")
    from engine.cpu.norms import rmsnorm

    assert rmsnorm is not None


def test_another_vllm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import vllm

    monkeypatch.setattr(vllm, "__version__", "0.33.0")
    with pytest.raises(KernelMoved, match=r"0\.33\.0"):
        engine.cpu.register()


def test_the_plugin_is_inert_with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(replacing, "replace", lambda *args, **kwargs: pytest.fail("replaced a kernel"))
    engine.cpu.register()
    engine.cpu.install()
    assert engine.cpu.unsupported_fields() == {}
    assert engine.cpu.refused_option({"pipeline_parallel_size": 2}, {"pipeline_parallel_size": 1}) is None


def test_other_models_keep_vllms_own_runner() -> None:
    engine.cpu.register()
    import vllm.config.vllm as config

    asked = SimpleNamespace(architectures=["LlamaForCausalLM"])
    seen = []
    engine.cpu._as_with_triton(config, SimpleNamespace(model_config=asked), lambda _: seen.append(config.HAS_TRITON))
    asked.architectures = ["InklingForConditionalGeneration"]
    engine.cpu._as_with_triton(config, SimpleNamespace(model_config=asked), lambda _: seen.append(config.HAS_TRITON))
    assert seen == [False, True]
    assert config.HAS_TRITON is False


def test_refusals_carry_a_reason() -> None:
    assert all(engine.cpu.unsupported_fields().values())
    for name in features.ENGINE:
        refused = engine.cpu.refused_option({name: 2}, {name: 1})
        assert refused is not None
        assert refused == (name, features.ENGINE[name])
        assert engine.cpu.refused_option({name: 1}, {name: 1}) is None


def test_another_runner_is_never_chosen_without_a_word() -> None:
    """A feature that the V2 runner lacks is an error that names it, not a quiet fall to the older runner."""
    engine.cpu.register()
    import vllm.config.vllm as config

    asked = SimpleNamespace(
        model_config=SimpleNamespace(architectures=["InklingForConditionalGeneration"]),
        attention_config=SimpleNamespace(hisparse_config=None), watermark_config=None,
        _get_v2_model_runner_unsupported_features=lambda: ["time travel"],
    )  # fmt: skip
    with pytest.raises(ValueError, match="time travel"):
        config.VllmConfig.use_v2_model_runner.fget(asked)
    asked._get_v2_model_runner_unsupported_features = list
    assert config.VllmConfig.use_v2_model_runner.fget(asked)
