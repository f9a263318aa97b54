"""The demo checkpoint is what it says: official tokenizer, original layout, deterministic, all or nothing."""

import json
import multiprocessing
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from tml_renderers.tokenizers import O200kBaseChatTokenizer
from tokenizers import Tokenizer

import engine.demo
from engine.demo.random_weights import random_tensors
from engine.demo.rows import spelled_rows
from engine.demo.shape import END_SAMPLING, PADDED_VOCABULARY, VOCABULARY, Shape
from engine.demo.tokenizer import build_tokenizer
from engine.demo.trained import COMPACT
from engine.errors import EngineError
from engine.protocol.framing import FramingIds

OFFICIAL = O200kBaseChatTokenizer()

CORPUS = [
    "Reply with the code 482|13.\n\n\tdef f(x):\n        return x  # ok\n",
    "The U.S. GDP grew 12,345.678% in 2024!!! don't DON'T I'll we've",
    "Größenänderung, naïve café, ÉCOLE, ǅungla, İstanbul, ΑΒΓ αβγ, привет МИР, 日本語のテキスト、中文字符。한국어",
    "emoji 👩‍👩‍👧‍👦 🇩🇪 ✋🏽 zero\u200bwidth\u00a0space e\u0301 \u0000\x7f\ufffd",
    "    \n \n\r\n\r\n  \t\t x   y\u3000z  ",
    "https://example.org/a_b?c=d&e=%20f/g//h \\\\ {}[]()<>~`^ ==> != //// \n/\n/",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 000000000000000000 ----------------------------",
    "حرف عربي مع تشكيلٍ، עברית, हिन्दी में पाठ, ภาษาไทย, ελληνικά",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return build_tokenizer()


def test_tokenizer_encodes_as_the_makers_do(tokenizer: Tokenizer) -> None:
    texts = [*CORPUS, *(path.read_text(encoding="utf-8") for path in Path(engine.demo.__file__).parent.glob("*.py"))]
    for text in texts:
        if "<|" not in text:
            assert tokenizer.encode(text).ids == OFFICIAL.encode_ordinary(text)
            assert tokenizer.decode(tokenizer.encode(text).ids) == text


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60).filter(lambda text: "<|" not in text))
def test_tokenizer_encodes_any_text_as_the_makers_do(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.encode(text).ids == OFFICIAL.encode_ordinary(text)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="aeinorst AB'.0\n", max_size=60))
def test_tokenizer_merges_as_the_makers_do(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.encode(text).ids == OFFICIAL.encode_ordinary(text)


def test_special_tokens_have_the_official_ids(tokenizer: Tokenizer) -> None:
    names = OFFICIAL.special_tokens()
    assert {name: tokenizer.token_to_id(f"<|{name}|>") for name in names} == {n: OFFICIAL.encode_special(n) for n in names}
    assert tokenizer.get_vocab_size() == VOCABULARY
    ids = FramingIds.lookup(tokenizer.token_to_id)
    assert ids.content_model_end_sampling == END_SAMPLING
    assert (ids.message_user, ids.content_image, ids.content_audio_input) == (200_000, 200_005, 200_020)
    assert ids.slots() == {"image": 200_054, "audio": 200_053}


def test_weights_are_deterministic_and_seeded() -> None:
    shape = Shape(layers=2, experts=4, draft_layers=0)
    first, again, other = random_tensors(shape), random_tensors(shape), random_tensors(shape, seed=1)
    assert list(first) == list(again) == list(other)
    for name, tensor in first.items():
        assert tensor.equal(again[name])
        assert not tensor.equal(other[name])
    assert first["model.llm.embed.weight"].shape == (PADDED_VOCABULARY, shape.hidden)


def test_transformers_loads_every_tensor(demo_folder: Path) -> None:
    from transformers import InklingForConditionalGeneration

    model, report = InklingForConditionalGeneration.from_pretrained(demo_folder, dtype=torch.bfloat16, output_loading_info=True)
    # An unknown name, an absent one or a wrong shape would be listed; the drafting head is not transformers' to load.
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"))
    text, shape = model.config.text_config, Shape()
    assert (text.intermediate_size, text.moe_intermediate_size) == (shape.dense_width, shape.expert_width)
    assert text.layer_types == ["hybrid_sliding"] * 5 + ["hybrid"]
    assert text.mlp_layer_types == ["dense"] + ["sparse"] * 5
    assert (text.log_scaling_n_floor, text.log_scaling_alpha, text.max_position_embeddings) == (128, 0.2, 1 << 20)
    with safe_open(demo_folder / "model.safetensors", "pt") as stored:
        # Rows of gate and up alternate in the checkpoint and are apart in transformers.
        interleaved = stored.get_tensor("model.llm.layers.1.mlp.experts.w13_weight")
        assert model.model.language_model.layers[1].mlp.experts.gate_up_proj[0, : shape.expert_width].equal(interleaved[0, 0::2])


def test_the_marker_says_whether_it_was_trained(demo_folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    assert not engine.demo.is_random(demo_folder)
    assert engine.demo.is_random(tiny_folder)
    assert not engine.demo.is_random(tmp_path)
    (tmp_path / "workbench.json").write_text("{")
    with pytest.raises(EngineError, match=r"workbench\.json"):
        engine.demo.is_random(tmp_path)


def test_the_released_weights_are_what_is_unpacked(demo_folder: Path) -> None:
    """Trained rows where there are any, rows from spellings elsewhere; the head is the embedding times one vector."""
    with safe_open(COMPACT, "pt") as released, safe_open(demo_folder / "model.safetensors", "pt") as unpacked:
        assert COMPACT.stat().st_size < 25e6
        ids, scale = released.get_tensor("rows.ids").long(), released.get_tensor("rows.head_scale").float()
        embed, head = (unpacked.get_tensor(f"model.llm.{name}.weight") for name in ("embed", "unembed"))
        assert embed[ids].equal(released.get_tensor("rows.trained"))
        other = torch.ones(PADDED_VOCABULARY, dtype=torch.bool).index_fill(0, ids, False)
        drawn = torch.from_numpy(spelled_rows(Shape().hidden)).bfloat16()
        assert embed[other].equal(drawn[other])
        # One rounding to bfloat16: at most 2^-8 of the value.
        assert torch.allclose(head[other].float(), drawn[other].float() * scale, rtol=2**-8, atol=0)
        same = [name for name in released.keys() if not name.startswith("rows.")]  # noqa: SIM118
        assert len(same) > 100
        assert all(released.get_tensor(name).equal(unpacked.get_tensor(name)) for name in same)


def test_processor_config_is_the_default_image_rule(demo_folder: Path) -> None:
    config = json.loads((demo_folder / "preprocessor_config.json").read_text())
    assert (config["rescale_image_frac"], config["rescale_image_max_upscaled_long_edge"], config["patch_size"]) == (2.0, 2048, 40)


def test_two_processes_make_one_checkpoint(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        folders = pool.map(_unpack, [tmp_path, tmp_path])
    assert folders[0] == folders[1]
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == [folders[0].name]


def test_a_cache_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError, match="INKLING_CACHE"):
        engine.demo.unpack(cache=tmp_path / "file")


def _unpack(cache: Path) -> Path:
    return engine.demo.unpack(cache=cache)
