"""Shared by the tests of the torch kernels: checkpoints, engines that ran once per configuration, and transformers as oracle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import engine.demo
from engine.demo.checkpoint import write_checkpoint
from engine.demo.random_weights import random_tensors
from engine.demo.shape import Shape
from tests.cpu.scenarios import ONE_PROCESS

TINY = Shape(
    hidden=64, layers=4, global_every=2, heads=4, head_dim=16, kv_heads=2, local_kv_heads=4, d_rel=8, window=32, extent=48,
    dense_width=96, experts=8, experts_per_token=3, expert_width=32, route_scale=1.5, mup=2.0, log_floor=100, log_alpha=0.3,
    context=65_536, draft_layers=0,
)  # fmt: skip
"""A small Inkling whose sizes differ from one another wherever they may: other heads per layer kind, d_rel, scales, extents."""

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "base": {"dtype": "float32", "block_size": 16},
    "block8": {"dtype": "float32", "block_size": 8},
    "block32": {"dtype": "float32", "block_size": 32},
    "block128": {"dtype": "float32", "block_size": 128},
    "bf16": {"dtype": "bfloat16", "block_size": 16},
    "tp2": {"dtype": "float32", "block_size": 16, "tensor_parallel_size": 2},
    "tp2-capture": {"dtype": "float32", "block_size": 16, "tensor_parallel_size": 2},
    "changed": {"dtype": "float32", "block_size": 16},
    "changed-tp2": {"dtype": "float32", "block_size": 16, "tensor_parallel_size": 2},
}
ALL = ["text", "image", "audio", "splits", "prefixes", "together", "sampled", "constrained", "capture"]
SCENARIOS = {
    "base": ALL, "changed": ["intervened"], "changed-tp2": ["intervened"], "tp2": ["text", "image", "together"],
    "tp2-capture": ["capture"],
}  # fmt: skip
OTHERWISE = ["text", "splits", "prefixes", "together"]


@pytest.fixture(scope="session")
def demo_folder() -> Path:
    """The demo checkpoint, from the cache of this test run."""
    return engine.demo.unpack()


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of :data:`TINY`."""
    folder = tmp_path_factory.mktemp("tiny") / "checkpoint"
    return write_checkpoint(folder, TINY, lambda: random_tensors(TINY, 3), revision="tiny", random_weights=True)


@pytest.fixture(scope="session")
def oracle(tiny_folder: Path) -> Any:
    """transformers' Inkling with the weights of `tiny_folder`, in float32."""
    import torch
    from transformers import InklingForConditionalGeneration

    return InklingForConditionalGeneration.from_pretrained(tiny_folder, dtype=torch.float32).eval()


@pytest.fixture(scope="session")
def ran(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """What an engine of the named configuration said in its scenarios; each configuration runs once, in its own process."""
    known: dict[str, dict[str, Any]] = {}

    def run(name: str) -> dict[str, Any]:
        if name not in known:
            folder = tmp_path_factory.mktemp(f"run-{name}")
            known[name] = run_scenarios(name, tiny_folder, CONFIGURATIONS[name], SCENARIOS.get(name, OTHERWISE), folder)
        return known[name]

    return run


def run_scenarios(name: str, model: Path, arguments: dict[str, Any], scenarios: list[str], folder: Path) -> dict[str, Any]:
    """What an engine with `arguments` on `model` said in `scenarios`; a process of its own."""
    parallel = arguments.get("tensor_parallel_size", 1) > 1
    # With workers of their own, a function that a scenario sends them is pickled: from this test's process to its children.
    environment = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_ALLOW_INSECURE_SERIALIZATION": "1"} if parallel else {}
    if not parallel or "capture" in scenarios:
        # The scheduler is told how to split a prompt and, for a capture, how much of it may come from the cache.
        environment |= ONE_PROCESS
    settings = {
        "model": str(model), "engine": arguments, "environment": environment, "folder": str(folder), "scenarios": scenarios,
    }  # fmt: skip
    (folder / "settings.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "tests.cpu.scenarios", str(folder / "settings.json"), str(folder / "results.json")],
        cwd=Path(__file__).parents[2], env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=900,
        check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.fail(f"the engine of configuration {name} failed:\n{done.stderr[-6000:]}")
    return json.loads((folder / "results.json").read_text()) | {"folder": str(folder)}
