"""Calling the native kernel: a step's tensors by address, one call per layer.

The library is loaded once per process, on first use. It is given as many threads as torch has and uses torch's own OpenMP, so the
two never run side by side. Inputs of another layout or dtype than the kernel's are copied; pages are read where they lie, in
float32 or bfloat16, and everything is computed in float32.
"""

from __future__ import annotations

import ctypes
import logging
import os
from functools import lru_cache

import torch

from .building import SWITCH, NotBuilt, load, switched_off

SETS = ("plain", "avx2", "avx512")
PAGES = (torch.float32, torch.bfloat16)

log = logging.getLogger(__name__)

_POINTERS = ("q", "relative", "out", "keys", "values", "table", "lengths", "bounds")
_STRIDES = ("key_block", "key_slot", "key_head", "value_block", "value_slot", "value_head", "table_row")
_SIZES = ("requests", "heads", "kv_heads", "width", "page", "extent", "local", "bfloat16", "threads")


class _Step(ctypes.Structure):
    """``struct Step`` of the source."""

    _fields_ = (
        [(name, ctypes.c_void_p) for name in _POINTERS]
        + [(name, ctypes.c_int64) for name in _STRIDES]
        + [(name, ctypes.c_int32) for name in _SIZES]
        + [("scale", ctypes.c_float)]
    )


class Native:
    """The loaded library.

    Parameters
    ----------
    set : {"plain", "avx2", "avx512"}, optional
        Use no wider instruction set than this one; default: what the processor has.

    Raises
    ------
    NotBuilt
        It cannot be made or loaded here.
    """

    def __init__(self, set: str | None = None) -> None:
        loaded = load("attention")
        widest = loaded.inkling_widest()
        self._number = widest if set is None else min(widest, SETS.index(set))
        self.set, self._attend = SETS[self._number], loaded.inkling_attend
        self._attend.argtypes, self._attend.restype = [ctypes.POINTER(_Step), ctypes.c_int], None

    def __call__(
        self,
        q: torch.Tensor,
        relative: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        block_table: torch.Tensor,
        lengths: torch.Tensor,
        bounds: torch.Tensor,
        out: torch.Tensor,
        *,
        local: bool,
        scale: float,
    ) -> None:
        """Attention of every request of a step, written to `out`; shapes as in :class:`engine.cpu.attention.RelativeAttention`."""
        target = out if out.dtype == torch.float32 and out.is_contiguous() else torch.empty(out.shape, dtype=torch.float32)
        given = (
            _dense(q, torch.float32), _dense(relative, torch.float32), target, key_cache, value_cache,
            _rows(block_table), _dense(lengths, torch.int32), _dense(bounds, torch.int32),
        )  # fmt: skip
        keys, values, table = key_cache.stride(), value_cache.stride(), given[5]
        step = _Step(
            *[tensor.data_ptr() for tensor in given], *keys[:3], *values[:3], table.stride(0),
            min(len(bounds) - 1, len(lengths)), q.shape[1], key_cache.shape[2], q.shape[2], key_cache.shape[1], relative.shape[2],
            local, key_cache.dtype == torch.bfloat16, torch.get_num_threads(), scale,
        )  # fmt: skip
        self._attend(step, self._number)
        if target is not out:
            out.copy_(target)


def takes(key_cache: torch.Tensor, value_cache: torch.Tensor) -> bool:
    """Whether the kernel reads such pages: in main memory, channels side by side, float32 or bfloat16 alike."""
    return (
        key_cache.device.type == "cpu"
        and key_cache.dtype == value_cache.dtype
        and key_cache.dtype in PAGES
        and key_cache.stride(-1) == value_cache.stride(-1) == 1
    )


@lru_cache(maxsize=1)
def loaded() -> Native | None:
    """The kernel, built on the first call; None where torch computes. What was decided is logged once."""
    native, why = choose()
    log.info("attention: %s", f"native kernel, {native.set}" if native else f"torch ({why})")
    return native


def choose() -> tuple[Native | None, str]:
    """The kernel as the environment (:data:`~.building.SWITCH`) wants it, or None and why not."""
    if why := switched_off():
        return None, why
    switch = os.environ.get(SWITCH, "").strip().lower()
    if switch not in ("", "1", "on", *SETS):
        log.warning("%s=%s is neither 0 nor one of %s: it is not heeded", SWITCH, switch, ", ".join(SETS))
    try:
        return Native(switch if switch in SETS else None), ""
    except NotBuilt as problem:
        log.warning("attention is computed by torch, which is slower on long contexts: %s", problem)
        return None, str(problem)


def _dense(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype).contiguous()


def _rows(table: torch.Tensor) -> torch.Tensor:
    """A block table whose rows are dense, wherever they begin."""
    return table if table.dtype == torch.int32 and table.stride(-1) == 1 else table.to(torch.int32).contiguous()
