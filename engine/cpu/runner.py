"""What of vLLM's V2 model runner is replaced without a GPU, name by name, and installing it.

The runner, its scheduler and its states stay vLLM's own. Kernels go through vLLM's registry for platform implementations; four
methods that pass raw addresses to their kernels are replaced whole.
"""

from __future__ import annotations

from typing import Any

from . import (
    batch,
    blocks,
    constraints,
    drafts,
    drafts_single,
    logprobs,
    outcomes,
    penalties,
    rejection,
    sampling,
    thinking,
    upstream,
)
from .replacing import lookup, register, replace

_GPU = "vllm.v1.worker.gpu"


def kernels() -> dict[str, Any]:
    """Every Triton kernel that has a torch implementation here, by full name."""
    named = {f"input_batch.{name}": kernel for name, kernel in batch.KERNELS.items()}
    named |= {f"sample.{name}": kernel for name, kernel in sampling.KERNELS.items()}
    named |= {f"sample.penalties.{name}": kernel for name, kernel in penalties.KERNELS.items()}
    named |= {f"sample.thinking_budget.{name}": kernel for name, kernel in thinking.KERNELS.items()}
    named |= {f"spec_decode.rejection_sampler.{name}": kernel for name, kernel in rejection.KERNELS.items()}
    named |= {f"spec_decode.multi_module_mtp.speculator.{name}": kernel for name, kernel in drafts.KERNELS.items()}
    named |= {f"spec_decode.target_dependent_ar.speculator.{name}": kernel for name, kernel in drafts_single.KERNELS.items()}
    named |= logprobs.KERNELS | constraints.KERNELS | outcomes.KERNELS
    return {f"{_GPU}.{name}": kernel for name, kernel in named.items()}


def replacements() -> dict[str, Any]:
    """Every other name that is replaced, with what replaces it."""
    return {
        f"{_GPU}.buffer_utils:StagedWriteTensor.apply_write": blocks.apply_write,
        f"{_GPU}.buffer_utils:FusedStagedWriter.apply": blocks.apply_writes,
        f"{_GPU}.block_table:BlockTables.gather_block_tables": blocks.gather_block_tables,
        f"{_GPU}.block_table:BlockTables.compute_slot_mappings": blocks.compute_slot_mappings,
        f"{_GPU}.sample.prompt_logprob:CHUNK_SIZE": logprobs.PROMPT_ROWS,
        f"{_GPU}.spec_decode.rejection_sampler:rejection_sample": rejection.rejection_sample,
        f"{_GPU}.spec_decode.multi_module_mtp.speculator:cache_inputs": upstream.cache_inputs,
    }


def install() -> None:
    """Replace the runner's kernels in this process: a worker, after vLLM prepared it for the CPU and before the runner is built.

    Raises
    ------
    KernelMoved
        vLLM no longer has one of the names.
    """
    # vLLM's own preparation replaces torch calls that the modules below bind when they are imported.
    lookup("vllm.v1.worker.cpu_worker:CPUWorker")
    _, _, triton = lookup("vllm.triton_utils:triton")
    if not hasattr(triton, "next_power_of_2"):
        triton.next_power_of_2 = lambda n: 1 << max(0, n - 1).bit_length()
    replace(replacements(), rebind_in=f"{_GPU}.block_table")
    register(kernels())
