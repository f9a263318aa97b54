"""Names and shapes of a checkpoint's tensors, against real checkpoints and vLLM's own fold plan."""

from __future__ import annotations

import pytest

from engine.demo.random_weights import random_tensors
from engine.demo.shape import Shape
from engine.inkling import ModelShape, published
from engine.inkling.tensors import image_folds, tensors


def test_the_demos_tensors_are_exactly_the_ones_that_are_written() -> None:
    shape = Shape()
    expected = {tensor.name: tensor for tensor in tensors(ModelShape.from_config(shape.config()))}
    written = random_tensors(shape)
    assert set(written) == set(expected)
    for name, values in written.items():
        assert tuple(values.shape) in expected[name].shapes, name


def test_the_image_towers_folds_are_vllms() -> None:
    towers = pytest.importorskip("vllm.models.inkling.common.towers")
    for layers in (2, 4):
        assert [(t, h, c) for t, h, _, c in towers.plan_out_scales(2, 40, layers)] == image_folds(40, layers)


@pytest.mark.parametrize(
    ("model", "gigabytes"),
    [
        ("thinkingmachines/Inkling-NVFP4", 592),
        ("thinkingmachines/Inkling", 1890),
        ("thinkingmachines/Inkling-Small", 544),
    ],
)
def test_checkpoints_have_the_published_size(model: str, gigabytes: int) -> None:
    shape = published(model)
    assert shape is not None
    known = sum(tensor.disk_bytes for tensor in tensors(shape)) / 1e9
    # Ten per cent: published sizes are rounded, and hold metadata and scales that are not part of the arithmetic.
    assert known == pytest.approx(gigabytes, rel=0.10)


def test_small_inklings_drafts_have_the_published_size() -> None:
    shape = published("thinkingmachines/Inkling-Small")
    assert shape is not None
    drafts = sum(tensor.disk_bytes for tensor in tensors(shape) if tensor.kind == "drafts") / 1e9
    assert drafts == pytest.approx(4.5, rel=0.03)  # published to two digits
