"""A capture of convolutions, attention and the residual stream made up from real shapes: every number is known.

Stands in for an engine where only the reading side is under test; shapes are those that the engine would write.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.protocol import Architecture, ArrayEntry, CaptureManifest, CapturePlan, Rendered
from engine.protocol.costs import entries, layers_of
from tests.fabricated_capture import rendered
from workbench.captures import Capture

SHAPE = Architecture(
    layers=6, global_layers=(5,), moe_layers=(1, 2, 3, 4, 5), experts=16, experts_per_token=2, sinks=2, hidden=8,
    vocabulary=200_058, heads=4, kv_heads=2, local_kv_heads=2, head_dim=4, window=32, extent=48, profiles=3, conv_taps=4,
    draft_layers=3,
)  # fmt: skip


def plan_of(**seams: Any) -> CapturePlan:
    """A plan of the given seams."""
    return CapturePlan(**seams)


def arrays_of(plan: CapturePlan, context: Rendered, seed: int = 0) -> dict[str, np.ndarray]:
    """Random arrays of a resolved plan; attention weights sum to 1."""
    random = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for part in entries(plan, SHAPE, len(context), spans=len(context.spans)).values():
        for name, (_, shape, dtype) in part.items():
            if np.dtype(dtype).kind == "f":
                found[name] = random.uniform(0.1, 1, shape).astype(np.float32)
            else:
                found[name] = random.integers(0, 16, shape).astype(dtype)
    for name in ("attention.weight", "attention.bucket_weight"):
        if name in found:
            found[name] /= found[name].sum(-1, keepdims=True)
    if "attention.key" in found:
        found["attention.weight"] *= 0.5
        found["attention.key"] = random.integers(0, len(context), found["attention.key"].shape).astype(np.int32)
    if "drafts.token" in found:
        found["drafts.token"], found["drafts.accepted"] = proposals(plan, context, random)
    if "sconv.by_tap" in found:
        found["sconv.term"] = found["sconv.by_tap"].sum(-1)
    return found


def proposals(plan: CapturePlan, context: Rendered, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Proposals of three heads, right for two of three tokens, and the verdicts that follow."""
    tokens = np.concatenate([np.arange(piece.start, piece.stop) for piece in plan.drafts.tokens])
    place = tokens[:, None] + 2 + np.arange(3)
    known = place < len(context)
    wanted = context.token_ids[np.minimum(place, len(context) - 1)].astype(np.int64)
    token = np.where(random.uniform(size=place.shape) < 0.67, wanted, wanted + 1)
    accepted = np.full(place.shape, -1)
    for row in range(len(place)):
        verdict = 1
        for column in range(3):
            verdict = verdict if verdict != 1 else int(token[row, column] == wanted[row, column]) if known[row, column] else -1
            accepted[row, column] = verdict
    return token.astype(np.int32), accepted.astype(np.int8)


def capture(
    plan: CapturePlan, context: Rendered | None = None, *, load: bool = True, seed: int = 0
) -> tuple[Capture, dict[str, np.ndarray]]:  # fmt: skip
    """A capture, and its arrays."""
    context = rendered() if context is None else context
    plan = plan.resolve(len(context))
    arrays = arrays_of(plan, context, seed)
    made = entries(plan, SHAPE, len(context), spans=len(context.spans))
    described = {
        name: ArrayEntry(dims=dims, shape=shape, dtype=dtype)
        for part in made.values()
        for name, (dims, shape, dtype) in part.items()
    }
    ranges = {
        name: [(piece.start, piece.stop) for piece in getattr(plan, name).tokens]
        for name in plan.seams()
        if [(piece.start, piece.stop) for piece in getattr(plan, name).tokens] != [(0, len(context))]
    }
    manifest = CaptureManifest(
        id="c-2", context=context.id, plan=plan.to_json(), tokens=len(context),
        arrays=described,
        layers={name: layers_of(SHAPE, name, getattr(getattr(plan, name), "layers", "all")) for name in plan.seams()},
        ranges=ranges,
        labels={"sconv.site": ["k", "v", "attention", "mlp"], "residual.site": ["attention", "mlp"]},
        edges=[span.start for span in context.spans], covered_tokens=len(context), complete=True,
        provenance={"model": "fabricated", "random_weights": True, "architecture": SHAPE.model_dump(mode="json")},
    )  # fmt: skip
    return Capture.from_reader(manifest, lambda name, where: arrays[name][where], context, load=load), arrays
