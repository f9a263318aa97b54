"""Which modules of Inkling an adapter may change, and the names they go by in adapter files.

Two spellings are read: the original checkpoint's (``model.llm.layers.0.attn.wq_du``), and transformers' as PEFT saves it
(``model.language_model.layers.0.self_attn.q_proj``). Both become the names vLLM loads, which are the original ones with single
experts and with the shared experts ("sinks") as one wide layer. This module knows names and sizes, no files and no tensors.
Source: vLLM 0.32 ``models/inkling/nvidia/model.py``; transformers 5.19 ``conversion_mapping.py``; PEFT's ``ParamWrapper``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

HEAD = "model.llm.unembed"

_TO_ORIGINAL = {
    "self_attn.q_proj": "attn.wq_du", "self_attn.k_proj": "attn.wk_dv", "self_attn.v_proj": "attn.wv_dv",
    "self_attn.r_proj": "attn.wr_du", "self_attn.o_proj": "attn.wo_ud",
}  # fmt: skip
"""transformers' names below a layer that need nothing but another name."""

_PREFIXES = ("model.llm.layers.", "model.language_model.layers.", "language_model.layers.", "model.layers.")
_HEADS = (HEAD, "lm_head", "language_model.lm_head")
_LAYER = re.compile(r"(\d+)\.(.+)")

SHARED = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}
"""Names of the routed experts' stacks in the layout in which all experts share gate's and up's A and down's B."""

STACKED = {"mlp.experts": ("gate_up_proj", "down_proj"), "mlp.shared_experts": ("gate_proj", "up_proj", "down_proj")}
"""Parameters of transformers' modules that hold all experts in one, in the order in which PEFT wraps them, innermost first."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What of a model's shape decides the sizes of an adapter's matrices."""

    layers: int
    hidden: int
    dense_layers: int
    dense_width: int
    experts: int
    expert_width: int
    sinks: int
    vocabulary: int
    padded_vocabulary: int
    attention: tuple[dict[str, tuple[int, int]], ...]

    @classmethod
    def of(cls, config: Any) -> Sizes:
        """Sizes from vLLM's text config of an Inkling."""
        local = set(config.local_layer_ids)

        def attention(layer: int) -> dict[str, tuple[int, int]]:
            prefix = "swa_" if layer in local else ""
            heads, kv, width = (
                getattr(config, f"{prefix}{name}") for name in ("num_attention_heads", "num_key_value_heads", "head_dim")
            )
            hidden = config.hidden_size
            return {
                "attn.wq_du": (hidden, heads * width), "attn.wk_dv": (hidden, kv * width), "attn.wv_dv": (hidden, kv * width),
                "attn.wr_du": (hidden, heads * config.d_rel), "attn.wo_ud": (heads * width, hidden),
            }  # fmt: skip

        layers = config.num_hidden_layers
        return cls(
            layers=layers, hidden=config.hidden_size, dense_layers=config.dense_mlp_idx, dense_width=config.dense_intermediate_size,
            experts=config.n_routed_experts, expert_width=config.intermediate_size, sinks=config.n_shared_experts,
            vocabulary=config.vocab_size, padded_vocabulary=config.padded_vocab_size,
            attention=tuple(attention(layer) for layer in range(layers)),
        )  # fmt: skip

    def below(self, layer: int) -> dict[str, tuple[int, int]]:
        """Input and output size of what an adapter may change in a layer, single experts left out."""
        found = dict(self.attention[layer])
        if layer < self.dense_layers:
            return found | {"mlp.w13_dn": (self.hidden, 2 * self.dense_width), "mlp.w2_md": (self.dense_width, self.hidden)}
        wide = self.sinks * self.expert_width
        return found | {
            "mlp.sink_experts.w1": (self.hidden, wide), "mlp.sink_experts.w3": (self.hidden, wide),
            "mlp.sink_experts.w2": (wide, self.hidden),
        }  # fmt: skip

    def of_expert(self, name: str) -> tuple[int, int]:
        """Sizes of one expert's ``gate_proj``, ``up_proj`` or ``down_proj``."""
        return (self.expert_width, self.hidden) if name == "down_proj" else (self.hidden, self.expert_width)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pair of matrices of an adapter belongs.

    Attributes
    ----------
    layer : int or None
        None for the head.
    module : str
        Below the layer, in the original spelling, or transformers' where one pair becomes several or several one:
        ``mlp.gate_proj``, ``mlp.up_proj``, ``mlp.experts.<parameter>``, ``mlp.shared_experts.<parameter>``; ``mlp.experts.w1``,
        ``w3``, ``w2`` are stacks of matrices of their own.
    """

    layer: int | None
    module: str
    expert: int | None = None

    @property
    def stacked(self) -> bool:
        """Whether its matrices have an axis of experts."""
        return self.module.removeprefix("mlp.experts.") in SHARED


def place_of(name: str, sizes: Sizes, wrapped: tuple[str, ...] = ()) -> Place | str:
    """Where the module called `name` in an adapter file belongs, or a sentence on why it cannot be adapted.

    Parameters
    ----------
    name : str
        Without ``base_model.model.`` and without ``.lora_A.weight``.
    wrapped : tuple of str
        PEFT's ``target_parameters``: they say which parameter a wrapper around several experts stands for.
    """
    if name in _HEADS:
        return Place(None, HEAD)
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None)
    found = _LAYER.fullmatch(name[len(prefix) :]) if prefix else None
    if found is None:
        return "only layers of the language model and its head can be adapted"
    layer, rest = int(found[1]), found[2]
    if layer >= sizes.layers:
        return f"this model has layers 0 to {sizes.layers - 1}"
    dense = layer < sizes.dense_layers
    rest = _TO_ORIGINAL.get(rest, rest)
    if dense and rest == "mlp.down_proj":
        rest = "mlp.w2_md"
    if rest in sizes.below(layer) or (dense and rest in ("mlp.gate_proj", "mlp.up_proj")):
        return Place(layer, rest)
    if not dense and (expert := re.fullmatch(r"mlp\.experts\.(\d+)\.(gate_proj|up_proj|down_proj)", rest)):
        if int(expert[1]) >= sizes.experts:
            return f"this model has experts 0 to {sizes.experts - 1}"
        return Place(layer, f"mlp.experts.{expert[2]}", int(expert[1]))
    if not dense and rest.removeprefix("mlp.experts.") in SHARED:
        return Place(layer, rest)
    stack = rest.removesuffix(".base_layer").removesuffix(".base_layer")
    if not dense and stack in STACKED:
        return _stacked(layer, stack, (len(rest) - len(stack)) // len(".base_layer"), wrapped)
    if rest.startswith("mlp.") and (dense or rest in sizes.below(0)):
        return f"layer {layer} has {'a dense MLP, not experts' if dense else 'experts, not a dense MLP'}"
    return "no adapter can change that"


def _stacked(layer: int, stack: str, depth: int, wrapped: tuple[str, ...]) -> Place | str:
    """The parameter that a wrapper `depth` levels inside stands for: the innermost is the first one that was targeted."""
    targeted = [name for name in STACKED[stack] if any(f"{stack}.{name}".endswith(target) for target in wrapped)]
    if depth >= len(targeted):
        return "its target_parameters do not say which of the experts' matrices it stands for"
    return Place(layer, f"{stack}.{targeted[len(targeted) - 1 - depth]}")


def vllm_name(layer: int | None, module: str) -> str:
    """The module's name in a file that vLLM loads."""
    return HEAD if layer is None else f"model.llm.layers.{layer}.{module}"
