"""What a recipe's options mean for memory and speed: vLLM's names to numbers, with vLLM's own defaults where a recipe is silent."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import BadRequest
from ..inkling import ModelShape, published, published_names
from ..recipes import DRAFTING, Recipe
from .adapters import Adapters

VALUE_BYTES = {"auto": 2, "bfloat16": 2, "half": 2, "float16": 2, "float32": 4, "float": 4, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A recipe in numbers.

    Attributes
    ----------
    batched_tokens : int
        Most tokens of one step.
    in_flight_tokens : int
        Tokens of all steps that overlap: sliding layers keep room for them.
    pool_bytes : int or None
        Cache size, where the recipe sets it outright.
    utilization : float
        Share of a GPU's memory that vLLM may take, 0 to 1.
    adapters : Adapters
        Room that is set aside for them.
    retention_tokens : int
        Distance of the prefix cache's resume points; 0 keeps only the last one.
    """

    context_tokens: int
    ranks: int
    block_tokens: int
    batched_tokens: int
    in_flight_tokens: int
    sequences: int
    drafts: int
    value_bytes: int
    cache_bytes: int
    utilization: float
    pool_bytes: int | None
    retention_tokens: int
    adapters: Adapters = field(default_factory=Adapters)


def settings_of(recipe: Recipe, shape: ModelShape) -> Settings:
    """The numbers in a recipe's options.

    Raises
    ------
    BadRequest
        An option has a value the planner cannot read.
    """
    args = recipe.args
    drafts = _whole(_speculative(args), "num_speculative_tokens", 0, least=0)
    batched = _whole(args, "max-num-batched-tokens", 8192)
    value_bytes = _bytes(args, "dtype", "auto")
    kept = _bytes(args, "kv-cache-dtype", "auto") if str(args.get("kv-cache-dtype", "auto")) != "auto" else value_bytes
    return Settings(
        context_tokens=_whole(args, "max-model-len", shape.context), ranks=_whole(args, "tensor-parallel-size", 1),
        block_tokens=_whole(args, "block-size", 16), batched_tokens=batched,
        # On GPUs vLLM prepares a step while another runs, unless the recipe says otherwise; on a CPU it does not.
        in_flight_tokens=batched * (1 if recipe.hardware is None or args.get("async-scheduling") is False else 2),
        sequences=_whole(args, "max-num-seqs", 256),
        drafts=min(drafts, shape.draft_layers), value_bytes=value_bytes, cache_bytes=kept,
        utilization=_share(args, "gpu-memory-utilization", 0.92), pool_bytes=_pool(recipe),
        retention_tokens=_whole(args, "prefix-cache-retention-interval", 0, least=0), adapters=_adapters(args),
    )  # fmt: skip


def shape_of(recipe: Recipe) -> ModelShape:
    """Sizes of a recipe's checkpoint: from its folder, or as published under its name.

    Raises
    ------
    BadRequest
        Neither a folder with a config nor a known name.
    """
    if recipe.model.startswith("demo"):
        from ..demo import shape_named

        return ModelShape.from_config(shape_named(recipe.model).config(), name=recipe.model)
    if Path(recipe.model).is_dir():
        return ModelShape.from_folder(Path(recipe.model))
    if (known := published(recipe.model)) is not None:
        return known
    raise BadRequest(
        f"recipe {recipe.name!r}: {recipe.model!r} is no folder here and not one of {', '.join(published_names())}: the planner "
        "needs the checkpoint's config.json", recipe=recipe.name, model=recipe.model,
    )  # fmt: skip


def _speculative(args: dict[str, Any]) -> dict[str, Any]:
    """How a recipe drafts: one table, and on top of it vLLM's dotted spelling, ``speculative-config.num_speculative_tokens``."""
    whole = args.get(DRAFTING) or {}
    if isinstance(whole, str):
        try:
            whole = json.loads(whole)
        except ValueError:
            whole = None
    if not isinstance(whole, dict):
        raise BadRequest(f"the recipe's {DRAFTING} is {args[DRAFTING]!r}: the planner wants a table", option=DRAFTING)
    dotted = {name.partition(".")[2].replace("-", "_"): value for name, value in args.items() if name.startswith(f"{DRAFTING}.")}
    return whole | dotted


def _adapters(args: dict[str, Any]) -> Adapters:
    if args.get("enable-lora") is not True:
        return Adapters()
    return Adapters(
        slots=_whole(args, "max-loras", 1), rank=_whole(args, "max-lora-rank", 16),
        shared=args.get("enable-moe-shared-loras") is True,
    )  # fmt: skip


def _whole(args: dict[str, Any], name: str, default: int, *, least: int = 1) -> int:
    value = args.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadRequest(f"the recipe's {name} is {value!r}: the planner wants a whole number of at least {least}", option=name)
    return value


def _share(args: dict[str, Any], name: str, default: float) -> float:
    value = args.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise BadRequest(f"the recipe's {name} is {value!r}: the planner wants a share, above 0 and at most 1", option=name)
    return float(value)


def _pool(recipe: Recipe) -> int | None:
    """Bytes of the cache where the recipe sets them: outright, or on a CPU as whole GiB."""
    if "kv-cache-memory-bytes" in recipe.args:
        return _whole(recipe.args, "kv-cache-memory-bytes", 0)
    space = recipe.env.get("VLLM_CPU_KVCACHE_SPACE")
    if space is None:
        return None
    if not space.isdecimal():
        raise BadRequest(f"the recipe's VLLM_CPU_KVCACHE_SPACE is {space!r}: the planner wants whole GiB", option="env")
    return int(space) << 30


def _bytes(args: dict[str, Any], name: str, default: str) -> int:
    value = str(args.get(name, default))
    if value not in VALUE_BYTES:
        raise BadRequest(f"the recipe's {name} is {value!r}: the planner knows {', '.join(VALUE_BYTES)}", option=name)
    return VALUE_BYTES[value]
