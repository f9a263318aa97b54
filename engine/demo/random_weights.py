"""Random weights of a small Inkling, under the original checkpoint's names.

Every tensor is drawn from its own generator, seeded by the seed and its name: a tensor's values do not depend on which others
exist. Scales keep activations near one, so that every part of the model matters to the logits (a test on weights of 0.02 would
pass with half of it missing). Rows of gate and up projections alternate (gate 0, up 0, gate 1, …), as in the original.

This module does not know files. Source of the names: vLLM 0.32 ``models/inkling/nvidia/model.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .shape import Shape

if TYPE_CHECKING:
    import torch


def random_tensors(shape: Shape, seed: int = 0) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint of `shape`, bfloat16 (router scale and bias float32).

    Deterministic in (`shape`, `seed`). About 2 s and 110 MB for the demo's shape, nearly all of it vocabulary rows.
    """
    import torch

    found: dict[str, torch.Tensor] = {}
    for name, size, mean, std in _plan(shape):
        digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
        draw = torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))
        values = torch.empty(size).normal_(mean, std, generator=draw)
        exact = name.endswith(("gate.bias", "global_scale"))
        found[name] = values if exact else values.to(torch.bfloat16)
    return found


Entry = tuple[str, tuple[int, ...], float, float]
"""Name, size, mean and standard deviation of a tensor."""


def _matrix(name: str, *size: int) -> Entry:
    """A projection whose output has the scale of its input: the last axis is summed over."""
    return name, size, 0.0, size[-1] ** -0.5


def _norm(name: str, width: int, gain: float = 1.0) -> Entry:
    return name, (width,), gain, 0.1 * gain


def _plan(s: Shape) -> Iterator[Entry]:
    yield "model.llm.embed.weight", (s.vocabulary[1], s.hidden), 0.0, 1.0
    yield _norm("model.llm.embed_norm.weight", s.hidden)
    yield _norm("model.llm.norm.weight", s.hidden)
    # Twice the neutral scale: next-token distributions with a clear winner, so that greedy runs compare.
    yield "model.llm.unembed.weight", (s.vocabulary[1], s.hidden), 0.0, 2.0 * s.mup * s.hidden**-0.5
    for layer in range(s.layers):
        yield from _layer(s, f"model.llm.layers.{layer}", local=layer in s.local_layers, dense=layer < s.dense_layers)
    yield from _vision(s)
    yield "model.audio.encoder.weight", (s.mel_bins * s.mel_levels, s.hidden), 0.0, s.mel_bins**-0.5
    yield _norm("model.audio.final_norm.weight", s.hidden)
    for depth in range(s.draft_layers):
        block = f"model.mtp.layers.{depth}"
        yield _norm(f"{block}.hidden_norm.weight", s.hidden)
        yield _norm(f"{block}.embed_norm.weight", s.hidden)
        yield _matrix(f"{block}.input_proj.weight", s.hidden, 2 * s.hidden)
        yield from _layer(s, f"{block}.transformer_block", local=True, dense=True)


def _layer(s: Shape, at: str, *, local: bool, dense: bool) -> Iterator[Entry]:
    kv = (s.local_kv_heads if local else s.kv_heads) * s.head_dim
    taps = s.conv_taps
    yield _norm(f"{at}.attn_norm.weight", s.hidden)
    yield _norm(f"{at}.mlp_norm.weight", s.hidden)
    yield _matrix(f"{at}.attn.wq_du.weight", s.heads * s.head_dim, s.hidden)
    yield _matrix(f"{at}.attn.wk_dv.weight", kv, s.hidden)
    yield _matrix(f"{at}.attn.wv_dv.weight", kv, s.hidden)
    yield _matrix(f"{at}.attn.wr_du.weight", s.heads * s.d_rel, s.hidden)
    yield _matrix(f"{at}.attn.wo_ud.weight", s.hidden, s.heads * s.head_dim)
    # Attention divides by head_dim: these gains give scores a spread near two.
    yield _norm(f"{at}.attn.q_norm.weight", s.head_dim, 1.4 * s.head_dim**0.25)
    yield _norm(f"{at}.attn.k_norm.weight", s.head_dim, 1.4 * s.head_dim**0.25)
    yield f"{at}.attn.rel_logits_proj.proj", (s.d_rel, s.window if local else s.extent), 0.0, s.d_rel**-0.5
    yield f"{at}.attn.k_sconv.weight", (kv, 1, taps), 0.0, 0.3
    yield f"{at}.attn.v_sconv.weight", (kv, 1, taps), 0.0, 0.3
    yield f"{at}.attn_sconv.weight", (s.hidden, 1, taps), 0.0, 0.3
    yield f"{at}.mlp_sconv.weight", (s.hidden, 1, taps), 0.0, 0.3
    if dense:
        yield _matrix(f"{at}.mlp.w13_dn.weight", 2 * s.dense_width, s.hidden)
        yield _matrix(f"{at}.mlp.w2_md.weight", s.hidden, s.dense_width)
        yield f"{at}.mlp.global_scale", (1,), 1.0, 0.1
        return
    yield _matrix(f"{at}.mlp.gate.weight", s.experts + s.sinks, s.hidden)
    yield f"{at}.mlp.gate.bias", (s.experts,), 0.0, 0.1
    yield f"{at}.mlp.gate.global_scale", (1,), 1.0, 0.1
    yield _matrix(f"{at}.mlp.experts.w13_weight", s.experts, 2 * s.expert_width, s.hidden)
    yield _matrix(f"{at}.mlp.experts.w2_weight", s.experts, s.hidden, s.expert_width)
    yield _matrix(f"{at}.mlp.shared_experts.shared_w13_weight", s.sinks, 2 * s.expert_width, s.hidden)
    yield _matrix(f"{at}.mlp.shared_experts.shared_w2_weight", s.sinks, s.hidden, s.expert_width)


def _vision(s: Shape) -> Iterator[Entry]:
    """Two folds: blocks of `vision_block_px` pixels, then the whole patch with both its frames."""
    blocks = (s.patch_px // s.vision_block_px) ** 2
    yield _matrix("model.visual.layers.linear_0.weight", s.vision_width, 3 * s.vision_block_px**2)
    yield _norm("model.visual.layers.norm_0.weight", s.vision_width)
    yield _matrix("model.visual.layers.linear_1.weight", s.hidden, s.vision_width * blocks * 2)
    yield _norm("model.visual.final_norm.weight", s.hidden)
