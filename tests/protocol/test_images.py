"""Image rule and patch grid against the published counts (tokens per image under each rule)."""

import pytest

from engine.protocol import ImageRule

# Width, height, tokens under vLLM's rule (long edge x2 up to 2048), tokens without resize.
# Counted by vLLM 0.32 and tml-renderers 0.2.1.
COUNTS = [
    (40, 40, 6, 2),
    (80, 80, 20, 6),
    (79, 80, 16, 4),
    (512, 384, 520, 130),
    (1024, 768, 2028, 520),
    (1920, 1080, 1508, 1323),
    (4000, 3000, 7575, 7575),
    (8000, 6000, 30150, 30150),
]


@pytest.mark.parametrize(("width", "height", "upscaled", "raw"), COUNTS)
def test_counts(width: int, height: int, upscaled: int, raw: int) -> None:
    assert ImageRule().grid(width, height).tokens == upscaled
    assert ImageRule(upscale=None).grid(width, height).tokens == raw


def test_boxes_tile_the_resized_image() -> None:
    grid = ImageRule().grid(100, 60)
    assert (grid.width_px, grid.height_px, grid.rows, grid.cols) == (200, 120, 3, 6)
    area = sum((r - x) * (b - y) for x, y, r, b in (grid.box_px(i, j) for i in range(grid.rows) for j in range(grid.cols)))
    assert area == 200 * 120
    assert grid.box_px(0, 5) == (200, 0, 200, 40), "the padding column holds no pixels"
