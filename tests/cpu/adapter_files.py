"""Random adapters in PEFT's format under the original checkpoint's names, and the same weights merged into a checkpoint.

Knows the checkpoint's layout and PEFT's definition (``W + alpha/r · B A``), and nothing of the engine: it is the other side of the
comparison.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from engine.demo.shape import PADDED_VOCABULARY, Shape

PARTS = ("qkvr", "output", "dense", "experts", "sinks", "head")


@dataclass
class Adapter:
    """Low-rank pairs by module name under ``model.…``, with rank and alpha."""

    rank: int
    alpha: float
    pairs: dict[str, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)

    @property
    def scaling(self) -> float:
        return self.alpha / self.rank


def modules(shape: Shape, parts: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Input and output size of every module of `parts`."""
    wanted, found = set(parts), {}
    for layer in range(shape.layers):
        at = f"model.llm.layers.{layer}"
        kv = (shape.local_kv_heads if layer in shape.local_layers else shape.kv_heads) * shape.head_dim
        if "qkvr" in wanted:
            found |= {
                f"{at}.attn.wq_du": (shape.hidden, shape.heads * shape.head_dim), f"{at}.attn.wk_dv": (shape.hidden, kv),
                f"{at}.attn.wv_dv": (shape.hidden, kv), f"{at}.attn.wr_du": (shape.hidden, shape.heads * shape.d_rel),
            }  # fmt: skip
        if "output" in wanted:
            found[f"{at}.attn.wo_ud"] = shape.heads * shape.head_dim, shape.hidden
        if layer < shape.dense_layers:
            if "dense" in wanted:
                found[f"{at}.mlp.w13_dn"] = shape.hidden, 2 * shape.dense_width
                found[f"{at}.mlp.w2_md"] = shape.dense_width, shape.hidden
            continue
        if "experts" in wanted:
            for expert in range(shape.experts):
                for name in ("gate_proj", "up_proj"):
                    found[f"{at}.mlp.experts.{expert}.{name}"] = shape.hidden, shape.expert_width
                found[f"{at}.mlp.experts.{expert}.down_proj"] = shape.expert_width, shape.hidden
        if "sinks" in wanted:
            for name in ("w1", "w3"):
                found[f"{at}.mlp.sink_experts.{name}"] = shape.hidden, shape.sinks * shape.expert_width
            found[f"{at}.mlp.sink_experts.w2"] = shape.sinks * shape.expert_width, shape.hidden
    if "head" in wanted:
        found["model.llm.unembed"] = shape.hidden, PADDED_VOCABULARY
    return found


def random_adapter(shape: Shape, *, seed: int, rank: int = 4, alpha: float = 8.0, parts: Iterable[str] = PARTS) -> Adapter:
    """An adapter strong enough to change what is said: its products are about half as large as the weights' own."""
    draw, adapter = torch.Generator().manual_seed(seed), Adapter(rank, alpha)
    for name, (inner, outer) in modules(shape, parts).items():
        a = torch.randn(rank, inner, generator=draw) * inner**-0.5
        b = torch.randn(outer, rank, generator=draw) * 0.5 * rank**-0.5 / adapter.scaling
        adapter.pairs[name] = a, b
    return adapter


def shared_adapter(
    shape: Shape, *, seed: int, rank: int = 4, layers: Iterable[int] | None = None, names: Iterable[str] = ("w1", "w3", "w2")
) -> Adapter:
    """An adapter of the routed experts that share gate's and up's A and down's B, in layers with experts (default: all)."""
    draw, adapter, count = torch.Generator().manual_seed(seed), Adapter(rank, float(rank)), shape.experts
    for layer in range(shape.dense_layers, shape.layers) if layers is None else layers:
        for name in names:
            inner, outer = (shape.expert_width, shape.hidden) if name == "w2" else (shape.hidden, shape.expert_width)
            a = torch.randn(count if name == "w2" else 1, rank, inner, generator=draw) * inner**-0.5
            b = torch.randn(1 if name == "w2" else count, outer, rank, generator=draw) * 0.5 * rank**-0.5
            adapter.pairs[f"model.llm.layers.{layer}.mlp.experts.{name}"] = a, b
    return adapter


def write_adapter(folder: Path, adapter: Adapter, **config: Any) -> Path:
    """The adapter as PEFT saves one."""
    folder.mkdir(parents=True)
    tensors = {}
    for name, (a, b) in adapter.pairs.items():
        tensors |= {f"base_model.model.{name}.lora_A.weight": a, f"base_model.model.{name}.lora_B.weight": b}
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "adapter_model.safetensors")
    plain = {
        "peft_type": "LORA", "r": adapter.rank, "lora_alpha": adapter.alpha, "bias": "none", "task_type": "CAUSAL_LM",
        "target_modules": sorted({name.rpartition(".")[2] for name in adapter.pairs}),
    }  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(plain | config), encoding="utf-8")
    return folder


def merged(tensors: dict[str, torch.Tensor], adapter: Adapter, shape: Shape) -> dict[str, torch.Tensor]:
    """The checkpoint's tensors in float32 with the adapter added."""
    found = {name: tensor.float().clone() for name, tensor in tensors.items()}
    for name, (a, b) in adapter.pairs.items():
        delta, (at, _, last) = adapter.scaling * (b @ a), name.rpartition(".")
        if ".experts.w" in name:
            stack = found[f"{at}.w2_weight" if last == "w2" else f"{at}.w13_weight"]
            (stack if last == "w2" else stack[:, {"w1": 0, "w3": 1}[last] :: 2]).add_(delta)
        elif ".experts." in name:
            at, _, expert = at.rpartition(".")
            stack = found[f"{at}.w2_weight" if last == "down_proj" else f"{at}.w13_weight"][int(expert)]
            (stack if last == "down_proj" else stack[{"gate_proj": 0, "up_proj": 1}[last] :: 2]).add_(delta)
        elif ".sink_experts." in name:
            at = at.replace("sink_experts", "shared_experts")
            if last == "w2":
                found[f"{at}.shared_w2_weight"] += delta.unflatten(1, (shape.sinks, -1)).transpose(0, 1)
            else:
                found[f"{at}.shared_w13_weight"][:, {"w1": 0, "w3": 1}[last] :: 2] += delta.unflatten(0, (shape.sinks, -1))
        else:
            found[f"{name}.weight"] += delta
    return found
