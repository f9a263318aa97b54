"""Interventions as data: what may be declared, what crosses, what salts, what an engine refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InterventionRefused
from engine.protocol import (
    INTERVENTION_SEAMS,
    Architecture,
    BanExperts,
    DropLogScaling,
    EngineInfo,
    ForceExperts,
    Limits,
    MaskModality,
    MaskSpan,
    ReweightExperts,
    ScaleBias,
    ScaleSconv,
    ScaleSinks,
    Seam,
    Span,
    StretchBias,
)
from engine.protocol.intervention_sets import check, describe, from_json, layers_of, place, salt, to_json

SHAPE = Architecture(
    layers=6, global_layers=(2, 5), moe_layers=(1, 2, 3, 4, 5), experts=8, experts_per_token=2, sinks=2, hidden=32, vocabulary=100,
    heads=4, conv_taps=4,
)  # fmt: skip
INFO = EngineInfo(
    kind="workbench", model="m", limits=Limits(context_tokens=100), architecture=SHAPE,
    interventions=tuple(Seam(name=name, fires=True) for name in INTERVENTION_SEAMS),
)  # fmt: skip

layers = st.one_of(st.sampled_from(["all", "global", "local"]), st.lists(st.integers(0, 5), min_size=1, max_size=3))
several = st.one_of(st.just("all"), st.lists(st.integers(0, 1), min_size=1, max_size=2))
factor = st.floats(0, 4)
experts = st.lists(st.integers(0, 7), min_size=1, max_size=2)
ANY = st.one_of(
    st.builds(BanExperts, layer=st.integers(1, 5), experts=experts),
    st.builds(ForceExperts, layer=st.integers(1, 5), experts=experts),
    st.builds(ReweightExperts, layer=st.integers(1, 5), experts=experts, factor=factor, renormalise=st.booleans()),
    st.builds(ScaleSinks, factor=factor, sinks=several),
    st.builds(ScaleSconv, factor=factor, layers=layers, taps=several, sites=st.sampled_from(["all", "k", ("v", "mlp")])),
    st.builds(ScaleBias, factor=factor, layers=layers, heads=several),
    st.builds(StretchBias, factor=st.floats(0.1, 9), layers=layers, heads=several),
    st.builds(DropLogScaling),
    st.builds(MaskSpan, start=st.integers(0, 9), stop=st.integers(10, 20), layers=layers, sconv=st.booleans()),
    st.builds(MaskModality, modality=st.sampled_from(["text", "image", "audio"])),
)


@given(ANY)
def test_what_crosses_is_what_was_declared(item) -> None:
    values = json.loads(json.dumps(to_json(item)))
    assert from_json(values) == item
    assert len(describe(item)) > 5
    assert hash(item) == hash(from_json(values))


@given(st.lists(ANY, max_size=4), st.randoms())
def test_the_salt_is_of_the_set(items, random) -> None:
    other = list(items)
    random.shuffle(other)
    assert salt(other) == salt(items)
    assert (salt(items) is None) == (not items)
    assert salt([*items, MaskSpan(start=30, stop=31)]) != salt(items)


def test_numbers_come_as_one_as_several_or_as_arrays() -> None:
    assert (
        BanExperts(layer=np.int64(3), experts=5)
        == BanExperts(layer=3, experts=[5, 5])
        == BanExperts(layer=3, experts=np.array([5]))
    )
    assert ScaleSconv(sites="k", taps=0) == ScaleSconv(sites=("k",), taps=(0,))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: BanExperts(layer=-1, experts=5), "layer is -1"),
        (lambda: BanExperts(layer=1, experts=()), "experts is ()"),
        (lambda: BanExperts(layer=True, experts=5), "layer is True"),
        (lambda: BanExperts(layer=1.5, experts=5), "layer is 1.5"),
        (lambda: BanExperts(experts=5), "layer is missing"),
        (lambda: BanExperts(layer=1, experts=5, head=3), "head is 3"),
        (lambda: ScaleSinks(factor=float("nan")), "factor is nan"),
        (lambda: ScaleSinks(factor=-1), "factor is -1"),
        (lambda: StretchBias(factor=0), "factor is 0"),
        (lambda: ScaleSconv(sites="q"), "sites is ('q',) … 'mlp'"),
        (lambda: ScaleBias(layers="some"), "layers is 'some' … 'global'"),
        (lambda: MaskModality(modality="smell"), "modality is 'smell'"),
        (lambda: from_json({"kind": "cook"}), "cook"),
        (lambda: from_json({"kind": "ban-experts", "layer": 1}), "experts is missing"),
        (lambda: from_json({"kind": "ban-experts", "layer": 1, "experts": [1], "colour": "red"}), "colour"),
        (lambda: from_json("ban everything"), "dictionary"),
        (lambda: place(["ban everything"], ()), "not an intervention"),
    ],
)
def test_what_may_not_be_declared(make, said: str) -> None:
    with pytest.raises(InterventionRefused) as caught:
        make()
    assert all(part in caught.value.message for part in said.split(" … "))
    assert "pydantic" not in caught.value.message


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([BanExperts(layer=0, experts=1)], "layer 0 has no experts; layers with experts: 1, 2, 3, 4, 5"),
        ([BanExperts(layer=6, experts=1)], "layer 6"),
        ([BanExperts(layer=1, experts=8)], "no expert 8: this model has 0 to 7"),
        ([BanExperts(layer=1, experts=range(7))], "ban at most 6"),
        ([BanExperts(layer=1, experts=(0, 1, 2)), BanExperts(layer=1, experts=(3, 4, 5, 6))], "ban at most 6"),
        ([ForceExperts(layer=1, experts=(0, 1, 2))], "3 experts are forced, a token has 2"),
        ([ForceExperts(layer=1, experts=3), BanExperts(layer=1, experts=3)], "experts 3 are both"),
        ([ScaleSinks(sinks=2)], "no sink 2"),
        ([ScaleSinks(layers=(0,))], "layer 0 has no sinks"),
        ([ScaleSconv(taps=4)], "no tap 4: this model has 0 to 3"),
        ([ScaleBias(heads=4)], "no head 4: this model has 0 to 3"),
        ([DropLogScaling(layers=(1,))], "layer 1 has no log scaling; global layers: 2, 5"),
        ([DropLogScaling(layers="local")], "none of the local layers"),
        ([MaskSpan(start=4, stop=4)], "not a span of this prompt of 50 tokens"),
        ([MaskSpan(start=4, stop=51)], "not a span"),
        ([MaskModality(modality="image")], "no spans of image"),
        ([MaskModality(modality="image", spans=((0, 60),))], "tokens 0 to 60"),
    ],
)
def test_what_an_engine_refuses(items, said: str) -> None:
    with pytest.raises(InterventionRefused) as caught:
        check(items, INFO, 50)
    assert said in caught.value.message


def test_what_an_engine_cannot_change_says_why() -> None:
    plain = EngineInfo(kind="vllm", model="m", limits=Limits(context_tokens=100))
    with pytest.raises(InterventionRefused, match="a plain vLLM server has no interventions"):
        check([ScaleSinks()], plain, 50)
    check([], plain, 50)
    broken = INFO.model_copy(update={"interventions": (Seam(name="sinks", fires=False, reason="no sinks in this kernel"),)})
    with pytest.raises(InterventionRefused, match="no sinks in this kernel"):
        check([ScaleSinks()], broken, 50)


def test_layers_by_kind() -> None:
    assert layers_of(ScaleBias(layers="local", heads=(0, 1)), SHAPE) == (0, 1, 3, 4)
    assert layers_of(ScaleSinks(layers="local"), SHAPE) == (1, 3, 4)
    assert layers_of(DropLogScaling(layers="all"), SHAPE) == (2, 5)
    check([ScaleBias(layers="global", heads=3)], INFO, 50)


def test_a_masked_modality_is_placed_by_the_spans() -> None:
    def span(start: int, stop: int, modality) -> Span:
        return Span(start=start, stop=stop, part=None, label="x", modality=modality, message=0)

    spans = [span(0, 2, "framing"), span(2, 9, "image"), span(9, 12, "framing"), span(12, 14, "image"), span(14, 20, "text")]
    (placed,) = place(MaskModality(modality="image", sconv=True), spans)
    assert placed == MaskModality(modality="image", sconv=True, spans=((2, 9), (12, 14)))
    with pytest.raises(InterventionRefused, match="no audio to mask; it has framing, image, text"):
        place([MaskModality(modality="audio")], spans)


def test_the_page_says_what_happens() -> None:
    import doctest
    from pathlib import Path

    page = Path(__file__).parents[2] / "docs" / "interventions.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert (failed, tried) == (0, 3)
