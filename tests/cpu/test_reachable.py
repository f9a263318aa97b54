"""No Triton kernel of the V2 runner is left that Inkling could launch without a GPU: replaced, refused by name, or another model's.

The list is vLLM's own source: every function under the runner's packages that is decorated with ``triton.jit`` and launched on a
grid. A vLLM that adds a kernel fails here until somebody has decided what becomes of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from engine.cpu import features, runner
from engine.cpu.features import KERNELS_OF

RUNNER = "vllm.v1.worker.gpu"

WHOLE = {
    # Launched only by functions that we replace whole.
    "block_table._gather_block_tables_kernel": "block_table:BlockTables.gather_block_tables",
    "block_table._compute_slot_mappings_kernel": "block_table:BlockTables.compute_slot_mappings",
    "buffer_utils._apply_write_kernel": "buffer_utils:StagedWriteTensor.apply_write",
    "spec_decode.rejection_sampler_utils._compute_local_logits_stats_kernel": "spec_decode.rejection_sampler:rejection_sample",
    "spec_decode.rejection_sampler_utils._compute_cumulative_log_p_kernel": "spec_decode.rejection_sampler:rejection_sample",
    "spec_decode.rejection_sampler_utils._compute_local_residual_mass_kernel": "spec_decode.rejection_sampler:rejection_sample",
    "spec_decode.rejection_sampler_utils._rejection_kernel": "spec_decode.rejection_sampler:rejection_sample",
    "spec_decode.rejection_sampler_utils._resample_kernel": "spec_decode.rejection_sampler:rejection_sample",
    "spec_decode.rejection_sampler_utils._insert_resampled_kernel": "spec_decode.rejection_sampler:rejection_sample",
}

OTHER_MODELS = {
    "mm.rope": "rotary positions; Inkling has none",
    "model_states.mamba_hybrid": "Mamba layers",
    "model_states.recoverssm": "Mamba layers",
}


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any("triton.jit" in ast.unparse(item) for item in function.decorator_list)


def jit_kernels(package: str) -> Iterator[str]:
    """``module.function`` below `package` of every Triton function that its module launches."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        launched = {
            node.func.value.id for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript) and isinstance(node.func.value, ast.Name)
        }  # fmt: skip
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name in launched and _is_kernel(node):
                yield f"{module}.{node.name}"


def test_every_kernel_is_accounted_for() -> None:
    found = set(jit_kernels(RUNNER))
    assert len(found) > 50, "the list is read from vLLM's source and cannot be this short"
    replaced = {name.removeprefix(f"{RUNNER}.") for name in runner.kernels()}
    refused = {kernel for kernels in KERNELS_OF.values() for kernel in kernels}
    others = {name for name in found if name.rpartition(".")[0] in OTHER_MODELS}
    assert found - replaced - WHOLE.keys() - refused - others == set()
    # And nothing is listed that is gone, or twice.
    assert (replaced | WHOLE.keys() | refused) <= found
    assert not replaced & refused
    whole = {name.removeprefix(f"{RUNNER}.") for name in runner.replacements()}
    assert set(WHOLE.values()) <= whole


def test_features_without_kernels_are_refused() -> None:
    """By the check that every start goes through; a setting of drafting counts as one."""
    for name in KERNELS_OF:
        option, _, setting = name.partition(".")
        value = {"method": "mtp"} | {setting: "other"} if setting else 2
        refused = features.refused_option({option: value}, {option: None if setting else 1})
        assert refused is not None
        assert refused[0] == name
