"""Temperature, min-p and Gumbel-max sampling of the V2 runner, with the GPUs' own random numbers.

A token's noise is a hash (Murmur3) of the request's seed, its position and the token's id: the same seed draws the same tokens here
and on a GPU as far as their logits agree. Noise is drawn only for tokens that can win: after top-k few of the 200,058 are left.
Source: vLLM 0.32 ``v1/worker/gpu/sample/{gumbel,min_p}.py``.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

DRAFT_SALT = 1 << 30
"""Keeps a draft's noise apart from the noise that verifies it."""

LARGEST_NOISE = {False: 24.0, True: 38.0}
"""More than any noise in float32 (-ln(2⁻³³) = 22.9) and in float64 (-ln(2⁻⁵³) = 36.7)."""

_MIX, _MIX2, _FINAL, _FINAL2, _ADD = (np.uint32(x) for x in (0xCC9E2D51, 0x1B873593, 0x85EBCA6B, 0xC2B2AE35, 0xE6546B64))


def hash32(seed: int, position: int, ids: NDArray[np.uint32], domain: int = 0) -> NDArray[np.uint32]:
    """Murmur3 of (seed, position, id): one 32-bit number per id."""
    h = np.full(1, domain, np.uint32)
    for word in (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF, position & 0xFFFFFFFF):
        h = _mix(h, np.full(1, word, np.uint32))
    h = _mix(h, ids) ^ np.uint32(16)
    h = (h ^ (h >> np.uint32(16))) * _FINAL
    h = (h ^ (h >> np.uint32(13))) * _FINAL2
    return h ^ (h >> np.uint32(16))


def gumbel_noise(seed: int, position: int, ids: NDArray[np.uint32], *, double: bool = False) -> torch.Tensor:
    """Gumbel(0, 1) noise of each id, float32 or float64."""
    random = hash32(seed, position, ids)
    if double:
        wide = (hash32(seed, position, ids, domain=0x9E3779B9).astype(np.uint64) << np.uint64(32)) | random
        uniform = ((wide >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return torch.from_numpy(-np.log(-np.log(np.minimum(uniform, 1 - 2.0**-53))))
    high, low = (random >> np.uint32(16)).astype(np.float32), (random & np.uint32(0xFFFF)).astype(np.float32)
    uniform = torch.from_numpy(high * np.float32(2**-16) + (low + np.float32(0.5)) * np.float32(2**-32))
    # The winning tail lies at u → 0, where float32 is fine; the other end is kept off log 0 as the kernel does.
    return -torch.log(-torch.log1p(-uniform.clamp(max=1 - 2.0**-24)))


def _mix(h: NDArray[np.uint32], key: NDArray[np.uint32]) -> NDArray[np.uint32]:
    key = key * _MIX
    key = ((key << np.uint32(15)) | (key >> np.uint32(17))) * _MIX2
    h = h ^ key
    return ((h << np.uint32(13)) | (h >> np.uint32(19))) * np.uint32(5) + _ADD


def temperature(
    logits: torch.Tensor,
    logits_stride: int,
    expanded_idx_mapping: torch.Tensor,
    temperature: torch.Tensor,
    vocab_size: int,
    BLOCK_SIZE: int,
) -> None:
    """Divide each row by its request's temperature, in place; 0 (greedy) and 1 leave it alone."""
    for row, value in zip(logits, temperature[expanded_idx_mapping.long()].tolist(), strict=True):
        if value not in (0.0, 1.0):
            row[:vocab_size] /= value


def min_p(
    logits: torch.Tensor,
    logits_stride: int,
    expanded_idx_mapping: torch.Tensor,
    min_p: torch.Tensor,
    vocab_size: int,
    BLOCK_SIZE: int,
) -> None:
    """Mask tokens less likely than `min_p` times the likeliest, in place."""
    for row, share in zip(logits, min_p[expanded_idx_mapping.long()], strict=True):
        if share > 0:
            row.masked_fill_(row < row.max() + share.log(), -torch.inf)


def gumbel_sample(
    local_argmax: torch.Tensor,
    local_argmax_stride: int,
    local_max: torch.Tensor,
    local_max_stride: int,
    logits_cache: torch.Tensor | None,
    logits_cache_stride_0: int,
    logits_cache_stride_1: int,
    logits_cache_col: torch.Tensor | None,
    logits_cache_source: torch.Tensor | None,
    logits_cache_source_stride: int,
    logits: torch.Tensor,
    logits_stride: int,
    expanded_idx_mapping: torch.Tensor,
    seeds: torch.Tensor,
    pos: torch.Tensor,
    temp: torch.Tensor,
    vocab_size: int,
    BLOCK_SIZE: int,
    IS_DRAFTING: bool,
    APPLY_TEMPERATURE: bool,
    USE_FP64: bool,
    PER_TOKEN_COL: bool,
) -> None:
    """Sampled token of each row: the largest logit plus noise, or the largest logit at temperature 0.

    The launcher reduces over blocks of the vocabulary afterwards; the whole row is done here and reported as the first block.
    """
    local_max.fill_(-torch.inf)
    local_argmax.zero_()
    for row, state in enumerate(expanded_idx_mapping.tolist()):
        heat = float(temp[state]) if state >= 0 else 0.0
        if logits_cache is not None and logits_cache_source is not None and logits_cache_col is not None and state >= 0:
            column = int(logits_cache_col[row] if PER_TOKEN_COL else logits_cache_col)
            logits_cache[state, column, :vocab_size] = logits_cache_source[row]
        local_argmax[row, 0], local_max[row, 0] = noised_argmax(
            logits[row].float(), heat, int(seeds[state]) if state >= 0 else 0, int(pos[row]) + (DRAFT_SALT if IS_DRAFTING else 0),
            scaled=not APPLY_TEMPERATURE, double=USE_FP64,
        )  # fmt: skip


def noised_argmax(values: torch.Tensor, heat: float, seed: int, place: int, *, scaled: bool, double: bool) -> tuple[int, float]:
    """The id whose logit plus noise is largest, and that sum; at temperature 0 the id of the largest logit.

    `scaled` logits were divided by the temperature `heat` before. A row without a finite logit gives id 0 and minus infinity.
    """
    if heat == 0.0:
        best = int(values.numpy().argmax())  # much faster than torch's
        return best, float(values[best])
    drawn = values if scaled else values / heat
    likeliest = int(drawn.numpy().argmax())
    if not math.isfinite(drawn[likeliest]):
        drawn = drawn.nan_to_num(nan=-math.inf, posinf=-math.inf)
        likeliest = int(drawn.argmax())
        if not math.isfinite(drawn[likeliest]):
            return 0, -math.inf
    # What the likeliest reaches with its own noise, no token reaches that even the largest noise leaves below it.
    reached = float(drawn[likeliest]) + float(gumbel_noise(seed, place, np.array([likeliest], np.uint32), double=double)[0])
    ids = (drawn >= reached - LARGEST_NOISE[double]).nonzero()[:, 0]
    drawn = drawn[ids]
    noise = gumbel_noise(seed, place, ids.numpy().astype(np.uint32), double=double)
    drawn = drawn.to(noise.dtype) + noise
    best = int(drawn.argmax())
    return int(ids[best]), float(drawn[best])


KERNELS = {
    "gumbel._temperature_kernel": temperature,
    "gumbel._gumbel_sample_kernel": gumbel_sample,
    "min_p._min_p_kernel": min_p,
}
"""Kernels of ``vllm.v1.worker.gpu.sample`` by module and name."""
