"""Sizes from both dialects of a config, against transformers' own reading of the same files."""

from __future__ import annotations

import pytest

from engine.demo.shape import Shape
from engine.errors import BadRequest
from engine.inkling import ModelShape, published, published_names
from engine.inkling.shape import CONFIGS


def theirs(config: dict) -> dict:
    """The same model as transformers would write it down."""
    from transformers import InklingConfig

    written = InklingConfig(**config).to_dict()
    written["mtp_config"] = config["mtp_config"]
    return written


@pytest.mark.parametrize("name", sorted(published_names()))
def test_published_models_have_the_published_sizes(name: str) -> None:
    shape = published(name)
    assert shape is not None
    small = "Small" in name
    assert (shape.layers, shape.global_layers, shape.hidden) == ((42, 7, 4096) if small else (66, 11, 6144))
    assert (shape.kv_heads, shape.local_kv_heads) == ((8, 8) if small else (8, 16))
    assert (shape.dense_width, shape.expert_width) == ((16384, 2048) if small else (24576, 3072))
    assert shape.quantization == ("modelopt-nvfp4" if name.endswith("NVFP4") else "none")


def test_both_dialects_read_alike() -> None:
    config = Shape().config()
    ours, other = ModelShape.from_config(config), ModelShape.from_config(theirs(config))
    assert ours.dialect == "original"
    for field in ("hidden", "local_layers", "dense_layers", "dense_width", "expert_width", "conv_taps", "context", "draft_layers"):
        assert getattr(other, field) == getattr(ours, field), field


def test_transformers_dialect_alone_is_understood() -> None:
    config = Shape().config()
    text = dict(config["text_config"])
    for ours, other in {"sconv_kernel_size": "conv_kernel_size", "model_max_length": "max_position_embeddings"}.items():
        text[other] = text.pop(ours)
    text["intermediate_size"] = text.pop("dense_intermediate_size")
    text["layer_types"] = [
        "hybrid_sliding" if layer in text["local_layer_ids"] else "hybrid" for layer in range(text["num_hidden_layers"])
    ]
    text["mlp_layer_types"] = [
        "dense" if layer < text.pop("dense_mlp_idx", 1) else "sparse" for layer in range(text["num_hidden_layers"])
    ]
    del text["local_layer_ids"]
    shape = ModelShape.from_config(config | {"text_config": text})
    wanted = ModelShape.from_config(config)
    assert shape.dialect == "transformers"
    assert (shape.dense_width, shape.expert_width) == (wanted.dense_width, wanted.expert_width) == (512, 64)
    assert (shape.local_layers, shape.dense_layers) == (wanted.local_layers, wanted.dense_layers)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hidden_size": None}, "no hidden_size"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"num_attention_heads": True}, "True"),
        ({"local_layer_ids": None, "layer_types": None}, "which layers slide"),
        ({"local_layer_ids": [0, 99]}, "99"),
        ({"dense_mlp_idx": None}, "which layers are dense"),
        ({"d_rel": None}, "d_rel"),
    ],
)
def test_a_size_that_is_missing_or_nonsense_is_named(change: dict, says: str) -> None:
    config = Shape().config()
    text = config["text_config"] | change
    text = {key: value for key, value in text.items() if value is not None}
    with pytest.raises(BadRequest, match=says):
        ModelShape.from_config(config | {"text_config": text})


@pytest.mark.parametrize("config", [{}, {"text_config": {}}, {"model_type": "llama", "hidden_size": 4096}])
def test_another_models_config_is_no_inkling(config: dict) -> None:
    with pytest.raises(BadRequest, match="not an Inkling config"):
        ModelShape.from_config(config)


@pytest.mark.parametrize(
    ("quantization", "kind"),
    [
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "modelopt-nvfp4"),
        ({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}, "compressed-nvfp4"),
        (None, "none"),
    ],
)
def test_both_ways_of_writing_nvfp4_are_known(quantization, kind: str) -> None:
    assert ModelShape.from_config(Shape().config() | {"quantization_config": quantization}).quantization == kind


def test_another_quantization_is_refused_by_name() -> None:
    with pytest.raises(BadRequest, match="fp8"):
        ModelShape.from_config(Shape().config() | {"quantization_config": {"quant_method": "fp8"}})


def test_every_config_file_is_used() -> None:
    assert {path.name for path in CONFIGS.glob("*.json")} == {*published_names().values(), "names.json"}
