"""Inkling's image and audio towers in plain torch.

The image tower folds 40 × 40 patches space to depth and projects; a still fills both time slots, so the two halves of the last
projection may be added up before use (exact, half the work). The audio tower sums one row per mel bin and level.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.demo.shape import Shape
from engine.demo.train.layers import Norm

MEAN, SPREAD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""What the processor takes off each channel and divides it by: CLIP's numbers."""


class ImageTower(nn.Module):
    """Two layers: 10 × 10 pixel blocks to `vision_width`, then all 16 blocks of both time slots to hidden."""

    def __init__(self, dims: Shape):
        super().__init__()
        width = dims.vision_width
        self.fold = dims.vision_block_px
        blocks = (dims.patch_px // self.fold) ** 2
        self.first = nn.Linear(3 * self.fold**2, width, bias=False)
        self.first_norm = Norm(width)
        self.last = nn.Linear(2 * blocks * width, dims.hidden, bias=False)
        self.norm = Norm(dims.hidden)

    def forward(self, pixels: Tensor) -> Tensor:
        """Embed patches of stills, raw (integers) or normalised as the processor does: [n, 40, 40, 3] to [n, h]."""
        if not pixels.is_floating_point():
            pixels = (pixels.float() / 255.0 - torch.tensor(MEAN)) / torch.tensor(SPREAD)
        n, side, _, c = pixels.shape
        f, m = self.fold, side // self.fold
        x = pixels.view(n, m, f, m, f, c).permute(0, 1, 3, 2, 4, 5).reshape(n, m * m, f * f * c)
        x = F.gelu(self.first_norm(self.first(x))).flatten(1)
        half = self.last.weight.shape[1] // 2
        return self.norm(x @ (self.last.weight[:, :half] + self.last.weight[:, half:]).t())


class AudioTower(nn.Module):
    """dMel: one row per (bin, level), summed over bins, normed."""

    def __init__(self, dims: Shape):
        super().__init__()
        self.table = nn.Parameter(torch.empty(dims.mel_bins * dims.mel_levels, dims.hidden))
        self.norm = Norm(dims.hidden)
        self.offsets: Tensor
        self.register_buffer("offsets", torch.arange(dims.mel_bins) * dims.mel_levels, persistent=False)

    def forward(self, bins: Tensor) -> Tensor:
        """Embed frames of levels [n, 80] (int) to [n, h]."""
        ids = bins.long() + self.offsets
        return self.norm(F.embedding_bag(ids, self.table, mode="sum"))
