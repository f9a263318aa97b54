"""Sizes of a small Inkling, and the config files an engine reads them from.

Knows the original layout's config keys; knows no weights and no tokenizer. The config is written the way the model makers write
theirs (``use_embed_norm``, ``dense_mlp_idx``, …): vLLM fills what is absent with other defaults and runs another model without a
word. Widths appear under both spellings, because transformers and vLLM read ``intermediate_size`` differently.

Source: vLLM 0.32 ``models/inkling/configs.py``, transformers 5.19 ``models/inkling/configuration_inkling.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PADDED_VOCABULARY = 201_024
"""Rows of the embedding table and the head."""

VOCABULARY = 200_058
"""Ids that mean something; the rest is padding and is never sampled."""

END_SAMPLING = 200_006
"""Id that ends a turn (``<|content_model_end_sampling|>``); a test holds it equal to the tokenizer's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of one small Inkling; the defaults are the demo checkpoint.

    Attributes
    ----------
    layers : int
        Decoder layers; each `global_every`-th is global, the others slide over `window` tokens.
    kv_heads, local_kv_heads : int
        Key/value heads of the global and of the sliding layers.
    extent : int
        Distance up to which a global layer has a relative bias; sliding layers have one over their window.
    dense_layers : int
        The first layers, whose MLP is dense.
    log_floor : int
        Position from which queries and biases of global layers grow: by ``1 + log_alpha·ln((t + 1)/log_floor)``.
    vision_block_px, vision_width : int
        First fold of the image tower. What Inkling's planner gives for two layers: other values do not load.
    mup : float
        Divisor of the logits.
    context : int
        Longest prompt with its answer, in tokens.
    draft_layers : int
        Multi-token-prediction blocks, all sliding.
    """

    hidden: int = 128
    layers: int = 6
    global_every: int = 6
    heads: int = 4
    head_dim: int = 32
    kv_heads: int = 2
    local_kv_heads: int = 2
    d_rel: int = 16
    window: int = 128
    extent: int = 256
    conv_taps: int = 4
    dense_layers: int = 1
    dense_width: int = 512
    experts: int = 16
    experts_per_token: int = 2
    sinks: int = 2
    expert_width: int = 64
    route_scale: float = 2.0
    mup: float = 1.0
    # A sequence longer than 128 tokens is already past the floor: the demo shows the effect that starts at 128,000 in Inkling.
    log_floor: int = 128
    log_alpha: float = 0.2
    context: int = 1_048_576
    patch_px: int = 40
    vision_block_px: int = 10
    vision_width: int = 320
    mel_bins: int = 80
    mel_levels: int = 16
    draft_layers: int = 2

    @property
    def local_layers(self) -> list[int]:
        """Indices of the sliding layers."""
        return [layer for layer in range(self.layers) if (layer + 1) % self.global_every]

    @property
    def vocabulary(self) -> tuple[int, int]:
        """Ids that mean something, and rows of the embedding table and the head."""
        return VOCABULARY, PADDED_VOCABULARY

    def config(self) -> dict[str, Any]:
        """``config.json`` in the original layout."""
        ids, rows = self.vocabulary
        text = {
            "vocab_size": rows, "unpadded_vocab_size": ids,
            "hidden_size": self.hidden, "num_hidden_layers": self.layers,
            # Original: the experts' width. transformers' name for it follows; its own `intermediate_size` is the dense width.
            "intermediate_size": self.expert_width, "moe_intermediate_size": self.expert_width,
            "dense_intermediate_size": self.dense_width, "dense_mlp_idx": self.dense_layers,
            "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head_dim,
            "swa_num_attention_heads": self.heads, "swa_num_key_value_heads": self.local_kv_heads,
            "swa_head_dim": self.head_dim, "sliding_window_size": self.window, "local_layer_ids": self.local_layers,
            "d_rel": self.d_rel, "rel_extent": self.extent, "log_scaling_n_floor": self.log_floor,
            "log_scaling_alpha": self.log_alpha, "rms_norm_eps": 1e-6, "hidden_act": "silu", "q_bias": False, "o_bias": False,
            "use_embed_norm": True, "use_sconv": True, "sconv_kernel_size": self.conv_taps,
            "n_routed_experts": self.experts, "n_shared_experts": self.sinks, "num_experts_per_tok": self.experts_per_token,
            "route_scale": self.route_scale, "use_gate_bias": True, "use_global_scale": True, "norm_after_topk": True,
            "gate_activation": "sigmoid", "shared_expert_sink": True, "inference_moe_w13_interleaved": True,
            "logits_mup_width_multiplier": self.mup, "model_max_length": self.context, "tie_word_embeddings": False,
            "bos_token_id": None, "eos_token_id": END_SAMPLING, "pad_token_id": None,
        }  # fmt: skip
        return {
            "architectures": ["InklingForConditionalGeneration"],
            "model_type": "inkling_mm_model",
            "dtype": "bfloat16",
            # Without one, transformers takes an unknown tokenizer for an old Mistral's and warns that it is faulty.
            "transformers_version": "5.16.0",
            "tie_word_embeddings": False,
            "eos_token_id": END_SAMPLING,
            "text_config": text,
            "vision_config": {
                "vision_encoder_type": "hmlp", "decoder_dmodel": self.hidden, "patch_size": self.patch_px,
                "temporal_patch_size": 2, "n_channels": 3, "n_layers": 2, "use_vision_norm": True,
            },
            "audio_config": {
                "audio_mode": "dmel", "decoder_dmodel": self.hidden, "n_mel_bins": self.mel_bins,
                "mel_vocab_size": self.mel_levels, "dmel_min_value": -7.0, "dmel_max_value": 2.0, "use_audio_norm": True,
            },
            "mtp_config": {
                "num_nextn_predict_layers": self.draft_layers, "chain_hidden_post_norm": False,
                "local_layer_ids": list(range(self.draft_layers)),
            },
        }  # fmt: skip

    def processor_config(self) -> dict[str, Any]:
        """``preprocessor_config.json``: vLLM's default image rule (long edge × 2, up to 2048 px), written out."""
        return {
            "image_processor_type": "InklingImageProcessor",
            "patch_size": self.patch_px,
            "rescale_image_frac": 2.0,
            "rescale_image_max_upscaled_long_edge": 2048,
        }


class FewWords(Shape):
    """A shape with 4,096 ids instead of all: for timing layers, whose cost the whole vocabulary's head would hide.

    Text of ordinary ids below 4,096 only: every special id lies outside.
    """

    @property
    def vocabulary(self) -> tuple[int, int]:
        return 4_096, 4_096
