"""What would go wrong after the weights are loaded, or silently, is refused before: block size, ranks, GPUs, the model runner.

Pure functions of what was asked for and of what the machine has, so that they can be tried without either. Why each matters:

- A block size other than 16 can enlarge the page of the short convolutions, whose kernels go on indexing it by the number of taps:
  wrong words, no error (vLLM issue 51951).
- More ranks than key/value heads leave a rank without a whole one; vLLM says so with an assertion after minutes of loading.
- Kernels for Inkling exist for some compute capabilities only; others fail in the first step.
- vLLM falls back to the V1 runner with a warning when one of its settings is not supported by V2; drafts, captures and progress
  need V2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import BadRequest, EngineStartError
from ..inkling import ModelShape, published
from ..inkling.cache import cache_layout

VALUE_BYTES = {"float32": 4, "float": 4, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1}
VERIFIED_BLOCK_TOKENS = 16
RUNNER_ENV = "VLLM_USE_V2_MODEL_RUNNER"


def shape_of(model: str) -> ModelShape | None:
    """Sizes of the checkpoint that is to be loaded; None where only vLLM can find it."""
    if Path(model).is_dir():
        return ModelShape.from_folder(Path(model))
    return published(model)


def check_sizes(
    shape: ModelShape | None, *, block_tokens: int | None, ranks: int, dtype: str = "auto", cache_dtype: str = "auto",
    fixed_conv_pages: bool = True,
) -> None:  # fmt: skip
    """Refuse a block size or a number of ranks that Inkling cannot be run with.

    Parameters
    ----------
    fixed_conv_pages : bool
        vLLM's own kernels run, which take a convolution page for as many tokens as there are taps; the torch kernels ask the page.

    Raises
    ------
    EngineStartError
        With the reason and what is allowed.
    """
    if block_tokens != VERIFIED_BLOCK_TOKENS:
        given = "not set: vLLM's own default differs between machines" if block_tokens is None else str(block_tokens)
        raise EngineStartError(
            f"--block-size is {given}; set it to {VERIFIED_BLOCK_TOKENS}. Larger blocks enlarge the short convolutions' pages "
            "while their kernels index them by the number of taps: wrong answers without an error", block_tokens=block_tokens,
        )  # fmt: skip
    if shape is None:
        return
    values = VALUE_BYTES.get(dtype, 2)
    kept = VALUE_BYTES.get(cache_dtype, 2) if cache_dtype != "auto" else values
    try:
        layout = cache_layout(shape, ranks=ranks, block_tokens=block_tokens, value_bytes=kept, conv_bytes=values)
    except BadRequest as problem:
        raise EngineStartError(problem.message, **problem.detail) from problem
    if fixed_conv_pages and layout.conv_block_tokens != shape.conv_taps:
        raise EngineStartError(
            f"with these types and {ranks} ranks a short convolution's page would hold {layout.conv_block_tokens} tokens instead "
            f"of {shape.conv_taps}: its kernels would write into other layers' state. Use BF16 keys and values with BF16 weights",
            conv_block_tokens=layout.conv_block_tokens,
        )  # fmt: skip


def check_gpus(hardware: dict[str, Any] | None, capabilities: list[tuple[int, int]]) -> None:
    """Refuse a recipe for GPUs that are not there, or that Inkling's kernels do not run on.

    Parameters
    ----------
    hardware : dict or None
        ``gpu``, ``count`` and ``capability`` (major times ten plus minor) of the recipe; None for a CPU.
    capabilities : list of (int, int)
        Compute capability of every GPU this process sees.

    Raises
    ------
    EngineStartError
    """
    if not hardware:
        return
    wanted = f"{hardware['count']} × {hardware['gpu']}"
    if len(capabilities) < hardware["count"]:
        raise EngineStartError(
            f"this recipe is for {wanted}; {len(capabilities) or 'no'} GPUs are visible here: choose another recipe, or check "
            "CUDA_VISIBLE_DEVICES and the driver", wanted=hardware["count"], visible=len(capabilities),
        )  # fmt: skip
    allowed = set(hardware.get("capability") or ())
    for index, (major, minor) in enumerate(capabilities[: hardware["count"]]):
        if allowed and 10 * major + minor not in allowed:
            known = ", ".join(f"{one // 10}.{one % 10}" for one in sorted(allowed))
            raise EngineStartError(
                f"GPU {index} has compute capability {major}.{minor}; this recipe is for {wanted}, capability {known}. Inkling's "
                "attention in vLLM 0.32 has no kernels for consumer Blackwell (12.x) or Ampere "
                "(8.x)", capability=f"{major}.{minor}",
            )  # fmt: skip


def visible_capabilities() -> list[tuple[int, int]]:
    """Compute capabilities of the GPUs this process sees."""
    import torch

    return [torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count())]


def check_runner(config: Any) -> None:
    """Refuse to go on with the V1 runner."""
    if not config.use_v2_model_runner:
        raise EngineStartError(
            "vLLM chose its V1 model runner, which lacks what captures, progress and drafts need: an option of the recipe asks "
            "for a feature that V2 does not have; the log names it"
        )
