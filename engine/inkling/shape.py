"""Sizes of an Inkling checkpoint, read from ``config.json`` in either of its two dialects.

The makers' dialect calls the experts' width ``intermediate_size`` and the dense width ``dense_intermediate_size``; transformers'
calls the dense width ``intermediate_size`` and the experts' ``moe_intermediate_size``, and lists layer types where the makers list
ids. Nothing is filled in from class defaults: a config dumped from defaults is another model, so a size that is absent is an error
that names it. ``configs/`` holds the published configs of models that are known by name.

Source: transformers 5.19 ``configuration_inkling.py``, vLLM 0.32 ``models/inkling/configs.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import BadRequest

CONFIGS = Path(__file__).parent / "configs"

Quantization = Literal["none", "modelopt-nvfp4", "compressed-nvfp4"]

NVFP4_GROUP = 16
"""Values that share one fp8 scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """Sizes of one checkpoint.

    Attributes
    ----------
    local_layers : frozenset of int
        Sliding layers; the others are global.
    heads, kv_heads, local_heads, local_kv_heads : int
        Query and key/value heads of the global and of the sliding layers.
    dense_layers : frozenset of int
        Layers whose MLP is dense.
    vocabulary_rows, vocabulary : int
        Rows of the embedding, and ids that mean something.
    context : int
        Most positions, in tokens.
    draft_layers, local_draft_layers
        Multi-token-prediction blocks, and which of them slide.
    quantization : {"none", "modelopt-nvfp4", "compressed-nvfp4"}
        Of the routed experts; everything else is BF16.
    dialect : {"original", "transformers"}
    """

    hidden: int
    layers: int
    local_layers: frozenset[int]
    heads: int
    kv_heads: int
    local_heads: int
    local_kv_heads: int
    head_dim: int
    local_head_dim: int
    d_rel: int
    window: int
    extent: int
    conv_taps: int
    dense_layers: frozenset[int]
    dense_width: int
    experts: int
    experts_per_token: int
    sinks: int
    expert_width: int
    vocabulary_rows: int
    vocabulary: int
    context: int
    draft_layers: int = 0
    local_draft_layers: frozenset[int] = frozenset()
    chain_norm: bool = False
    patch_px: int = 0
    vision_layers: int = 0
    mel_bins: int = 0
    mel_levels: int = 0
    quantization: Quantization = "none"
    dialect: Literal["original", "transformers"] = "original"

    @property
    def global_layers(self) -> int:
        """How many layers attend to everything."""
        return self.layers - len(self.local_layers)

    @property
    def fewest_kv_heads(self) -> int:
        """Most tensor-parallel ranks there can be: each holds a whole key/value head of every layer."""
        return min(self.kv_heads, self.local_kv_heads)

    def kv(self, *, local: bool) -> tuple[int, int]:
        """Key/value heads and their width."""
        return (self.local_kv_heads, self.local_head_dim) if local else (self.kv_heads, self.head_dim)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, name: str = "config.json") -> ModelShape:
        """The sizes in a config.

        Raises
        ------
        BadRequest
            Not an Inkling config, or a size is missing or nonsense; the message names it.
        """
        return _read(config, name)

    @classmethod
    def from_folder(cls, folder: Path) -> ModelShape:
        """The sizes of the checkpoint in `folder`."""
        path = folder / "config.json"
        try:
            config = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as problem:
            raise BadRequest(f"{path} cannot be read as a config: {problem}", path=str(path)) from problem
        return _read(config, str(path))


def published_names() -> dict[str, str]:
    """Checkpoints known by name, and the file under ``configs/`` that describes each."""
    return json.loads((CONFIGS / "names.json").read_text("utf-8"))


def published(model: str) -> ModelShape | None:
    """Sizes of a checkpoint known by its public name, else None."""
    file = published_names().get(model)
    return None if file is None else _read(json.loads((CONFIGS / file).read_text("utf-8")), file)


def _read(config: Mapping[str, Any], name: str) -> ModelShape:
    text = config.get("text_config", config) if isinstance(config, Mapping) else None
    if not isinstance(text, Mapping) or "d_rel" not in text:
        raise BadRequest(
            f"{name} is not an Inkling config: it has no text_config with a relative attention width (d_rel)", config=name
        )
    fields = _Fields(text, name)
    layers = fields.whole("num_hidden_layers")
    theirs = "moe_intermediate_size" in text and "dense_intermediate_size" not in text
    mtp = config.get("mtp_config") or {}
    drafts = mtp.get("num_nextn_predict_layers", text.get("num_mtp_layers")) or 0
    vision, audio = config.get("vision_config") or {}, config.get("audio_config") or {}
    rows = fields.whole("vocab_size")
    return ModelShape(
        hidden=fields.whole("hidden_size"), layers=layers, local_layers=_local(text, layers, name),
        heads=fields.whole("num_attention_heads"), kv_heads=fields.whole("num_key_value_heads"),
        local_heads=fields.whole("swa_num_attention_heads"), local_kv_heads=fields.whole("swa_num_key_value_heads"),
        head_dim=fields.whole("head_dim"), local_head_dim=fields.whole("swa_head_dim"), d_rel=fields.whole("d_rel"),
        window=fields.whole("sliding_window_size"), extent=fields.whole("rel_extent"),
        conv_taps=fields.whole("sconv_kernel_size", "conv_kernel_size"), dense_layers=_dense(text, layers, name),
        dense_width=fields.whole("intermediate_size" if theirs else "dense_intermediate_size"),
        expert_width=fields.whole("moe_intermediate_size" if theirs else "intermediate_size"),
        experts=fields.whole("n_routed_experts"), experts_per_token=fields.whole("num_experts_per_tok"),
        sinks=fields.whole("n_shared_experts"), vocabulary_rows=rows, vocabulary=text.get("unpadded_vocab_size") or rows,
        context=fields.whole("model_max_length", "max_position_embeddings"), draft_layers=drafts,
        local_draft_layers=frozenset(mtp.get("local_layer_ids", text.get("mtp_local_layer_ids")) or ()),
        chain_norm=bool(mtp.get("chain_hidden_post_norm", text.get("chain_hidden_post_norm", False))),
        patch_px=vision.get("patch_size") or 0, vision_layers=vision.get("n_layers", vision.get("num_hidden_layers")) or 0,
        mel_bins=audio.get("n_mel_bins") or 0, mel_levels=audio.get("mel_vocab_size") or 0,
        quantization=_quantization(config, name), dialect="transformers" if theirs else "original",
    )  # fmt: skip


class _Fields:
    """Required whole numbers of a config."""

    def __init__(self, values: Mapping[str, Any], name: str) -> None:
        self._values, self._name = values, name

    def whole(self, *spellings: str) -> int:
        """The first spelling that is there."""
        for spelling in spellings:
            value = self._values.get(spelling)
            if value is not None:
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise BadRequest(
                        f"{self._name}: {spelling} is {value!r}, wanted a whole number of at least 1", config=self._name
                    )
                return value
        raise BadRequest(
            f"{self._name} has no {' or '.join(spellings)}: a config dumped from class defaults is not Inkling's; take the one "
            "that came with the weights", config=self._name, field=spellings[0],
        )  # fmt: skip


def _local(text: Mapping[str, Any], layers: int, name: str) -> frozenset[int]:
    ids = text.get("local_layer_ids")
    if ids is None and (types := text.get("layer_types")):
        ids = [layer for layer, kind in enumerate(types) if kind == "hybrid_sliding"]
    if ids is None:
        raise BadRequest(f"{name} says neither local_layer_ids nor layer_types: which layers slide is unknown", config=name)
    if any(not 0 <= layer < layers for layer in ids):
        raise BadRequest(f"{name}: a sliding layer outside the {layers} layers: {sorted(ids)[-1]}", config=name)
    return frozenset(ids)


def _dense(text: Mapping[str, Any], layers: int, name: str) -> frozenset[int]:
    if (first := text.get("dense_mlp_idx")) is not None:
        return frozenset(range(min(first, layers)))
    if kinds := text.get("mlp_layer_types"):
        return frozenset(layer for layer, kind in enumerate(kinds) if kind == "dense")
    raise BadRequest(f"{name} says neither dense_mlp_idx nor mlp_layer_types: which layers are dense is unknown", config=name)


def _quantization(config: Mapping[str, Any], name: str) -> Quantization:
    """Both ways of writing NVFP4 down; anything else is refused, because vLLM 0.32 would load it wrongly or not at all."""
    values = config.get("quantization_config") or (config.get("text_config") or {}).get("quantization_config")
    if not values:
        return "none"
    method, algorithm = str(values.get("quant_method", "")).lower(), str(values.get("quant_algo", "")).upper()
    if method.startswith("modelopt") and "NVFP4" in (algorithm or "NVFP4"):
        return "modelopt-nvfp4"
    if method == "compressed-tensors" and "nvfp4" in str(values.get("format", "")):
        return "compressed-nvfp4"
    raise BadRequest(
        f"{name}: quantization {method or '?'} {algorithm or values.get('format', '')} is not one that Inkling's loader in vLLM "
        "0.32 is known to take: NVFP4 by ModelOpt or compressed-tensors, or none", config=name, quant_method=method,
    )  # fmt: skip
