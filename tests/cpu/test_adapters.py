"""Adapters on the real engine say what transformers says with the same weights merged, alone, mixed, in pieces and from the cache.

Greedy tokens are equal and log-probabilities within 1e-5: both sides are float32 and differ in the order of sums only (the engine
adds ``B (A x)`` to ``W x``, the reference has ``W + B A``; seen: 7e-6 over four layers, where the model alone shows 4e-6). The
tokens of a prompt are random here, with log-probabilities of some -20: rounding grows with the number, so they get twice that.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine import adapter_options, recipes
from engine.cpu import lora
from engine.demo.checkpoint import write_checkpoint
from engine.demo.random_weights import random_tensors
from engine.demo.shape import VOCABULARY
from engine.kernel.adapter_files import check_folder, write_for_vllm
from engine.kernel.adapter_names import Sizes

from .adapter_files import PARTS, Adapter, merged, random_adapter, shared_adapter, write_adapter
from .conftest import TINY
from .scenarios import ONE_PROCESS
from .seen import Seen
from .test_captures import check_routing

CLOSE = 1e-5
NAMES = {"whole": PARTS, "attention": ("qkvr", "output"), "dense": ("dense",), "experts": ("experts",), "sinks": ("sinks",),
         "head": ("head",), "shared": ()}  # fmt: skip
ENGINE = {
    "dtype": "float32", "block_size": 16, "enable_lora": True, "max_lora_rank": 8, "max_loras": 4, "max_cpu_loras": len(NAMES),
}  # fmt: skip
CONFIGURATIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "base": (ENGINE, ["alone", "together", "prefixes", "looked", "sampled", "unloaded"]),
    "tp2": (ENGINE | {"tensor_parallel_size": 2}, ["alone", "prefixes"]),
    "shared": (ENGINE | {"enable_moe_shared_loras": True}, ["alone"]),
    "drafts": (ENGINE | {"speculative_config": {"method": "mtp", "num_speculative_tokens": 2}}, ["alone", "together", "prefixes"]),
}
Ran = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def adapters() -> dict[str, Adapter]:
    found = {name: random_adapter(TINY, seed=seed, rank=4, parts=parts) for seed, (name, parts) in enumerate(NAMES.items())}
    return found | {"shared": shared_adapter(TINY, seed=9)}


@pytest.fixture(scope="module")
def ran(tiny_folder: Path, adapters: dict[str, Adapter], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """What an engine of the named configuration said; each runs once, in its own process."""
    folder, known = tmp_path_factory.mktemp("adapters"), {}
    drafting = replace(TINY, draft_layers=2)  # the other weights are the same: each is drawn by its name
    sizes = Sizes.of(_text_config(tiny_folder))
    written = {name: write_adapter(folder / name, adapter) for name, adapter in adapters.items()}

    def copies(names: list[str], *, shared: bool) -> dict[str, str]:
        into = folder / ("shared copies" if shared else "copies")
        for name in names:
            write_for_vllm(check_folder(written[name], sizes, max_rank=8, shared_experts=shared), into / name)
        return {name: str(into / name) for name in names}

    def drafting_folder() -> Path:
        return write_checkpoint(
            folder / "drafting", drafting, lambda: random_tensors(drafting, 3), revision="drafting", random_weights=True
        )

    def run(name: str) -> dict[str, Any]:
        if name not in known:
            engine_args, scenarios = CONFIGURATIONS[name]
            parallel = engine_args.get("tensor_parallel_size", 1) > 1
            shared = engine_args.get("enable_moe_shared_loras", False)
            settings = {
                "model": str(drafting_folder() if "speculative_config" in engine_args else tiny_folder), "engine": engine_args,
                "folder": str(folder), "scenarios": scenarios,
                "adapters": copies(["attention", "shared"] if shared else list(adapters), shared=shared),
                "environment": adapter_options.SWITCHES | ({"VLLM_CPU_OMP_THREADS_BIND": "nobind"} if parallel else ONE_PROCESS),
            }  # fmt: skip
            given, results = folder / f"{name}.json", folder / f"{name}-results.json"
            given.write_text(json.dumps(settings))
            done = subprocess.run(
                [sys.executable, "-m", "tests.cpu.adapter_scenarios", str(given), str(results)], cwd=Path(__file__).parents[2],
                env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=280, check=False,
            )  # fmt: skip
            if done.returncode:
                pytest.fail(f"the engine of configuration {name} failed:\n{done.stderr[-6000:]}")
            known[name] = json.loads(results.read_text())
        return known[name]

    return run


@pytest.fixture(scope="module")
def reference(with_merged: Any) -> Any:
    """Log-probabilities by transformers with an adapter's weights merged: shape (t, vocabulary)."""

    def of(name: str, run: dict[str, Any]) -> np.ndarray:
        with torch.no_grad():
            logits = with_merged(name)(torch.tensor([run["prompt"] + run["ids"]])).logits[0]
        return logits[:, :VOCABULARY].float().log_softmax(-1).numpy()

    return of


@pytest.fixture(scope="module")
def with_merged(tiny_folder: Path, oracle: Any, adapters: dict[str, Adapter], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """transformers' Inkling with an adapter's weights merged, by name; "null" is the model alone."""
    from transformers import InklingForConditionalGeneration

    folder, weights = tmp_path_factory.mktemp("merged"), random_tensors(TINY, 3)
    models: dict[str, Any] = {"null": oracle}

    def model(name: str) -> Any:
        if name not in models:
            path = write_checkpoint(
                folder / name, TINY, lambda: merged(weights, adapters[name], TINY), revision=name, random_weights=True
            )
            models[name] = InklingForConditionalGeneration.from_pretrained(path, dtype=torch.float32).eval()
        return models[name]

    return model


def _text_config(folder: Path) -> Any:
    from vllm.transformers_utils.config import get_config

    return get_config(str(folder), trust_remote_code=False).get_text_config()


def check(run: dict[str, Any], expected: np.ndarray) -> None:
    rows = expected[len(run["prompt"]) - 1 : -1]
    assert rows.argmax(axis=1).tolist() == run["ids"]
    np.testing.assert_allclose(run["logprobs"], rows[np.arange(len(run["ids"])), run["ids"]], atol=CLOSE, rtol=0)
    if "prompt_logprobs" in run:
        wanted = expected[np.arange(len(run["prompt"]) - 1), run["prompt"][1:]]
        np.testing.assert_allclose([value for value, _ in run["prompt_logprobs"]], wanted, atol=2 * CLOSE, rtol=0)


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one["ids"] == other["ids"]
    np.testing.assert_allclose(one["logprobs"], other["logprobs"], atol=CLOSE, rtol=0)


@pytest.mark.parametrize(
    ("configuration", "name"),
    [*(("base", name) for name in ("null", *NAMES)),
     *(pytest.param("tp2", name, marks=pytest.mark.slow) for name in ("null", *NAMES)),
     *(pytest.param("drafts", name, marks=pytest.mark.slow) for name in ("null", "whole", "head")),
     *(pytest.param("shared", name, marks=pytest.mark.slow) for name in ("null", "attention", "shared"))],
)  # fmt: skip
def test_an_adapter_is_its_weights_merged(ran: Ran, reference: Any, configuration: str, name: str) -> None:
    run = ran(configuration)["alone"][name]
    check(run, reference(name, run))
    if name != "null":
        base = ran(configuration)["alone"]["null"]
        # The comparison means something: the adapter moved what it is compared on by far more than the tolerance.
        moved = np.array(run["prompt_logprobs"])[:, 0] - np.array(base["prompt_logprobs"])[:, 0]
        assert np.abs(moved).max() > 1000 * CLOSE


@pytest.mark.parametrize("name", ["whole", "head", "null"])
def test_captures_and_scores_are_the_adapters(ran: Ran, with_merged: Any, name: str) -> None:
    """Among requests with other adapters, in pieces: routing, stream, lens, attention and scores of the merged model."""
    run = ran("base")["looked"]
    found, model = run["None" if name == "null" else name], with_merged(name)
    seen = Seen(model, run["prompt"])
    for ended in found["ended"]:
        assert ended["problems"] == []
        assert all(once == asked > 0 for once, asked in ended["coverage"].values())
    arrays = {path.stem: np.load(path) for path in Path(found["folder"]).glob("*.npy")}
    check_routing(arrays, seen, [1, 2, 3])
    for layer in range(TINY.layers):
        for site, part in enumerate(("attention", "mlp")):
            np.testing.assert_allclose(arrays["residual.vector"][:, layer, site], seen.residual[layer, part], atol=1e-4)
        logprobs = seen.head(seen.residual[layer, "mlp"])
        np.testing.assert_allclose(arrays["residual.lens_logprob"][:, layer], -np.sort(-logprobs, axis=1)[:, :3], atol=1e-4)
    for column, layer in enumerate((1, 3)):
        np.testing.assert_allclose(arrays["attention.weight"][0, column], seen.weight[layer][:, -1], atol=1e-5)
    own = torch.from_numpy(seen.logits[:, :VOCABULARY]).log_softmax(-1).numpy()
    wanted = own[np.arange(59), run["prompt"][1:]]
    np.testing.assert_allclose(found["scores"], wanted, atol=2 * CLOSE, rtol=0)
    if name != "null":
        assert np.abs(np.array(found["scores"]) - run["None"]["scores"]).max() > 1000 * CLOSE


@pytest.mark.parametrize("configuration", ["base", pytest.param("drafts", marks=pytest.mark.slow)])
def test_adapters_and_the_model_alone_share_steps(ran: Ran, configuration: str) -> None:
    runs = ran(configuration)["together"]
    for one, plain in zip(runs["alone"], ran("base")["together"]["alone"], strict=True):
        same(one, plain)
    for how in ("pieces of 0", "pieces of 16"):
        for alone, beside in zip(runs["alone"], runs[how], strict=True):
            same(beside, alone)
    for alone, beside in zip(runs["prompts alone"], runs["prompts"], strict=True):
        found, wanted = np.array(beside["prompt_logprobs"]), np.array(alone["prompt_logprobs"])
        np.testing.assert_allclose(found[:, 0], wanted[:, 0], atol=2 * CLOSE, rtol=0)


@pytest.mark.parametrize("configuration", ["base", pytest.param("tp2", marks=pytest.mark.slow)])
def test_an_adapter_is_part_of_the_cache_key(ran: Ran, configuration: str) -> None:
    base, base_again, whole, whole_again, experts = ran(configuration)["prefixes"]
    assert [run["cached"] for run in (base, whole, experts)] == [0, 0, 0]
    assert min(base_again["cached"], whole_again["cached"]) >= 512
    same(base_again, base)
    same(whole_again, whole)
    assert base["ids"] != whole["ids"]


def test_padding_is_never_sampled(ran: Ran) -> None:
    drawn = {token for ids in ran("base")["sampled"] for token in ids}
    assert len(drawn) > 500
    assert max(drawn) < VOCABULARY


def test_unloading_leaves_the_others(ran: Ran) -> None:
    run = ran("base")["unloaded"]
    assert run["before"] == run["after"]
    assert len(run["left"]) == len(NAMES) - 1


# ---- the kernels by themselves ---------------------------------------------------------------------------------------------------


def test_rows_without_an_adapter_are_left_alone() -> None:
    draw = torch.Generator().manual_seed(0)
    x, slots = torch.randn(5, 6, generator=draw), torch.tensor([1, -1, 0, 1, -1])
    a, b = torch.randn(2, 1, 3, 6, generator=draw), torch.randn(2, 1, 7, 3, generator=draw)
    inner = torch.full((5, 3), 9.0)
    lora.shrink(x, a, inner, slots, 2.0)
    wanted = torch.stack([2 * a[s, 0] @ row if s >= 0 else torch.zeros(3) for s, row in zip(slots.tolist(), x, strict=True)])
    torch.testing.assert_close(inner, wanted)
    y = torch.ones(5, 9)
    lora.expand_slice(inner, b, y, slots, 2, 7)
    torch.testing.assert_close(y[:, 2:], 1 + torch.stack([b[max(s, 0), 0] @ row for s, row in zip(slots, inner, strict=True)]))
    assert y[:, :2].eq(1).all()
    assert y[[1, 4]].eq(1).all(), "a request without an adapter is not touched at all"


def test_rows_whose_adapter_is_not_known_are_refused() -> None:
    with pytest.raises(ValueError, match="3 rows and adapters of 2"):
        lora.shrink(torch.ones(3, 4), torch.ones(1, 1, 2, 4), torch.zeros(3, 2), torch.tensor([0, -1]))
    out = torch.zeros(3, 2)
    lora.shrink(torch.ones(3, 4), torch.ones(1, 1, 2, 4), out, torch.tensor([-1, -1]))
    assert out.eq(0).all()


def test_the_switches_stand_in_the_recipe() -> None:
    demo = recipes.load("demo")
    assert adapter_options.with_adapters(demo, []) is demo, "off by default: it costs"
    own = demo.with_args({"max_lora_rank": 64})
    changed = adapter_options.with_adapters(own, ["somewhere"])
    assert {"INKLING_MULTIMEM_AR": "0", "LAMPORT_RS_SCONV": "0"}.items() <= changed.env.items()
    assert (changed.args["enable-lora"], changed.args["max-lora-rank"]) == (True, 64)
    by_hand = adapter_options.with_adapters(demo.with_args({"enable_lora": True}), [])
    assert by_hand.env["LAMPORT_RS_SCONV"] == "0"


# ---- what vLLM does without them; each fails when vLLM mends it ------------------------------------------------------------------


def test_vllms_own_operations_take_the_last_adapter_for_none() -> None:
    from vllm.lora.ops.torch_ops import lora_ops

    spec = importlib.util.spec_from_file_location("untouched_lora_ops", lora_ops.__file__)
    assert spec is not None
    assert spec.loader is not None
    theirs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(theirs)
    out = torch.zeros(1, 2)
    theirs.bgmv_shrink(torch.ones(1, 4), torch.ones(3, 1, 2, 4), out, torch.tensor([-1]))
    assert out.any(), "mended: shrink and expand can go"


def test_vllm_forces_a_triton_kernel_on_experts_under_adapters() -> None:
    from vllm.model_executor.layers.fused_moe.oracle import unquantized

    source = inspect.getsource(unquantized.select_unquantized_moe_backend)
    asked = source.index("moe_config.is_lora_enabled")
    assert "is_cpu" not in source[:asked], "mended: apply_experts can go"
    assert unquantized.backend_to_kernel_cls(unquantized.UnquantizedMoeBackend.TRITON)[0].__name__ == "TritonExperts"
