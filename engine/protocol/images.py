"""How many tokens an image costs: the resize and patch rule an engine runs, as data.

Inkling cuts an image into 40 × 40 pixel patches, one token each. Engines differ in the resize before that: vLLM doubles the
long edge up to 2048 px unless the checkpoint's processor config says otherwise, transformers' bare class does not resize. The
engine publishes its rule in ``info``; the composer counts by it. This module does not touch pixels.

Source: vLLM 0.32 ``models/inkling/common/mm_preprocess.py``; transformers ``models/inkling`` image processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchGrid:
    """Patches of one image: `rows` × `cols` tokens over `width_px` × `height_px` resized pixels, row by row."""

    rows: int
    cols: int
    width_px: int
    height_px: int
    patch_px: int = 40

    @property
    def tokens(self) -> int:
        """Placeholder tokens: one per patch."""
        return self.rows * self.cols

    def box_px(self, row: int, col: int) -> tuple[int, int, int, int]:
        """(left, top, right, bottom) of a patch in resized pixels, clipped to the image; empty for the padding column."""
        left, top = min(col * self.patch_px, self.width_px), min(row * self.patch_px, self.height_px)
        return left, top, min(left + self.patch_px, self.width_px), min(top + self.patch_px, self.height_px)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRule:
    """Resize and patch rule of one engine.

    Attributes
    ----------
    upscale : float or None
        Factor on the long edge, or None for no resize. The target long edge is ``min(upscale·L, max(cap_px, L))``: an image
        already above the cap keeps its size.
    cap_px : int
        Long edge up to which an image is enlarged, in pixels.
    patch_px : int
        Side of a patch, in pixels.
    """

    upscale: float | None = 2.0
    cap_px: int = 2048
    patch_px: int = 40

    @property
    def id(self) -> str:
        """Short name of the rule; part of the media identity an engine caches by."""
        return f"x{self.upscale:g}cap{self.cap_px}p{self.patch_px}" if self.upscale else f"rawp{self.patch_px}"

    def resized_px(self, width_px: int, height_px: int) -> tuple[int, int]:
        """Size after the resize, halves rounded up as vLLM does."""
        long_edge = max(width_px, height_px)
        if not self.upscale:
            return width_px, height_px
        target = min(self.upscale * long_edge, max(self.cap_px, long_edge))
        scale = target / long_edge
        if scale == 1.0:
            return width_px, height_px
        return max(1, int(width_px * scale + 0.5)), max(1, int(height_px * scale + 0.5))

    def grid(self, width_px: int, height_px: int) -> PatchGrid:
        """The patch grid of an image of this size: ``ceil(H/40)`` rows, ``floor(W/40) + 1`` columns.

        Examples
        --------
        >>> ImageRule().grid(512, 384).tokens
        520
        >>> ImageRule(upscale=None).grid(512, 384).tokens
        130
        """
        width, height = self.resized_px(width_px, height_px)
        rows, cols = ceil(height / self.patch_px), width // self.patch_px + 1
        return PatchGrid(rows=rows, cols=cols, width_px=width, height_px=height, patch_px=self.patch_px)


DEFAULT_IMAGE_RULE = ImageRule()
"""The model's default: what vLLM runs when a checkpoint's processor config is silent."""
