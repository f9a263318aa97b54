"""Pixels to patches and samples to dMel frames, as an engine's processor does it, in numpy.

Patches keep raw values, because the towers normalise: 0 to 255, and -1 where the processor pads (below the image and in the extra
column to its right). Frames are levels 0 to 15. Tests hold both equal to vLLM's processors.
Source: vLLM 0.32 ``transformers_utils/processors/inkling.py``.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.protocol.images import DEFAULT_IMAGE_RULE

RATE_HZ = 16_000
HOP, WINDOW = 800, 1600
MEL_BINS, LEVELS, LOWEST, HIGHEST = 80, 16, -7.0, 2.0
PADDING = -1


def patches_of(pixels: NDArray[np.uint8]) -> NDArray[np.int16]:
    """Patches [n, 40, 40, 3] of an image [h, w, 3], row by row, after the default rule's enlargement."""
    from PIL import Image

    rule, (height, width, _) = DEFAULT_IMAGE_RULE, pixels.shape
    grid, side = rule.grid(width, height), rule.patch_px
    if (grid.width_px, grid.height_px) != (width, height):
        image = Image.fromarray(pixels).resize((grid.width_px, grid.height_px), Image.Resampling.LANCZOS)
        pixels = np.asarray(image)
    whole = np.full((grid.rows * side, grid.cols * side, 3), PADDING, np.int16)
    whole[: grid.height_px, : grid.width_px] = pixels
    blocks = whole.reshape(grid.rows, side, grid.cols, side, 3).swapaxes(1, 2)
    return blocks.reshape(grid.tokens, side, side, 3)


def frames_of(samples: NDArray[np.float32]) -> NDArray[np.uint8]:
    """dMel levels [n, 80] of 16 kHz samples, one frame for every started 50 ms."""
    count = -(-len(samples) // HOP)
    padded = np.zeros((count + 1) * HOP, np.float32)
    padded[WINDOW - HOP : WINDOW - HOP + len(samples)] = samples
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP] * _hann()
    power = np.abs(np.fft.rfft(windows)).astype(np.float32)
    mel = np.log10(np.maximum(np.maximum(power, 1e-5) @ _mel_basis(), 1e-10)).clip(LOWEST, HIGHEST)
    step = (HIGHEST - LOWEST) / (LEVELS - 1)
    return np.rint((mel - LOWEST) / step).astype(np.uint8)


@lru_cache(1)
def _hann() -> NDArray[np.float32]:
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)).astype(np.float32)


@lru_cache(1)
def _mel_basis() -> NDArray[np.float32]:
    """Slaney's mel triangles with area normalisation, [bins of the spectrum, mel bins]."""
    linear, corner, ratio = 200.0 / 3.0, 15.0, np.log(6.4) / 27.0

    def hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(mel < corner, mel * linear, 1000.0 * np.exp(ratio * (mel - corner)))

    top = corner + np.log(RATE_HZ / 2 / 1000.0) / ratio
    edges = hz(np.linspace(0.0, top, MEL_BINS + 2))
    bins = np.arange(WINDOW // 2 + 1) * RATE_HZ / WINDOW
    widths = np.diff(edges)
    rising = (bins[None] - edges[:-2, None]) / widths[:-1, None]
    falling = (edges[2:, None] - bins[None]) / widths[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling)) * (2.0 / (edges[2:] - edges[:-2]))[:, None]
    return np.ascontiguousarray(triangles.T.astype(np.float32))
