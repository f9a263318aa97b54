"""A capture as long as the model's window, with made-up numbers and real shapes: what the views are measured on.

Routing, convolutions at norms and taps, and pooled attention rows of a small model over any number of tokens. The numbers are
random; what is measured is how they travel and are drawn, which does not depend on them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from engine.protocol import (
    Architecture,
    ArrayEntry,
    AttentionPlan,
    AudioPlace,
    CaptureManifest,
    CapturePlan,
    ImagePlace,
    ImageRule,
    Rendered,
    Span,
    TextPlace,
)  # fmt: skip
from engine.protocol.costs import entries, layers_of

from ..captures import Capture
from ..lazy_arrays import ReadBlock

SHAPE = Architecture(
    layers=8, global_layers=(5,), moe_layers=(2, 3, 4, 5, 6, 7), experts=16, experts_per_token=2, sinks=2, hidden=64,
    vocabulary=200_058, heads=4, kv_heads=2, local_kv_heads=2, head_dim=16, window=512, extent=1024, profiles=8, conv_taps=4,
)  # fmt: skip
"""About the demo's: eight layers."""

PAGE_TOKENS, PICTURE_PX, CLIP_TOKENS = 700, (1_000, 700), 2_400


def context_of(tokens: int, *, seed: int = 0) -> Rendered:
    """A context of documents, pictures and recordings in turns, exactly `tokens` long."""
    random = np.random.default_rng(seed)
    spans: list[Span] = []
    rule, at, number = ImageRule(upscale=None), 0, 0
    grid = rule.grid(*PICTURE_PX)
    while at < tokens:
        number += 1
        kind = ("text", "text", "image", "text", "audio")[number % 5]
        size = min({"text": PAGE_TOKENS, "image": grid.tokens, "audio": CLIP_TOKENS}[kind], tokens - at)
        place: Any = {
            "text": TextPlace(start=0, stop=4 * size, page=number), "image": ImagePlace(grid=grid),
            "audio": AudioPlace(start_s=0, stop_s=size / 20),
        }[kind]  # fmt: skip
        if size < grid.tokens and kind == "image":
            kind, place = "text", TextPlace(start=0, stop=4 * size, page=number)
        label = {
            "text": f"report {number // 40}.pdf, page {number}",
            "image": f"plate {number}.png",
            "audio": f"call {number}.wav",
        }[kind]
        part = f"sha256:{label.split(', ')[0]}"
        spans.append(Span(start=at, stop=at + size, part=part, label=label, modality=kind, message=0, locator=place))  # type: ignore[arg-type]
        at += size
    return Rendered(token_ids=random.integers(0, 199_000, tokens, dtype=np.uint32), spans=tuple(spans), image_rule=rule)


def save(path: Path, tokens: int, *, seed: int = 0) -> Path:
    """Make such a capture and save it, its overview beside it."""
    context = context_of(tokens, seed=seed)
    plan = CapturePlan(
        routing=True, sconv=True, attention=AttentionPlan(queries=tuple(range(tokens - 12, tokens)), layers="all", profiles=True)
    ).resolve(tokens)
    made = {name: item for part in entries(plan, SHAPE, tokens, spans=len(context.spans)).values() for name, item in part.items()}
    manifest = CaptureManifest(
        id="large", context=context.id, plan=plan.to_json(), tokens=tokens,
        arrays={name: ArrayEntry(dims=dims, shape=shape, dtype=dtype) for name, (dims, shape, dtype) in made.items()},
        layers={name: layers_of(SHAPE, name, getattr(plan, name).layers) for name in plan.seams()},
        ranges={"attention": [(tokens - 12, tokens)]}, labels={"sconv.site": ["k", "v", "attention", "mlp"]},
        edges=[span.start for span in context.spans], covered_tokens=tokens, complete=True,
        provenance={"model": "made up", "random_weights": True, "architecture": SHAPE.model_dump(mode="json")},
    )  # fmt: skip
    return Capture.from_reader(manifest, _reader(made, seed), context).save(path)


def _reader(made: dict[str, Any], seed: int) -> ReadBlock:
    """Blocks of random numbers: the same block for the same place."""

    def read(name: str, where: tuple[slice, ...]) -> np.ndarray:
        shape = tuple(part.stop - part.start for part in where)
        random = np.random.default_rng([seed, where[0].start, len(name)])
        if np.dtype(made[name][2]).kind != "f":
            return random.integers(0, SHAPE.experts, shape).astype(made[name][2])
        values = random.random(shape, np.float32) + np.float32(0.1)
        return values / values.sum(-1, keepdims=True) if name in ("attention.weight", "attention.bucket_weight") else values

    return read
