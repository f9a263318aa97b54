"""What the draft heads say, by transformers' own decoder layers: it has no draft heads, so a block's weights take a layer's place.

A block is a dense sliding layer, as the first layer of these checkpoints is. transformers loads a copy of the checkpoint with the
block's weights there; that layer is given the block's input, and its output goes through the model's head. The rest is from the
definition: the last stream (normed) and the next token's embedding, each normed, side by side through one projection.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.demo.checkpoint import write_checkpoint
from engine.demo.shape import VOCABULARY, Shape

FIRST = "model.llm.layers.0."


def heads(
    oracle: Any, tensors: dict[str, torch.Tensor], shape: Shape, ids: list[int], count: int, folder: Path
) -> list[np.ndarray]:  # fmt: skip
    """Log-probabilities (t, vocabulary) of each of the first `count` heads behind every token of `ids`.

    Row `t` of head `i` (from 0) is for token ``t + 2 + i``; the last ``1 + i`` rows mean nothing.
    """
    from transformers import InklingForConditionalGeneration

    embedded, stream = _backbone(oracle, ids)
    found = []
    for head in range(count):
        block = f"model.mtp.layers.{head}."
        swapped = tensors | {
            FIRST + name.removeprefix(f"{block}transformer_block."): value.clone()
            for name, value in tensors.items()
            if name.startswith(f"{block}transformer_block.")
        }
        path = write_checkpoint(folder / str(head), shape, lambda s=swapped: s, revision=block, random_weights=True)
        model = InklingForConditionalGeneration.from_pretrained(path, dtype=torch.float32).eval()
        ahead = embedded.roll(-(head + 1), 0)
        parts = [
            _normed(values, tensors[f"{block}{name}.weight"]) for values, name in ((stream, "hidden_norm"), (ahead, "embed_norm"))
        ]
        stream = _first_layer(model, ids, torch.cat(parts, -1) @ tensors[f"{block}input_proj.weight"].float().T)
        with torch.no_grad():
            logits = oracle.lm_head(stream)[:, :VOCABULARY] / shape.mup
        found.append(logits.log_softmax(-1).numpy())
    return found


def _backbone(oracle: Any, ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Embeddings as the layers get them, and the stream behind the final norm, each (t, c)."""
    text, seen = oracle.model.language_model, {}
    hooks = [
        text.layers[0].register_forward_pre_hook(
            lambda _, args, kwargs: seen.update(embedded=_hidden(args, kwargs)), with_kwargs=True
        ),
        text.norm.register_forward_hook(lambda _, args, out: seen.update(stream=out)),
    ]
    _run(oracle, ids, hooks)
    return seen["embedded"][0], seen["stream"][0]


def _first_layer(model: Any, ids: list[int], given: torch.Tensor) -> torch.Tensor:
    """What the model's first layer makes of `given`, (t, c)."""
    layer, seen = model.model.language_model.layers[0], {}

    def replace(_: Any, args: Any, kwargs: Any) -> Any:
        return ((given[None], *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": given[None]})

    hooks = [
        layer.register_forward_pre_hook(replace, with_kwargs=True),
        layer.register_forward_hook(lambda _, args, out: seen.update(out=out[0] if isinstance(out, tuple) else out)),
    ]
    _run(model, ids, hooks)
    return seen["out"][0]


def _run(model: Any, ids: list[int], hooks: list[Any]) -> None:
    try:
        with torch.no_grad():
            model(torch.tensor([ids]), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()


def _hidden(args: Any, kwargs: Any) -> torch.Tensor:
    return args[0] if args else kwargs["hidden_states"]


def _normed(values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return values * (values.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * weight.float()
