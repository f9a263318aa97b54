"""The plan of a recipe: does it fit, how long a context, how many at once, how fast at most.

Arithmetic only; nothing is loaded and no GPU is needed. What the numbers rest on stands in ``assumptions`` and is printed with
them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..errors import BadRequest
from ..inkling import ModelShape
from ..inkling.cache import check_ranks
from ..recipes import Hardware, Recipe
from . import memory as memory_module
from . import speed as speed_module
from .hardware import Gpu, gpu
from .memory import Memory, memory_of
from .settings import Settings, settings_of, shape_of
from .speed import Speed, speed_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a recipe can do on its hardware.

    Attributes
    ----------
    fits : bool
        Weights and the asked requests fit, whole.
    reasons : tuple of str
        Why not; empty when it fits.
    context_tokens, requests : int
        What was asked for.
    longest_context_tokens : int
        Of one request, at most the recipe's limit and the model's; 0 when the weights alone do not fit.
    requests_that_fit : int
        At the asked context.
    speed : Speed or None
        None on a CPU: measured there, not modelled.
    """

    recipe: str
    model: str
    hardware: Hardware | None
    gpu: Gpu | None
    shape: ModelShape
    settings: Settings
    fits: bool
    reasons: tuple[str, ...]
    context_tokens: int
    requests: int
    longest_context_tokens: int
    requests_that_fit: int
    memory: Memory
    speed: Speed | None
    published: dict[str, float]
    assumptions: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        from .show import plan_json

        return plan_json(self)

    def __str__(self) -> str:
        from .show import plan_text

        return plan_text(self)


def plan(
    recipe: Recipe,
    *,
    context_tokens: int | None = None,
    requests: int = 1,
    gpu_name: str | None = None,
    gpu_count: int | None = None,
) -> Plan:
    """Plan a recipe.

    Parameters
    ----------
    context_tokens : int, optional
        Prompt and answer together; default: the recipe's own limit.
    requests : int
        So many such contexts at once.
    gpu_name, gpu_count : optional
        Other hardware than the recipe's; the tensor-parallel size follows the count.

    Raises
    ------
    BadRequest
        Something asked for makes no sense; the message says what is allowed.
    """
    shape = shape_of(recipe)
    hardware = _hardware(recipe, gpu_name, gpu_count)
    if hardware is not None and (gpu_name or gpu_count):
        changes: dict[str, Any] = {"tensor-parallel-size": hardware.count}
        if gpu_name and gpu_name != (recipe.hardware.gpu if recipe.hardware else None):
            # A size that was chosen for one kind of accelerator says nothing about another.
            recipe = replace(recipe, args={name: value for name, value in recipe.args.items() if name != "kv-cache-memory-bytes"})
        recipe = recipe.with_args(changes)
    settings = settings_of(recipe, shape)
    check_ranks(shape, settings.ranks)
    context = _context(context_tokens, settings, shape)
    if requests < 1:
        raise BadRequest(f"requests is {requests}: ask for at least one", requests=requests)
    device = gpu(hardware.gpu) if hardware else None
    published = recipe.published.get("checkpoint_bytes")
    memory = memory_of(
        shape, settings, context_tokens=context, requests=requests, total_bytes=device.memory_bytes if device else None,
        published_bytes=int(published) if published else None,
    )  # fmt: skip
    held = memory.layout.blocks(context, settings.in_flight_tokens).total()
    need, have = _standing(memory, settings)
    loaded = need <= have
    reasons = _reasons(memory, settings, held * requests, context, requests)
    most = max(context, min(settings.context_tokens, shape.context))
    return Plan(
        recipe=recipe.name, model=recipe.model, hardware=hardware, gpu=device, shape=shape, settings=settings,
        reasons=tuple(reasons), fits=not reasons,
        context_tokens=context, requests=requests,
        longest_context_tokens=memory.layout.longest_context(memory.pool_blocks, settings.in_flight_tokens, most=most) if loaded
        else 0, requests_that_fit=max(0, memory.pool_blocks - 1) // held if loaded else 0, memory=memory,
        speed=speed_of(shape, settings, device, context_tokens=context) if device else None, published=dict(recipe.published),
        assumptions=_assumptions(recipe, settings, device),
    )  # fmt: skip


def _hardware(recipe: Recipe, name: str | None, count: int | None) -> Hardware | None:
    if recipe.hardware is None:
        if name or count:
            raise BadRequest(f"recipe {recipe.name!r} is for a CPU: --gpu and --gpus do not apply", recipe=recipe.name)
        return None
    if count is not None and count < 1:
        raise BadRequest(f"{count} GPUs: ask for at least one", gpus=count)
    return replace(recipe.hardware, gpu=name or recipe.hardware.gpu, count=count or recipe.hardware.count)


def _context(asked: int | None, settings: Settings, shape: ModelShape) -> int:
    if asked is None:
        return settings.context_tokens
    if not 1 <= asked <= shape.context:
        raise BadRequest(f"a context of {asked:,} tokens: this model takes 1 to {shape.context:,}", context_tokens=asked)
    return asked


def _standing(memory: Memory, settings: Settings) -> tuple[float, float]:
    """Bytes per GPU that a start takes whatever is asked, and those it may take; on a CPU the recipe's cache is the only bound."""
    if memory.total_bytes is None:
        return 0.0, 0.0
    fixed = memory.weights_bytes + memory.activations_bytes + memory.graphs_bytes
    # An explicit cache size goes beyond the fraction: then the whole memory is the bound.
    return fixed + (settings.pool_bytes or 0), memory.total_bytes * (1 if settings.pool_bytes else settings.utilization)


def _reasons(memory: Memory, settings: Settings, blocks: int, context: int, requests: int) -> list[str]:
    need, have = _standing(memory, settings)
    if need > have:
        what = "weights, working memory and the recipe's cache" if settings.pool_bytes else "weights and working memory alone"
        return [f"{what} take {need / 1e9:.1f} GB per GPU, {have / 1e9:.1f} GB may be used"]
    if blocks > memory.pool_blocks - 1:
        longest = memory.layout.longest_context(memory.pool_blocks, settings.in_flight_tokens, most=context)
        asked = f"{context:,} tokens" if requests == 1 else f"{requests} requests of {context:,} tokens"
        return [
            f"{asked} need {blocks * memory.layout.block_bytes / 1e9:.1f} GB of cache per GPU, "
            f"{memory.pool_bytes / 1e9:.1f} GB are left: cap the context at {longest:,}"
            if longest else f"not even one token's cache fits the {memory.pool_bytes / 1e9:.1f} GB that are left"
        ]  # fmt: skip
    return []


def _assumptions(recipe: Recipe, settings: Settings, device: Gpu | None) -> tuple[str, ...]:
    found = [*memory_module.ASSUMED] if device else [memory_module.ASSUMED[0]]
    found.append(
        f"cache: blocks of {settings.block_tokens} tokens, {settings.cache_bytes} bytes a value; steps of up to "
        f"{settings.batched_tokens:,} tokens, {settings.in_flight_tokens:,} in flight, which sliding layers and convolutions keep "
        f"room for"
    )
    if device:
        found.append(f"{device.name}: {device.memory_bytes / 1e9:.0f} GB and rates from the {device.source}")
        found += speed_module.ASSUMED
        if settings.drafts and not recipe.model.startswith("demo"):
            found.append("draft blocks slide and have no norm between them: their part of the published config has not been read")
    if recipe.published.get("checkpoint_bytes"):
        found.append(
            f"checkpoint: {recipe.published['checkpoint_bytes'] / 1e9:.0f} GB as published; beyond the known tensors: 'other'"
        )
    return tuple(found)
