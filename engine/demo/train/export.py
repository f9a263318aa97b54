"""From a trained model to the compact file that ships, under the original checkpoint's names.

Everything is bfloat16 (router scales and biases float32), as in an unpacked checkpoint. Of the vocabulary's rows only the trained
ones are there (``rows.ids``, ``rows.trained``), with the vector that makes head rows of them all (``rows.head_scale``);
:mod:`engine.demo.trained` puts the tables together again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from engine.demo.train.drafts import Draft
from engine.demo.train.layers import DenseMLP, Layer, RoutedMLP
from engine.demo.train.model import DemoModel


def compact_tensors(model: DemoModel, drafts: Sequence[Draft]) -> dict[str, Tensor]:
    """Tensors to ship, by name."""
    found: dict[str, Tensor] = {
        "rows.ids": model.trained.to(torch.int32),
        "rows.trained": model.rows,
        "rows.head_scale": model.head_scale,
        "model.llm.embed_norm.weight": model.embed_norm.weight,
        "model.llm.norm.weight": model.norm.weight,
        "model.visual.layers.linear_0.weight": model.image.first.weight,
        "model.visual.layers.norm_0.weight": model.image.first_norm.weight,
        "model.visual.layers.linear_1.weight": model.image.last.weight,
        "model.visual.final_norm.weight": model.image.norm.weight,
        "model.audio.encoder.weight": model.audio.table,
        "model.audio.final_norm.weight": model.audio.norm.weight,
    }
    for number, layer in enumerate(model.layers):
        assert isinstance(layer, Layer)
        found |= _layer(f"model.llm.layers.{number}", layer)
    for depth, block in enumerate(drafts):
        at = f"model.mtp.layers.{depth}"
        found[f"{at}.hidden_norm.weight"] = block.hidden_norm.weight
        found[f"{at}.embed_norm.weight"] = block.embed_norm.weight
        found[f"{at}.input_proj.weight"] = block.input.weight
        found |= _layer(f"{at}.transformer_block", block.layer)
    return {name: _stored(name, tensor.detach()) for name, tensor in found.items()}


def _stored(name: str, tensor: Tensor) -> Tensor:
    exact = name.endswith(("gate.bias", "global_scale")) or not tensor.is_floating_point()
    return (tensor if exact else tensor.to(torch.bfloat16)).contiguous().clone()


def _interleave(gate: Tensor, up: Tensor) -> Tensor:
    """Rows gate 0, up 0, gate 1, … along the last axis but one."""
    return torch.stack([gate, up], dim=-2).flatten(-3, -2)


def _layer(at: str, layer: Layer) -> dict[str, Tensor]:
    attn, mlp = layer.attn, layer.mlp
    found = {
        "attn_norm.weight": layer.attn_norm.weight,
        "mlp_norm.weight": layer.mlp_norm.weight,
        "attn.wq_du.weight": attn.q.weight,
        "attn.wk_dv.weight": attn.k.weight,
        "attn.wv_dv.weight": attn.v.weight,
        "attn.wr_du.weight": attn.r.weight,
        "attn.wo_ud.weight": attn.o.weight,
        "attn.q_norm.weight": attn.q_norm.weight,
        "attn.k_norm.weight": attn.k_norm.weight,
        "attn.rel_logits_proj.proj": attn.bank,
        "attn.k_sconv.weight": attn.k_sconv.weight.unsqueeze(1),
        "attn.v_sconv.weight": attn.v_sconv.weight.unsqueeze(1),
        "attn_sconv.weight": layer.attn_sconv.weight.unsqueeze(1),
        "mlp_sconv.weight": layer.mlp_sconv.weight.unsqueeze(1),
    }
    if isinstance(mlp, DenseMLP):
        found |= {
            "mlp.w13_dn.weight": _interleave(mlp.gate.weight, mlp.up.weight),
            "mlp.w2_md.weight": mlp.down.weight,
            "mlp.global_scale": mlp.global_scale,
        }
    elif isinstance(mlp, RoutedMLP):
        found |= {
            "mlp.gate.weight": mlp.gate,
            "mlp.gate.bias": mlp.bias,
            "mlp.gate.global_scale": mlp.global_scale,
            "mlp.experts.w13_weight": _interleave(*mlp.w13.chunk(2, dim=1)),
            "mlp.experts.w2_weight": mlp.w2,
            "mlp.shared_experts.shared_w13_weight": _interleave(mlp.shared_gate, mlp.shared_up),
            "mlp.shared_experts.shared_w2_weight": mlp.shared_down,
        }
    return {f"{at}.{name}": tensor for name, tensor in found.items()}


def write_compact(model: DemoModel, drafts: Sequence[Draft], path: Path, *, figures: dict[str, str] | None = None) -> str:
    """Write the compact file; gives its SHA-256, which the file beside it (``.sha256``) also holds."""
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(compact_tensors(model, drafts), path, metadata={"format": "pt", **(figures or {})})
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_suffix(".sha256").write_text(f"{digest}  {path.name}\n", encoding="ascii")
    return digest
