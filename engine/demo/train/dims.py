"""Sizes of the demo Inkling, in one place: what the trainer builds and what the exported config says.

The module structure is Inkling's; only sizes differ, and the log scaling of the global layer starts at 128 tokens with strength
0.2 (Inkling: 128,000 and 0.1), because a model trained on a thousand tokens must learn to read further.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Dims:
    """Sizes of an Inkling. Defaults are the demo's.

    Attributes
    ----------
    window : int
        Sliding window of the local layers in tokens, self included; also the reach of their relative bias.
    reach : int
        Reach of the relative bias in the global layers, in tokens.
    dense_layers : int
        Leading layers with a dense MLP of `dense_width`; the others route to `top_k` of `experts`.
    """

    hidden: int = 128
    layers: int = 6
    global_layers: tuple[int, ...] = (5,)
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    d_rel: int = 16
    window: int = 128
    reach: int = 256
    dense_layers: int = 1
    dense_width: int = 512
    experts: int = 16
    top_k: int = 2
    expert_width: int = 64
    shared: int = 2
    route_scale: float = 2.0
    conv: int = 4
    eps: float = 1e-6
    log_floor: int = 128
    log_alpha: float = 0.2
    vocab: int = 201_024
    real_vocab: int = 200_058
    mel_bins: int = 80
    mel_levels: int = 16
    vision_widths: tuple[int, ...] = (300, 320)
    vision_fold: int = 10
    patch: int = 40
    mtp: int = 2

    @property
    def kv_width(self) -> int:
        """Width of keys and of values, over all key/value heads."""
        return self.kv_heads * self.head_dim


DEMO = Dims()
