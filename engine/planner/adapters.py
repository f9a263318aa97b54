"""Memory that vLLM sets aside for adapters: a pair of full rank for every module, for as many adapters as one step may mix.

Of each pair the matrix on a module's split side is split over ranks and the other is whole on every rank. Routed experts have a
pair of their own each, unless the engine shares their outer matrices. Source: shapes in vLLM 0.32 ``lora/layers``.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..inkling import ModelShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """What a recipe says of adapters; `slots` is 0 without them.

    Attributes
    ----------
    slots : int
        Adapters that one step may mix (``max-loras``).
    rank : int
        Largest rank (``max-lora-rank``).
    shared : bool
        Routed experts share their outer matrices.
    """

    slots: int = 0
    rank: int = 16
    shared: bool = False


def adapter_bytes(shape: ModelShape, adapters: Adapters, *, ranks: int, value_bytes: int) -> int:
    """Bytes of one rank's adapter matrices.

    Parameters
    ----------
    ranks : int
        Tensor-parallel ranks.
    value_bytes : int
        Of one value: the engine's type.
    """
    if not adapters.slots:
        return 0
    values = shape.hidden + shape.vocabulary_rows  # the head's pair
    for layer in range(shape.layers):
        local = layer in shape.local_layers
        heads = shape.local_heads if local else shape.heads
        kv_heads, width = shape.kv(local=local)
        # Queries, keys, values, relative parts: whole inside, split outside; the output projection the other way round.
        outer = heads * width + 2 * kv_heads * width + heads * shape.d_rel
        values += 4 * shape.hidden + outer // ranks + heads * width // ranks + shape.hidden
        if layer in shape.dense_layers:
            values += _mlp(shape.hidden, shape.dense_width // ranks, each=1, outer=1)
        else:
            outer_pairs = 1 if adapters.shared else shape.experts
            values += _mlp(shape.hidden, shape.expert_width // ranks, each=shape.experts, outer=outer_pairs)
            values += _mlp(shape.hidden, shape.sinks * shape.expert_width // ranks, each=1, outer=1)
    return adapters.slots * adapters.rank * values * value_bytes


def _mlp(hidden: int, width: int, *, each: int, outer: int) -> int:
    """Values per rank of the pairs of gate, up and down: three sides of `width`, and three of `hidden`, which may be shared."""
    return 3 * width * each + 3 * hidden * outer
