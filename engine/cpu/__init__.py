"""Inkling on vLLM without a GPU: a vLLM plugin that puts torch operations in the place of Triton and CUDA kernels.

Two steps, because vLLM's processes need different things. :func:`register` is the plugin's entry point and runs in every vLLM
process: it lets Inkling use the V2 model runner, which vLLM ties to Triton. :func:`install` runs in the workers only (at the top of
the worker extension's module, see ``engine.kernel.worker``) and replaces kernels. Both do nothing where there is a GPU, and models
other than Inkling are left alone. vLLM is pinned: a private name that moved is an error at start that names it.

This package knows nothing of the engine kernel, of captures or of recipes. One file per family of kernels.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

__all__ = ["active", "install", "kernels", "refused_option", "register", "unsupported_fields"]


def active() -> bool:
    """Whether the torch kernels are in use on this machine: there is no GPU."""
    import torch

    return not torch.cuda.is_available()


def kernels() -> str:
    """What computes the model: ``torch``, ``torch, native attention (avx512)`` or, with a GPU, ``vllm``. Builds what is used."""
    if not active():
        return "vllm"
    from .native.kernel import loaded

    native = loaded()
    return f"torch, native attention ({native.set})" if native else "torch"


def register() -> None:
    """Entry point of the vLLM plugin: let Inkling choose the V2 model runner. Cheap, repeatable, inert where there is a GPU.

    Raises
    ------
    KernelMoved
        Another vLLM than the pinned one.
    """
    if not active():
        return
    from .replacing import lookup, tolerate_foreign_objects, vllm_version

    vllm_version()
    tolerate_foreign_objects()
    config, _, chooses = lookup("vllm.config.vllm:VllmConfig.use_v2_model_runner")
    _, _, validates = lookup("vllm.config.vllm:VllmConfig._validate_v2_model_runner")
    module, _, _ = lookup("vllm.config.vllm:HAS_TRITON")
    if getattr(validates, "without_triton", False):
        return

    def use_v2_model_runner(self: Any) -> bool:
        chosen = _as_with_triton(module, self, chooses.fget)
        if not chosen and _is_inkling(self) and not os.environ.get("VLLM_USE_V2_MODEL_RUNNER"):
            # vLLM would go on with its older runner and a line in the log; what was tested here is the one that GPUs use.
            missing = ", ".join(self._get_v2_model_runner_unsupported_features())
            raise ValueError(f"vLLM's V2 model runner, the only one Inkling is run on, does not support {missing}: leave it out")
        return chosen

    def _validate_v2_model_runner(self: Any) -> None:
        _as_with_triton(module, self, validates)

    _validate_v2_model_runner.without_triton = True  # type: ignore[attr-defined]
    config.use_v2_model_runner = property(use_v2_model_runner)
    config._validate_v2_model_runner = _validate_v2_model_runner


def install() -> None:
    """Replace the kernels of Inkling and of the V2 runner in a worker process; nothing where there is a GPU.

    Raises
    ------
    KernelMoved
        vLLM no longer has one of the names.
    """
    if not active():
        return
    from . import lora, model, runner
    from .replacing import vllm_version

    vllm_version()
    runner.install()
    model.install()
    lora.install()


def unsupported_fields() -> dict[str, str]:
    """Request fields that this machine's kernels cannot serve, with the reason: names of vLLM's sampling parameters.

    Empty where there is a GPU. An API refuses these before a request reaches a worker.
    """
    from .features import SAMPLING

    return dict(SAMPLING) if active() else {}


def refused_option(args: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first of vLLM's engine arguments that this machine's kernels cannot serve, and why; None with a GPU.

    Parameters
    ----------
    args, defaults : mapping
        Arguments as vLLM's parser gave them, and what it gives when nothing is said.
    """
    from . import features

    return features.refused_option(args, defaults) if active() else None


def _as_with_triton(module: Any, config: Any, ask: Any) -> Any:
    """What `ask` says of a config of Inkling if Triton were there: our kernels stand in for it. Other models get vLLM's answer."""
    if not _is_inkling(config):
        return ask(config)
    before = module.HAS_TRITON
    module.HAS_TRITON = True
    try:
        return ask(config)
    finally:
        module.HAS_TRITON = before


def _is_inkling(config: Any) -> bool:
    names = getattr(getattr(config, "model_config", None), "architectures", None) or []
    return any("Inkling" in name for name in names)
