"""The attention kernels alone, timed in a process of their own: the third child of ``inkling bench engine``.

``python -m engine.cpu.timed_kernels`` reads one JSON object a line. The first gives sizes (heads, kv_heads, width, extent, keys);
pages of random keys and values for that many keys are made once. Every further one is a job, answered by seconds and by the
floating-point operations that they took: ``{"attention": position, "native": true}`` is one chunk of queries of a global layer
whose last one stands at `position`, ``{"gemm": n}`` a float32 product of two n × n matrices, ``{"multiply_adds": n}`` so many
rounds of nothing but fused multiply-adds in registers. It ends with its input.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from typing import Any

import torch

from .attention import RelativeAttention
from .native import building, kernel

PAGE, CHUNK = 16, 2048


def main() -> None:
    """Make the pages, then do the jobs."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with torch.inference_mode():
        bench = _Pages(**json.loads(sys.stdin.readline()))
        native = kernel.loaded()
        answer: dict[str, Any] = {"threads": torch.get_num_threads(), "native": native.set if native else None}
        while True:
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
            if not (line := sys.stdin.readline()):
                return
            answer = bench.do(json.loads(line))


class _Pages:
    def __init__(self, *, heads: int, kv_heads: int, width: int, extent: int, keys: int) -> None:
        draw = torch.Generator().manual_seed(0)
        # vLLM keeps keys and values of a page side by side.
        both = torch.empty(-(-keys // PAGE), PAGE, kv_heads, 2 * width)
        for part in both.split(4096):
            part.normal_(generator=draw)
        self.keys, self.values = both.split(width, dim=-1)
        self.table = torch.arange(len(both), dtype=torch.int32)[None]
        self.q = torch.randn(CHUNK, heads, width, generator=draw) * 3
        self.relative = torch.randn(CHUNK, heads, extent, generator=draw)
        self.torch, self.native = RelativeAttention(lambda: None), RelativeAttention()

    def do(self, job: dict[str, Any]) -> dict[str, float]:
        """Time one job."""
        if "gemm" in job:
            one, other = torch.randn(2, job["gemm"], job["gemm"]).unbind()
            began = time.perf_counter()
            torch.mm(one, other)
            return {"seconds": time.perf_counter() - began, "operations": 2.0 * job["gemm"] ** 3}
        if "multiply_adds" in job:
            return _multiply_adds(job["multiply_adds"])
        length, new = job["attention"], job.get("queries", CHUNK)
        began = time.perf_counter()
        (self.native if job["native"] else self.torch)(
            self.q[:new], self.keys, self.values, block_table=self.table, cache_seqlens=torch.tensor([length], dtype=torch.int32),
            cu_seqlens_q=torch.tensor([0, new], dtype=torch.int32), max_seqlen_q=new, softmax_scale=1 / self.q.shape[2],
            causal=True, window_size=(-1, -1), rel_extent=self.relative.shape[2], rel_logits=self.relative[:new],
        )  # fmt: skip
        took = time.perf_counter() - began
        # Two products over the channels for every pair of a query and a key that it sees.
        pairs = new * (length - new) + new * (new + 1) / 2
        return {"seconds": took, "operations": 4.0 * pairs * self.q.shape[1] * self.q.shape[2]}


def _multiply_adds(rounds: int) -> dict[str, float]:
    run = building.load("peak").inkling_multiply_adds
    run.argtypes, run.restype = [ctypes.c_int64, ctypes.c_int, ctypes.POINTER(ctypes.c_float)], ctypes.c_double
    began = time.perf_counter()
    operations = run(rounds, torch.get_num_threads(), ctypes.byref(ctypes.c_float()))
    return {"seconds": time.perf_counter() - began, "operations": operations}


if __name__ == "__main__":
    main()
