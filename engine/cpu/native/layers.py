"""Calling the native versions of the small operations between matrix products: short convolutions, norms, router, activations.

Each function here does what the torch function of the same purpose in :mod:`engine.cpu` does, for float32 in main memory, or
answers None: the caller then goes on with torch. What they save is Python and dispatch, a dozen torch calls each, which is most of
a decode step of a small model; on long chunks they save passes over memory.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from .building import NotBuilt, load, switched_off

FEW = 64
"""Rows up to which the native version of an operation that torch vectorises better is taken."""

WIDEST_HEAD, MOST_TAPS = 512, 8

WIDEST_COARSE = 512
"""Channels of which the rounded products add up within 32 bits."""

log = logging.getLogger(__name__)
_Pointer, _Long, _Int, _Float = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_float


class _Taps(ctypes.Structure):
    _fields_ = (
        [(name, _Pointer) for name in ("cache", "positions", "table", "request", "slots", "start")]
        + [(name, _Long) for name in ("block", "head", "place", "table_row")]
        + [(name, _Int) for name in ("page", "taps", "rows", "threads")]
    )


class _Prepared(ctypes.Structure):
    _fields_ = (
        [(name, _Pointer) for name in (
            "fused", "key_weight", "value_weight", "query_norm", "key_norm", "bank", "factor", "slots", "queries", "relative",
            "branch", "key_cache", "value_cache",
        )]
        + [(name, _Long) for name in ("stride", "key_block", "key_slot", "key_head", "value_block", "value_slot", "value_head")]
        + [(name, _Int) for name in ("heads", "kv_heads", "width", "d_rel", "extent", "page", "offset")]
        + [("eps", _Float)]
    )  # fmt: skip


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """The library, built on the first call; None where torch computes."""
    if switched_off():
        return None
    try:
        found = load("layers", "-march=native")
    except NotBuilt as problem:
        log.warning("layers are computed by torch alone: %s", problem)
        return None
    found.inkling_sconv.argtypes = [ctypes.POINTER(_Taps), _Pointer, _Pointer, _Pointer, _Int, _Int, _Int]
    found.inkling_prepare.argtypes = [ctypes.POINTER(_Taps), ctypes.POINTER(_Prepared)]
    found.inkling_add_norm.argtypes = [_Pointer, _Pointer, _Pointer, _Float, _Pointer, _Pointer, _Int, _Int, _Int]
    found.inkling_choose.argtypes = [_Pointer, _Long, _Pointer, _Int, _Int, _Int, _Float, _Pointer, _Pointer, _Int]
    found.inkling_few_rows.argtypes = [_Pointer, _Pointer, _Float, _Pointer, _Int, _Long, _Int, _Int]
    found.inkling_likeliest.argtypes = [_Pointer, _Pointer, _Pointer, _Pointer, _Pointer, _Int, _Long, _Int, _Int]
    found.inkling_gated.argtypes = [_Pointer, _Pointer, _Pointer, _Long, _Pointer, _Pointer, _Int, _Int, _Int]
    return found


def plain(*tensors: torch.Tensor) -> bool:
    """Whether all are dense float32 in main memory."""
    return all(x.dtype == torch.float32 and x.is_contiguous() and x.device.type == "cpu" for x in tensors)


def _taps(cache: torch.Tensor, step: Sequence[torch.Tensor], taps: int, rows: int) -> _Taps | None:
    """Where the taps lie; None when it is not laid out as the kernels read it."""
    positions, table, request, slots, start = step
    fits = (
        cache.dtype == torch.float32 and cache.stride(3) == 1 and taps <= MOST_TAPS and table.stride(1) == 1
        and positions.dtype == slots.dtype == torch.int64 and table.dtype == request.dtype == start.dtype == torch.int32
        and positions.is_contiguous() and slots.is_contiguous() and request.is_contiguous() and start.is_contiguous()
    )  # fmt: skip
    if not fits:
        return None
    block, head, place, _ = cache.stride()
    return _Taps(
        cache.data_ptr(), positions.data_ptr(), table.data_ptr(), request.data_ptr(), slots.data_ptr(), start.data_ptr(),
        block, head, place, table.stride(0), cache.shape[2], taps, rows, torch.get_num_threads(),
    )  # fmt: skip


def sconv(
    x: torch.Tensor, weight: torch.Tensor, cache: torch.Tensor, offset: int, width: int, step: Sequence[torch.Tensor]
) -> torch.Tensor | None:
    """:func:`engine.cpu.sconv.convolve`; `step` are its last five arguments."""
    found = library()
    if found is None or not plain(x, weight) or (taps := _taps(cache, step, weight.shape[1], len(x))) is None:
        return None
    out = torch.empty_like(x)
    found.inkling_sconv(taps, x.data_ptr(), weight.data_ptr(), out.data_ptr(), cache.shape[1], width, offset)
    return out


def prepare(
    fused: torch.Tensor, weights: Sequence[torch.Tensor], bank: torch.Tensor, eps: float, heads: int, kv_heads: int, width: int,
    cache: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, step: Sequence[torch.Tensor], slots: torch.Tensor,
    offset: int, factor: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor] | None:  # fmt: skip
    """:func:`engine.cpu.qkvr.fused_qkvr_prep`; `weights` are its four vectors and taps, `step` as in :func:`sconv`."""
    found, rows, (d_rel, extent) = library(), len(fused), bank.shape
    fits = (
        found is not None and plain(*weights, bank) and fused.dtype == key_cache.dtype == value_cache.dtype == torch.float32
        and fused.stride(1) == key_cache.stride(3) == value_cache.stride(3) == 1
        and slots.dtype == torch.int64 and slots.is_contiguous() and width <= WIDEST_HEAD and (factor is None or plain(factor))
    )  # fmt: skip
    if found is None or not fits or (taps := _taps(cache, step, weights[0].shape[1], rows)) is None:
        return None
    queries = torch.empty(rows, heads * width)
    # Many rows: the product with the bank is a matrix product, and MKL's.
    many = rows > FEW
    branch = torch.empty(rows, heads, d_rel) if many else None
    relative = None if many else torch.empty(rows, heads, extent)
    found.inkling_prepare(taps, _Prepared(
        fused.data_ptr(), *[weight.data_ptr() for weight in weights], bank.data_ptr(),
        _address(factor), slots.data_ptr(), queries.data_ptr(),
        _address(relative), _address(branch),
        key_cache.data_ptr(), value_cache.data_ptr(), fused.stride(0), *key_cache.stride()[:3], *value_cache.stride()[:3],
        heads, kv_heads, width, d_rel, extent, key_cache.shape[1], offset, eps,
    ))  # fmt: skip
    return queries, relative if relative is not None else torch.matmul(branch, bank)  # pyright: ignore[reportArgumentType]


def add_norm(
    residual: torch.Tensor, delta: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """:func:`engine.cpu.norms.add_rmsnorm`."""
    found = library()
    if found is None or residual.ndim != 2 or residual.shape != delta.shape or not plain(residual, delta, weight):
        return None
    total, out = torch.empty_like(residual), torch.empty_like(residual)
    found.inkling_add_norm(
        residual.data_ptr(), delta.data_ptr(), weight.data_ptr(), eps, total.data_ptr(), out.data_ptr(), *residual.shape,
        torch.get_num_threads(),
    )  # fmt: skip
    return out, total


def choose(
    logits: torch.Tensor, bias: torch.Tensor | None, routed: int, top: int, shared: int, scale: float
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """:func:`engine.cpu.moe.gate_select`, `scale` being both of its scales."""
    found = library()
    fits = logits.dtype == torch.float32 and logits.stride(1) == 1 and logits.device.type == "cpu"
    if found is None or not fits or not (bias is None or plain(bias)):
        return None
    rows = len(logits)
    weights, ids = torch.empty(rows, top + shared), torch.empty(rows, top + shared, dtype=torch.int32)
    found.inkling_choose(
        logits.data_ptr(), logits.stride(0), _address(bias), routed, top, shared, scale,
        weights.data_ptr(), ids.data_ptr(), rows,
    )  # fmt: skip
    return weights, ids


def gated(raw: torch.Tensor, weights: Sequence[torch.Tensor] | None, experts: int) -> torch.Tensor | None:
    """:mod:`engine.cpu.activation`, for few rows: torch's exp is the faster one on many. `weights`: before, per token, after."""
    if len(raw) > FEW or not plain(raw) or (found := library()) is None:
        return None
    before = gammas = after = None
    if weights is not None:
        before, gammas, after = weights
        if not plain(before, after) or gammas.dtype != torch.float32 or gammas.stride(1) != 1:
            return None
    width = raw.shape[1] // (2 * experts)
    out = torch.empty(len(raw), experts * width)
    found.inkling_gated(
        raw.data_ptr(), _address(before), _address(gammas), gammas.stride(0) if gammas is not None else 0, _address(after),
        out.data_ptr(), len(raw), experts, width,
    )  # fmt: skip
    return out


def few_rows(rows: torch.Tensor, head: torch.Tensor, scale: float) -> torch.Tensor | None:
    """:func:`engine.cpu.head.product`, for few rows."""
    if not plain(rows, head) or (found := library()) is None:
        return None
    out = torch.empty(len(rows), len(head))
    found.inkling_few_rows(
        rows.data_ptr(), head.data_ptr(), scale, out.data_ptr(), len(rows), *head.shape, torch.get_num_threads()
    )  # fmt: skip
    return out


@dataclass(frozen=True)
class Coarse:
    """A head of shape (v, c) in bytes: about ``size[:, None] * bytes``, off by at most half of `size` anywhere."""

    bytes: torch.Tensor
    size: torch.Tensor

    @classmethod
    def of(cls, head: torch.Tensor) -> Coarse:
        """A quarter of the head's memory beside it."""
        size = (head.abs().amax(dim=1) / 127).clamp(min=torch.finfo(torch.float32).tiny)
        coarse = torch.empty(head.shape, dtype=torch.int8)
        for start in range(0, len(head), 16384):
            part = slice(start, start + 16384)
            coarse[part] = (head[part] / size[part, None]).round().to(torch.int8)
        return cls(coarse, size)


def likeliest(rows: torch.Tensor, head: torch.Tensor, coarse: Coarse) -> torch.Tensor | None:
    """``(rows @ head.T).argmax(dim=1)``, for few rows; `coarse` is made of `head`."""
    if head.shape[1] > WIDEST_COARSE or not plain(rows, head) or (found := library()) is None:
        return None
    ids = torch.empty(len(rows), dtype=torch.int64)
    found.inkling_likeliest(
        rows.data_ptr(), head.data_ptr(), coarse.bytes.data_ptr(), coarse.size.data_ptr(), ids.data_ptr(), len(rows), *head.shape,
        torch.get_num_threads(),
    )  # fmt: skip
    return ids


def _address(x: torch.Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()
