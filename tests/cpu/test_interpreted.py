"""Every torch kernel of the runner against the Triton kernel it stands for, run by Triton's own interpreter.

Triton is not installed with the CPU engine: ``INKLING_TRITON`` names a folder that holds it, or it is importable. Without it the
comparison is skipped and says so; docs/runner.md tells how to get and run it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.cpu import runner
from engine.demo.shape import PADDED_VOCABULARY

from . import draft_cases, kernel_cases
from .interpreted import GPU

CLOSE = 2e-6
"""Relative: float32 sums over a vocabulary in another order, and logarithms of another library. Integers must be equal."""

CASES = [case.name for case in (*kernel_cases.CASES, *draft_cases.CASES)]
Compared = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Compared]:
    """Results of all cases at a vocabulary size; each size runs once, in a process that has Triton."""
    folder = os.environ.get("INKLING_TRITON")
    if folder is None and importlib.util.find_spec("triton") is None:
        pytest.skip("no Triton: set INKLING_TRITON to a folder with one (see docs/runner.md)")
    known: dict[int, Compared] = {}

    def run(vocabulary: int) -> Compared:
        if vocabulary not in known:
            results = tmp_path_factory.mktemp("interpreted") / "results.json"
            root = Path(__file__).parents[2]
            path = os.pathsep.join([str(root), *([folder] if folder else []), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
            done = subprocess.run(
                [sys.executable, "-m", "tests.cpu.interpreted", str(vocabulary), str(results)], cwd=root, capture_output=True,
                env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}, text=True, timeout=1500,
                check=False,
            )  # fmt: skip
            if done.returncode:
                pytest.fail(f"the interpreter's process failed:\n{done.stderr[-4000:]}")
            known[vocabulary] = json.loads(results.read_text())
        return known[vocabulary]

    return run


@pytest.mark.slow
@pytest.mark.parametrize("vocabulary", [300, PADDED_VOCABULARY])
@pytest.mark.parametrize("name", CASES)
def test_torch_says_what_triton_says(compared: Callable[[int], Compared], vocabulary: int, name: str) -> None:
    apart = compared(vocabulary)[name]["apart"]
    assert apart, "nothing came out"
    assert {key: value for key, value in apart.items() if value > CLOSE} == {}


def test_every_replaced_kernel_has_a_case() -> None:
    tried = {f"{GPU}.{name}" for case in (*kernel_cases.CASES, *draft_cases.CASES) for name in case.kernels}
    constants = {name for name, ours in runner.replacements().items() if not callable(ours)}
    remedies = {name for name, ours in runner.replacements().items() if getattr(ours, "__module__", "") == "engine.cpu.upstream"}
    assert tried == (runner.kernels().keys() | runner.replacements().keys()) - constants - remedies


@pytest.mark.parametrize("case", [*kernel_cases.CASES, *draft_cases.CASES], ids=lambda case: case.name)
def test_inputs_are_the_same_each_time(case: Any) -> None:
    """Both runs of a case must see one input; and what does not depend on the seed would test one situation only."""
    import numpy as np

    from .interpreted import distance, flat

    first, again = (flat(case.make(np.random.default_rng(11), 300), "", {}) for _ in range(2))
    assert all(distance(first[name], again[name]) == 0 for name in first)
