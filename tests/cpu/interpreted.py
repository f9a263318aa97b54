"""Run the V2 runner's own Triton kernels in Triton's interpreter, beside our torch functions, on the same random inputs.

``python -m tests.cpu.interpreted <vocabulary> <results.json>`` with Triton importable and ``TRITON_INTERPRET=1``: a process of its
own, because vLLM decides at import whether there is a Triton. Every case calls one of vLLM's launchers twice, with its kernels and
with ours; the results name each tensor that came out and how far the two are apart. No expectation is held here.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

GPU = "vllm.v1.worker.gpu"


@dataclass(frozen=True)
class Case:
    """One launcher of vLLM's: `run` calls it on what `make` built, and returns what came out beside the changed inputs.

    `kernels` are names below ``vllm.v1.worker.gpu``; with `whole` they name functions or methods that we replace whole.
    """

    name: str
    kernels: tuple[str, ...]
    make: Callable[[np.random.Generator, int], dict[str, Any]]
    run: Callable[..., Any]
    whole: bool = False


def pretend_backend() -> None:
    """Let vLLM take Triton for usable without a GPU, and lend the interpreter what the kernels take for granted.

    Masks of comparisons with loaded integers reach the interpreter as integers, which it refuses; two device functions are missing.
    """
    import triton.backends

    triton.backends.backends["cpu"] = SimpleNamespace(driver=SimpleNamespace(is_active=lambda: True), compiler=None)
    import triton.language as tl
    from triton.language.extra import libdevice
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    def log1p(x: Any) -> Any:
        return tl.tensor(TensorHandle(np.log1p(x.handle.data), x.handle.dtype), x.type)

    libdevice.log1p, libdevice.isnan = log1p, lambda x: x != x
    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store

    def as_bool(mask: Any) -> Any:
        return mask if mask.data.dtype == bool else TensorHandle(mask.data.astype(bool), tl.int1)

    InterpreterBuilder.create_masked_load = lambda self, ptrs, mask, *rest: load(self, ptrs, as_bool(mask), *rest)
    InterpreterBuilder.create_masked_store = lambda self, ptrs, value, mask, *rest: store(self, ptrs, value, as_bool(mask), *rest)


def distance(left: Any, right: Any) -> float:
    """Largest difference of two results; infinite where shapes or integers differ."""
    import torch

    if isinstance(left, torch.Tensor):
        if left.shape != right.shape:
            return float("inf")
        if not left.is_floating_point():
            return 0.0 if torch.equal(left, right) else float("inf")
        same = (left == right) | (left.isnan() & right.isnan())
        gap = (left.double() - right.double()).abs()[~same]
        scale = right.double().abs().clamp(min=1)[~same]
        return float((gap / scale).nan_to_num(nan=torch.inf).max()) if len(gap) else 0.0
    if isinstance(left, np.ndarray):
        return distance(torch.from_numpy(left), torch.from_numpy(right))
    return 0.0 if left == right else float("inf")


def flat(value: Any, name: str, found: dict[str, Any]) -> dict[str, Any]:
    """Tensors, arrays and numbers within `value` by a path."""
    import torch

    if isinstance(value, torch.Tensor | np.ndarray | int | float):
        found[name] = value
    elif isinstance(value, dict):
        for key, item in value.items():
            flat(item, f"{name}.{key}", found)
    elif isinstance(value, tuple | list):
        for key, item in enumerate(value):
            flat(item, f"{name}.{key}", found)
    elif is_dataclass(value) and not isinstance(value, type):
        for item in fields(value):
            flat(getattr(value, item.name), f"{name}.{item.name}", found)
    elif isinstance(value, SimpleNamespace):
        flat(vars(value), name, found)
    return found


def compare(case: Case, vocabulary: int, ours: dict[str, Any]) -> dict[str, float]:
    """How far each tensor of the case is apart, vLLM's kernels against ours."""
    results = []
    for replaced in (False, True):
        undo = replace(case, ours) if replaced else []
        given = case.make(np.random.default_rng(11), vocabulary)
        out = case.run(**given)
        results.append(flat({"in": given, "out": out}, "", {}))
        for holder, attribute, original in undo:
            setattr(holder, attribute, original)
    left, right = results
    if left.keys() != right.keys():
        return {"names": float("inf")}
    return {name: distance(left[name], right[name]) for name in left}


def replace(case: Case, ours: dict[str, Any]) -> list[tuple[Any, str, Any]]:
    """Put ours in the place of the case's kernels; what to set back."""
    from vllm.triton_utils.dispatcher import KernelOverride

    undo = []
    for name in case.kernels:
        module, attribute = name.rsplit(":" if case.whole else ".", 1)
        holder: Any = importlib.import_module(f"{GPU}.{module}")
        *owner, attribute = attribute.split(".")
        holder = getattr(holder, owner[0]) if owner else holder
        original = getattr(holder, attribute)
        undo.append((holder, attribute, original))
        own = ours[f"{GPU}.{name}"]
        setattr(holder, attribute, own if case.whole else KernelOverride(original, own))
    return undo


def main(vocabulary: str, results_path: str) -> None:
    """Compare every case at a vocabulary size."""
    pretend_backend()
    import vllm.v1.worker.cpu.shm  # noqa: F401  vLLM's preparation of torch for a CPU worker
    from vllm.triton_utils import HAS_TRITON

    assert HAS_TRITON, "vLLM did not take the interpreter for a Triton"
    from engine.cpu import runner

    from . import draft_cases, kernel_cases

    ours = runner.kernels() | runner.replacements()
    cases = [*kernel_cases.CASES, *draft_cases.CASES]
    results = {}
    for case in cases:
        try:
            apart = compare(case, int(vocabulary), ours)
        except Exception as problem:  # one case that cannot run must not hide the others
            apart = {f"{type(problem).__name__}: {problem}": float("inf")}
        results[case.name] = {"kernels": case.kernels, "apart": apart}
    Path(results_path).write_text(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
