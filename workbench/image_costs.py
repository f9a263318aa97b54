"""What an image costs before it is sent, and a smaller size when it costs more than it shows.

By the engine's own resize and patch rule (:class:`engine.protocol.ImageRule`), so the numbers are the ones the engine will count.
Touches no pixels.

Source of the sides a model was made for: the model card (40 to 4096 px).
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.protocol import DEFAULT_IMAGE_RULE, ImageRule, PatchGrid

SMALLEST_PX, LARGEST_PX = 40, 4096
"""Sides the model card calls ideal."""
LARGE_TOKENS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCost:
    """Cost of one image.

    Attributes
    ----------
    grid : PatchGrid
        Rows and columns of patches over the image as the engine resizes it.
    suggestion : tuple of int or None
        Width and height in pixels at which it costs less and the engine shows the model as much as it enlarges small images to;
        None when there is nothing to save.
    suggested_tokens : int or None
    """

    width_px: int
    height_px: int
    grid: PatchGrid
    suggestion: tuple[int, int] | None = None
    suggested_tokens: int | None = None

    @property
    def tokens(self) -> int:
        return self.grid.tokens

    def __str__(self) -> str:
        shown = f"{self.width_px} × {self.height_px} px: {self.grid.rows} × {self.grid.cols} patches, {self.tokens:,} tokens"
        if self.suggestion is None:
            return shown
        return f"{shown} ({self.suggested_tokens:,} at {self.suggestion[0]} × {self.suggestion[1]} px)"


def cost_of(width_px: int, height_px: int, rule: ImageRule = DEFAULT_IMAGE_RULE) -> ImageCost:
    """Cost of an image of this size, with a suggestion when it is large.

    Examples
    --------
    >>> print(cost_of(512, 384))
    512 × 384 px: 20 × 26 patches, 520 tokens
    >>> cost_of(4000, 3000).tokens, cost_of(4000, 3000).suggestion, cost_of(4000, 3000).suggested_tokens
    (7575, (2048, 1536), 2028)
    """
    grid = rule.grid(width_px, height_px)
    if grid.tokens <= LARGE_TOKENS and max(width_px, height_px) <= LARGEST_PX:
        return ImageCost(width_px=width_px, height_px=height_px, grid=grid)
    size = at_long_edge(width_px, height_px, min(rule.cap_px, max(width_px, height_px)))
    smaller = rule.grid(*size).tokens
    if smaller >= grid.tokens:
        return ImageCost(width_px=width_px, height_px=height_px, grid=grid)
    return ImageCost(width_px=width_px, height_px=height_px, grid=grid, suggestion=size, suggested_tokens=smaller)


def size_within(width_px: int, height_px: int, most_tokens: int, rule: ImageRule = DEFAULT_IMAGE_RULE) -> tuple[int, int] | None:
    """The largest size of the same shape that costs at most `most_tokens`; None when none does.

    Examples
    --------
    >>> size_within(4000, 3000, 1000)
    (720, 540)
    """
    low, high = 0, max(width_px, height_px)
    while low < high:
        middle = (low + high + 1) // 2
        if rule.grid(*at_long_edge(width_px, height_px, middle)).tokens <= most_tokens:
            low = middle
        else:
            high = middle - 1
    return at_long_edge(width_px, height_px, low) if low else None


def at_long_edge(width_px: int, height_px: int, long_edge_px: int) -> tuple[int, int]:
    """Width and height of the same shape with this long edge."""
    scale = long_edge_px / max(width_px, height_px)
    return max(1, round(width_px * scale)), max(1, round(height_px * scale))
