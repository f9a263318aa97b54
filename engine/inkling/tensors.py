"""Every tensor of a checkpoint by name, shape and kind, from its sizes.

Names are the makers' own, the only ones vLLM's loader takes; transformers writes them too when it saves. Routed experts are one
stacked tensor a layer; under NVFP4 each comes with block scales, second scales and what its writer adds. Knows no file.

Source: vLLM 0.32 ``models/inkling`` (names, loader, what it ignores) and ``towers.py`` (fold plan of the image tower).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Literal

from .shape import NVFP4_GROUP, ModelShape

Kind = Literal["embedding", "head", "attention", "short convolutions", "dense MLP", "routed experts", "sinks", "router", "norms",
               "image tower", "audio tower", "drafts"]  # fmt: skip

BYTES = {"BF16": 2, "F16": 2, "F32": 4, "U8": 1, "F8_E4M3": 1}
"""Bytes a stored value takes, by safetensors' names."""

FLOATS = ("BF16", "F16", "F32")

Share = Literal["split", "whole"]
"""Under tensor parallelism a rank holds its share of a tensor, or all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor a checkpoint holds.

    Attributes
    ----------
    shapes : tuple of tuple of int
        The shapes it may have; empty for scalars whose form differs between writers.
    dtypes : tuple of str
        As safetensors spells them; the first is the usual one.
    optional : bool
        Its writer may leave it out.
    """

    name: str
    kind: Kind
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...] = FLOATS
    share: Share = "split"
    optional: bool = False

    @property
    def values(self) -> int:
        """How many numbers it holds (packed ones count as stored)."""
        return prod(self.shapes[0]) if self.shapes else 1

    @property
    def disk_bytes(self) -> int:
        """Bytes in its usual form."""
        return self.values * BYTES[self.dtypes[0]]

    def engine_bytes(self, value_bytes: int) -> int:
        """Bytes in an engine whose values take `value_bytes`, over all ranks: what is quantized stays as it is stored."""
        return self.values * (1 if self.dtypes[0] in ("U8", "F8_E4M3") else value_bytes)

    @property
    def draft_block(self) -> int:
        """Of a tensor of kind ``drafts``: which block it belongs to; what the blocks share counts as the first's."""
        parts = self.name.split(".")
        return int(parts[3]) if parts[2] == "layers" else 0


def tensors(shape: ModelShape) -> Iterator[Tensor]:
    """All tensors of a checkpoint of `shape`."""
    s, wide = shape, ((shape.vocabulary_rows, shape.hidden),)
    yield Tensor(name="model.llm.embed.weight", kind="embedding", shapes=wide)
    yield _norm("model.llm.embed_norm.weight", s.hidden)
    yield _norm("model.llm.norm.weight", s.hidden)
    # Some heads have no padding rows.
    yield Tensor(name="model.llm.unembed.weight", kind="head", shapes=(*wide, (s.vocabulary, s.hidden)))
    for layer in range(s.layers):
        yield from _layer(s, f"model.llm.layers.{layer}", local=layer in s.local_layers, dense=layer in s.dense_layers)
    yield from _towers(s)
    for depth in range(s.draft_layers):
        block = f"model.mtp.layers.{depth}"
        found = [
            _norm(f"{block}.hidden_norm.weight", s.hidden),
            _norm(f"{block}.embed_norm.weight", s.hidden),
            Tensor(name=f"{block}.input_proj.weight", kind="drafts", shapes=((s.hidden, 2 * s.hidden),), share="whole"),
            *_layer(s, f"{block}.transformer_block", local=depth in s.local_draft_layers, dense=True),
        ]
        for item in found:
            yield Tensor(
                name=item.name, kind="drafts", shapes=item.shapes, dtypes=item.dtypes, share=item.share, optional=item.optional
            )
    if s.chain_norm:
        yield Tensor(name="model.mtp.chain_norm.weight", kind="drafts", shapes=((s.hidden,),), share="whole")


def _layer(s: ModelShape, at: str, *, local: bool, dense: bool) -> Iterator[Tensor]:
    heads, (kv, width) = (s.local_heads if local else s.heads), s.kv(local=local)
    q, kv_width = heads * width, kv * width
    yield _norm(f"{at}.attn_norm.weight", s.hidden)
    yield _norm(f"{at}.mlp_norm.weight", s.hidden)
    for name, size in {
        "wq_du": (q, s.hidden), "wk_dv": (kv_width, s.hidden), "wv_dv": (kv_width, s.hidden), "wr_du": (heads * s.d_rel, s.hidden),
        "wo_ud": (s.hidden, q),
    }.items():  # fmt: skip
        yield Tensor(name=f"{at}.attn.{name}.weight", kind="attention", shapes=(size,))
    yield _norm(f"{at}.attn.q_norm.weight", width)
    yield _norm(f"{at}.attn.k_norm.weight", width)
    extent = s.window if local else s.extent
    yield Tensor(name=f"{at}.attn.rel_logits_proj.proj", kind="attention", shapes=((s.d_rel, extent),), share="whole")
    for name, channels in {
        "attn.k_sconv": kv_width, "attn.v_sconv": kv_width, "attn_sconv": s.hidden, "mlp_sconv": s.hidden,
    }.items():  # fmt: skip
        sizes = ((channels, 1, s.conv_taps), (channels, s.conv_taps))
        yield Tensor(name=f"{at}.{name}.weight", kind="short convolutions", shapes=sizes)
    yield from (_dense(s, f"{at}.mlp") if dense else _mixture(s, f"{at}.mlp"))


def _dense(s: ModelShape, at: str) -> Iterator[Tensor]:
    yield Tensor(name=f"{at}.w13_dn.weight", kind="dense MLP", shapes=((2 * s.dense_width, s.hidden),))
    yield Tensor(name=f"{at}.w2_md.weight", kind="dense MLP", shapes=((s.hidden, s.dense_width),))
    yield Tensor(name=f"{at}.global_scale", kind="dense MLP", shapes=((1,), ()), share="whole", optional=True)


def _mixture(s: ModelShape, at: str) -> Iterator[Tensor]:
    yield Tensor(name=f"{at}.gate.weight", kind="router", shapes=((s.experts + s.sinks, s.hidden),), share="whole")
    yield Tensor(name=f"{at}.gate.bias", kind="router", shapes=((s.experts,),), dtypes=("F32", "BF16"), share="whole")
    yield Tensor(
        name=f"{at}.gate.global_scale", kind="router", shapes=((1,), ()), dtypes=("F32", "BF16"), share="whole", optional=True
    )  # fmt: skip
    for name, rows, columns in (("w13_weight", 2 * s.expert_width, s.hidden), ("w2_weight", s.hidden, s.expert_width)):
        yield from _experts(s, f"{at}.experts.{name}", rows, columns)
        sinks = ((s.sinks, rows, columns),)
        yield Tensor(name=f"{at}.shared_experts.shared_{name}", kind="sinks", shapes=sinks)


def _experts(s: ModelShape, name: str, rows: int, columns: int) -> Iterator[Tensor]:
    """The routed experts' stack, as it is or as NVFP4: two values in a byte, an fp8 scale for sixteen, and scalars."""
    if s.quantization == "none":
        yield Tensor(name=name, kind="routed experts", shapes=((s.experts, rows, columns),))
        return
    packed, scales = ((s.experts, rows, columns // 2),), ((s.experts, rows, columns // NVFP4_GROUP),)
    if s.quantization == "modelopt-nvfp4":
        names = (name, f"{name}.scale", ((f"{name}.scale2", False), (f"{name}.input_amax", True), (f"{name}.original_shape", True)))
    else:
        names = (
            f"{name}.weight_packed", f"{name}.weight_scale",
            ((f"{name}.weight_global_scale", False), (f"{name}.input_global_scale", True)),
        )  # fmt: skip
    yield Tensor(name=names[0], kind="routed experts", shapes=packed, dtypes=("U8",))
    yield Tensor(name=names[1], kind="routed experts", shapes=scales, dtypes=("F8_E4M3", "U8"))
    for scalar, optional in names[2]:
        yield Tensor(
            name=scalar, kind="routed experts", shapes=(), dtypes=("F32", "BF16", "I32", "I64"), share="whole", optional=optional
        )  # fmt: skip


def _towers(s: ModelShape) -> Iterator[Tensor]:
    if s.patch_px and s.vision_layers:
        folds = image_folds(s.patch_px, s.vision_layers)
        for index, (before, after) in enumerate(itertools.pairwise(folds)):
            last = index == len(folds) - 2
            rows, columns = (s.hidden if last else after[2]), before[2] * after[0] // before[0] * after[1] ** 2 // before[1] ** 2
            yield Tensor(
                name=f"model.visual.layers.linear_{index}.weight", kind="image tower", shapes=((rows, columns),), share="whole"
            )  # fmt: skip
            if not last:
                yield _norm(f"model.visual.layers.norm_{index}.weight", rows, "image tower")
        yield _norm("model.visual.final_norm.weight", s.hidden, "image tower")
    if s.mel_bins and s.mel_levels:
        yield Tensor(
            name="model.audio.encoder.weight", kind="audio tower", shapes=((s.mel_bins * s.mel_levels, s.hidden),), share="whole"
        )
        yield _norm("model.audio.final_norm.weight", s.hidden, "audio tower")


def image_folds(patch_px: int, layers: int) -> list[tuple[int, int, int]]:
    """Frames, pixels and channels after each fold of the image tower, the raw patch first; known for Inkling's 40 px patches.

    Examples
    --------
    >>> image_folds(40, 4)
    [(1, 1, 3), (1, 5, 128), (1, 10, 320), (1, 40, 4800), (2, 40, 9600)]
    """
    plans = {
        (40, 4): [(1, 1, 3), (1, 5, 128), (1, 10, 320), (1, 40, 4800), (2, 40, 9600)],
        (40, 2): [(1, 1, 3), (1, 10, 320), (2, 40, 9600)],
    }  # fmt: skip
    return plans.get((patch_px, layers), [])


def _norm(name: str, width: int, kind: Kind = "norms") -> Tensor:
    return Tensor(name=name, kind=kind, shapes=((width,),), share="whole")
