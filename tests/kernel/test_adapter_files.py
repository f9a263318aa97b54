"""Adapter folders: every way to be a bad one, and both spellings becoming the same matrices. No engine runs here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.errors import AdapterRefused
from engine.kernel.adapter_files import CONFIG, WEIGHTS, check_folder, write_for_vllm
from engine.kernel.adapter_names import Sizes
from tests.cpu.adapter_files import Adapter, random_adapter, shared_adapter, write_adapter
from tests.cpu.conftest import TINY

LIMIT = 8


@pytest.fixture(scope="module")
def sizes() -> Sizes:
    from vllm.models.inkling.configs import InklingModelConfig

    text = dict(TINY.config()["text_config"])
    # As vLLM's own config reads the checkpoint's.
    return Sizes.of(InklingModelConfig(**text | {"vocab_size": 200_058, "padded_vocab_size": 201_024}))


@pytest.fixture(scope="module")
def whole() -> Adapter:
    return random_adapter(TINY, seed=1, rank=4, alpha=6.0)


def delta(adapter: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    """What an adapter file adds to a module's matrix; scaling is one."""
    at = f"base_model.model.{name}"
    return adapter[f"{at}.lora_B.weight"] @ adapter[f"{at}.lora_A.weight"]


def test_a_whole_adapter_keeps_every_product(tmp_path: Path, sizes: Sizes, whole: Adapter) -> None:
    checked = check_folder(write_adapter(tmp_path / "mine", whole), sizes, max_rank=LIMIT)
    assert (checked.rank, checked.modules) == (4, len(whole.pairs))
    assert checked.parts == ("attention", "experts", "shared experts", "dense MLP", "head")
    write_for_vllm(checked, tmp_path / "copy")
    written = load_file(tmp_path / "copy" / WEIGHTS)
    config = json.loads((tmp_path / "copy" / CONFIG).read_text())
    assert config["r"] == config["lora_alpha"]
    head_a, head_b = whole.pairs["model.llm.unembed"]
    torch.testing.assert_close(written["base_model.model.model.llm.unembed.lora_A.weight"], head_a)
    torch.testing.assert_close(written["base_model.model.model.llm.unembed.lora_B.weight"], whole.scaling * head_b)
    for name, (a, b) in whole.pairs.items():
        if name == "model.llm.unembed":
            continue  # its product is the size of the vocabulary
        torch.testing.assert_close(delta(written, name), whole.scaling * (b @ a), atol=1e-5, rtol=0)


@pytest.mark.parametrize("rs", [False, True])
def test_scaling_follows_pefts_rules(tmp_path: Path, sizes: Sizes, rs: bool) -> None:
    adapter = random_adapter(TINY, seed=2, rank=4, alpha=6.0, parts=["output"])
    patterns = {"rank_pattern": {}, "alpha_pattern": {r"layers\.2\.attn\.wo_ud": 10}, "use_rslora": rs}
    checked = check_folder(write_adapter(tmp_path / "mine", adapter, **patterns), sizes, max_rank=LIMIT)
    for layer in range(TINY.layers):
        name, alpha = f"model.llm.layers.{layer}.attn.wo_ud", 10 if layer == 2 else 6
        (a, b), (raw_a, raw_b) = checked.matrices.pairs[name], adapter.pairs[name]
        torch.testing.assert_close(b @ a, alpha / (2 if rs else 4) * (raw_b @ raw_a), atol=1e-5, rtol=0)


def stacked(parts: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    """PEFT's layout of one pair per expert: A expert by expert, B's columns rank by rank."""
    return torch.cat([a for a, _ in parts]), torch.stack([b for _, b in parts], dim=-1).flatten(1)


def transformers_spelling(rank: int, *, halves: int | None = None) -> Adapter:
    """An adapter as PEFT saves one of transformers' Inkling: layer 0 dense, layer 1 with experts."""
    draw = torch.Generator().manual_seed(4)

    def pair(inner: int, outer: int, rank: int = rank) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(rank, inner, generator=draw), torch.randn(outer, rank, generator=draw)

    s, adapter = TINY, Adapter(rank, float(rank))
    at = "model.language_model.layers"
    adapter.pairs = {
        f"{at}.0.self_attn.q_proj": pair(s.hidden, s.heads * s.head_dim), f"{at}.1.self_attn.o_proj": pair(64, s.hidden),
        f"{at}.0.mlp.gate_proj": pair(s.hidden, s.dense_width), f"{at}.0.mlp.up_proj": pair(s.hidden, s.dense_width),
        f"{at}.0.mlp.down_proj": pair(s.dense_width, s.hidden), "lm_head": pair(s.hidden, 201_024),
        f"{at}.1.mlp.experts.base_layer": stacked([pair(s.hidden, 2 * s.expert_width) for _ in range(s.experts)]),
        f"{at}.1.mlp.experts": stacked([pair(s.expert_width, s.hidden) for _ in range(s.experts)]),
        f"{at}.1.mlp.shared_experts.base_layer.base_layer": stacked([pair(s.hidden, s.expert_width) for _ in range(s.sinks)]),
        f"{at}.1.mlp.shared_experts.base_layer": stacked([pair(s.hidden, s.expert_width) for _ in range(s.sinks)]),
        f"{at}.1.mlp.shared_experts": stacked([pair(s.expert_width, s.hidden) for _ in range(s.sinks)]),
    }  # fmt: skip
    return adapter


TARGETS = {
    "target_parameters": [
        "mlp.experts.gate_up_proj", "mlp.experts.down_proj", "shared_experts.gate_proj", "shared_experts.up_proj",
        "shared_experts.down_proj",
    ]
}  # fmt: skip


def expert_deltas(pair: tuple[torch.Tensor, torch.Tensor], count: int) -> torch.Tensor:
    """Products per expert by PEFT's own formula: ``einsum("o r e, e r i -> e o i")``."""
    a, b = pair
    return torch.einsum("ore,eri->eoi", b.reshape(len(b), -1, count), a.reshape(count, -1, a.shape[1]))


def test_transformers_spelling_becomes_the_original_one(tmp_path: Path, sizes: Sizes) -> None:
    adapter, s, at = transformers_spelling(3), TINY, "model.llm.layers"
    checked = check_folder(write_adapter(tmp_path / "mine", adapter, **TARGETS), sizes, max_rank=LIMIT)
    made = {name: b @ a for name, (a, b) in checked.matrices.pairs.items()}
    given = {name.replace("model.language_model.layers.", ""): b @ a for name, (a, b) in adapter.pairs.items()}
    same = {"0.self_attn.q_proj": f"{at}.0.attn.wq_du", "1.self_attn.o_proj": f"{at}.1.attn.wo_ud",
            "0.mlp.down_proj": f"{at}.0.mlp.w2_md", "lm_head": "model.llm.unembed"}  # fmt: skip
    for theirs, ours in same.items():
        torch.testing.assert_close(made[ours], given[theirs])
    torch.testing.assert_close(made[f"{at}.0.mlp.w13_dn"][0::2], given["0.mlp.gate_proj"])
    torch.testing.assert_close(made[f"{at}.0.mlp.w13_dn"][1::2], given["0.mlp.up_proj"])
    pairs = {name.replace("model.language_model.layers.1.mlp.", ""): pair for name, pair in adapter.pairs.items()}
    gate_up, down = expert_deltas(pairs["experts.base_layer"], s.experts), expert_deltas(pairs["experts"], s.experts)
    for expert in range(s.experts):
        found = {name: made[f"{at}.1.mlp.experts.{expert}.{name}_proj"] for name in ("gate", "up", "down")}
        torch.testing.assert_close(torch.cat([found["gate"], found["up"]]), gate_up[expert])
        torch.testing.assert_close(found["down"], down[expert])
    for ours, theirs in {"w1": "base_layer.base_layer", "w3": "base_layer"}.items():
        products = expert_deltas(pairs[f"shared_experts.{theirs}"], s.sinks)
        torch.testing.assert_close(made[f"{at}.1.mlp.sink_experts.{ours}"], products.flatten(0, 1))
    products = expert_deltas(pairs["shared_experts"], s.sinks)
    torch.testing.assert_close(made[f"{at}.1.mlp.sink_experts.w2"], torch.cat(list(products), dim=1))


def test_shared_experts_matrices_become_single_ones(tmp_path: Path, sizes: Sizes) -> None:
    adapter = shared_adapter(TINY, seed=6)
    pairs = check_folder(write_adapter(tmp_path / "mine", adapter), sizes, max_rank=LIMIT).matrices.pairs
    assert len(pairs) == 3 * 3 * TINY.experts
    for name, projection in {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}.items():
        a, b = adapter.pairs[f"model.llm.layers.3.mlp.experts.{name}"]
        for expert, product in enumerate((b @ a).expand(TINY.experts, -1, -1)):
            one, other = pairs[f"model.llm.layers.3.mlp.experts.{expert}.{projection}"]
            torch.testing.assert_close(other @ one, product)


def test_an_engine_of_shared_matrices_takes_them_as_they_are(tmp_path: Path, sizes: Sizes) -> None:
    adapter = shared_adapter(TINY, seed=6, layers=[1], names=["w2"])
    checked = check_folder(write_adapter(tmp_path / "mine", adapter), sizes, max_rank=LIMIT, shared_experts=True)
    at = "model.llm.layers.1.mlp.experts"
    assert checked.matrices.pairs[f"{at}.w2"][0].equal(adapter.pairs[f"{at}.w2"][0])
    assert [tuple(t.shape) for t in checked.matrices.pairs[f"{at}.w1"]] == [
        (1, 1, TINY.hidden),
        (TINY.experts, TINY.expert_width, 1),
    ]
    single = write_adapter(tmp_path / "single", random_adapter(TINY, seed=3, parts=["experts"]))
    with pytest.raises(AdapterRefused, match="single experts, this engine was started for shared"):
        check_folder(single, sizes, max_rank=LIMIT, shared_experts=True)


def test_stacks_of_another_size_are_refused(tmp_path: Path, sizes: Sizes) -> None:
    adapter = shared_adapter(TINY, seed=6, layers=[1], names=["w1"])
    a, b = adapter.pairs["model.llm.layers.1.mlp.experts.w1"]
    adapter.pairs["model.llm.layers.1.mlp.experts.w1"] = a, b[:3]
    with pytest.raises(AdapterRefused, match=r"takes A \[1, r, 64\] and B \[8, 32, r\]"):
        check_folder(write_adapter(tmp_path / "mine", adapter), sizes, max_rank=LIMIT)


def test_pefts_copy_of_the_models_own_matrix_is_passed_over(tmp_path: Path, sizes: Sizes) -> None:
    def check(rows: int) -> int:
        folder = write_adapter(tmp_path / f"with-{rows}", random_adapter(TINY, seed=5, parts=["output"]))
        edited(lambda t: t.update({"base_model.model.lm_head.base_layer.weight": torch.zeros(rows, 1)}))(folder)
        return check_folder(folder, sizes, max_rank=LIMIT).modules

    assert check(sizes.padded_vocabulary) == TINY.layers
    with pytest.raises(AdapterRefused, match="extended vocabulary"):
        check(sizes.padded_vocabulary + 1)


def test_two_halves_of_the_dense_mlp_need_their_ranks_sum(tmp_path: Path, sizes: Sizes) -> None:
    folder = write_adapter(tmp_path / "mine", transformers_spelling(5), **TARGETS)
    with pytest.raises(AdapterRefused, match="rank is 10 as vLLM holds it, this engine takes 8") as caught:
        check_folder(folder, sizes, max_rank=LIMIT)
    assert caught.value.detail["rank"] == 10


def test_experts_that_are_left_alone_get_zeros(tmp_path: Path, sizes: Sizes) -> None:
    adapter = random_adapter(TINY, seed=3, rank=2, parts=["experts"])
    name = "model.llm.layers.2.mlp.experts.5.up_proj"
    adapter.pairs = {name: adapter.pairs[name]}
    pairs = check_folder(write_adapter(tmp_path / "mine", adapter), sizes, max_rank=LIMIT).matrices.pairs
    assert len(pairs) == 3 * TINY.experts
    assert [key for key, (a, b) in pairs.items() if (b @ a).any()] == [name]


def edited(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        change(tensors)
        save_file(tensors, folder / WEIGHTS)

    return edit


def configured(**values: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / CONFIG
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return edit


Q = "base_model.model.model.llm.layers.0.attn.wq_du"
BAD = {
    "no config": (lambda folder: (folder / CONFIG).unlink(), f"it has no {CONFIG}"),
    "no json": (lambda folder: (folder / CONFIG).write_text("{"), "is not JSON"),
    "a list": (lambda folder: (folder / CONFIG).write_text("[]"), "not a JSON object"),
    "no rank": (lambda folder: (folder / CONFIG).write_text('{"lora_alpha": 1}'), "Missing required"),
    "a rank that is no number": (configured(r="four"), CONFIG),
    "huge config": (lambda folder: (folder / CONFIG).write_text(" " * (1 << 21)), "over 1,048,576 bytes"),
    "another method": (configured(peft_type="IA3"), "type IA3"),
    "dora": (configured(use_dora=True), "DoRA"),
    "bias": (configured(bias="all"), "bias"),
    "saved modules": (configured(modules_to_save=["lm_head"]), "modules_to_save"),
    "another rank": (configured(r=3), "its config says rank 3"),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), f"it has no {WEIGHTS}"),
    "pickle": (lambda folder: (folder / WEIGHTS).rename(folder / "adapter_model.bin"), "is not opened"),
    "not safetensors": (lambda folder: (folder / WEIGHTS).write_bytes(b"PK\x03\x04 not at all"), "not a safetensors file"),
    "cut short": (lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-9]), "not a safetensors file"),
    "nothing inside": (lambda folder: save_file({}, folder / WEIGHTS), "holds no tensors"),
    "half a pair": (edited(lambda t: t.pop(f"{Q}.lora_B.weight")), "only lora_A"),
    "wrong input": (edited(lambda t: t.update({f"{Q}.lora_A.weight": torch.ones(4, 63)})), r"A is \[4, 63\].*takes A \[r, 64\]"),
    "wrong output": (edited(lambda t: t.update({f"{Q}.lora_B.weight": torch.ones(65, 4)})), r"B \[64, r\]"),
    "ranks differ": (edited(lambda t: t.update({f"{Q}.lora_B.weight": torch.ones(64, 3)})), "A has 4 rows and B 3 columns"),
    "a vector": (edited(lambda t: t.update({f"{Q}.lora_A.weight": torch.ones(64)})), "wanted a matrix"),
    "integers": (edited(lambda t: t.update({f"{Q}.lora_A.weight": torch.ones(4, 64, dtype=torch.int32)})), "it is int32"),
    "not a number": (edited(lambda t: t[f"{Q}.lora_A.weight"].fill_(torch.nan)), "finite"),
    "strange key": (edited(lambda t: t.update({"hello": torch.ones(1, 1)})), "not the name of an adapter's matrix"),
}
UNKNOWN = {
    "model.llm.layers.9.attn.wq_du": "layers 0 to 3", "model.llm.layers.1.mlp.experts.8.up_proj": "experts 0 to 7",
    "model.llm.layers.1.mlp.gate": "no adapter can change that", "model.mtp.layers.0.attn.wq_du": "layers of the language model",
    "model.llm.layers.1.mlp.w13_dn": "layer 1 has experts", "model.llm.layers.0.mlp.experts.0.up_proj": "layer 0 has a dense MLP",
    "model.llm.embed": "and its head", "model.language_model.layers.1.mlp.experts": "target_parameters",
    "model.language_model.layers.0.self_attn.q_proj": "the same as",
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_adapter_says_what_is_wrong_with_it(tmp_path: Path, sizes: Sizes, case: str) -> None:
    spoil, says = BAD[case]
    folder = write_adapter(tmp_path / "mine", random_adapter(TINY, seed=5, parts=["qkvr"]))
    spoil(folder)
    with pytest.raises(AdapterRefused, match=says) as caught:
        check_folder(folder, sizes, max_rank=LIMIT)
    assert caught.value.message.startswith("adapter 'mine' cannot be loaded: ")


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_module_that_cannot_be_adapted_is_named_with_the_reason(tmp_path: Path, sizes: Sizes, name: str) -> None:
    adapter = random_adapter(TINY, seed=5, parts=["qkvr"])
    adapter.pairs[name] = torch.ones(4, 64), torch.ones(64, 4)
    with pytest.raises(AdapterRefused, match=UNKNOWN[name]) as caught:
        check_folder(write_adapter(tmp_path / "mine", adapter), sizes, max_rank=LIMIT)
    assert name in caught.value.message


def test_many_problems_are_counted(tmp_path: Path, sizes: Sizes) -> None:
    adapter = Adapter(
        1, 1.0, {f"model.llm.layers.{layer}.attn.nothing": (torch.ones(1, 64), torch.ones(64, 1)) for layer in range(4)}
    )
    with pytest.raises(AdapterRefused, match="and 1 more"):
        check_folder(write_adapter(tmp_path / "mine", adapter), sizes, max_rank=LIMIT)


def test_keys_and_values_are_refused_where_vllm_cannot_shard_them(tmp_path: Path, sizes: Sizes) -> None:
    folder = write_adapter(tmp_path / "mine", random_adapter(TINY, seed=5, parts=["qkvr"]))
    with pytest.raises(AdapterRefused, match="more ranks than key/value heads"):
        check_folder(folder, sizes, max_rank=LIMIT, sharded_kv=True)


def test_the_id_is_the_content(tmp_path: Path, sizes: Sizes) -> None:
    folders = [
        write_adapter(tmp_path / f"n{i}", random_adapter(TINY, seed=seed, parts=["output"])) for i, seed in enumerate((1, 1, 2))
    ]
    first, again, other = (check_folder(folder, sizes, max_rank=LIMIT).id for folder in folders)
    assert first == again != other


def test_sizes_are_vllms_own() -> None:
    """On the config class that vLLM reads the checkpoint with, not on ours."""
    config = SimpleNamespace(
        local_layer_ids=[0], num_hidden_layers=2, hidden_size=10, dense_mlp_idx=1, dense_intermediate_size=20, n_routed_experts=3,
        intermediate_size=5, n_shared_experts=2, vocab_size=90, padded_vocab_size=96, num_attention_heads=4, num_key_value_heads=1,
        head_dim=6, swa_num_attention_heads=2, swa_num_key_value_heads=2, swa_head_dim=3, d_rel=7,
    )  # fmt: skip
    sizes = Sizes.of(config)
    assert sizes.below(0)["attn.wq_du"] == (10, 6)
    assert sizes.below(1)["attn.wk_dv"] == (10, 6)
    assert sizes.below(1)["attn.wr_du"] == (10, 28)
    assert sizes.below(1)["mlp.sink_experts.w2"] == (10, 10)
    assert sizes.below(0)["mlp.w13_dn"] == (10, 40)
