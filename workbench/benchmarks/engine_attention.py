"""Attention of the global layer deep in a context, against this machine's own float32 matrix product.

Beside them what the processor's multiply-adds can do at most: where a matrix product comes close to it, nothing can be much faster.
"""

from __future__ import annotations

from typing import Any

from .bench import Bench
from .children import Child, child

SIZES = {"heads": 4, "kv_heads": 2, "width": 32, "extent": 256}
"""S's global layer."""

PRODUCT = 2_048
CEILING = "multiply-adds in registers"


def measure(bench: Bench, *, position: int) -> None:
    """A chunk of 2,048 queries at `position`, in turns with a product of two square matrices; both per operation."""
    with child("engine.cpu.timed_kernels", SIZES | {"keys": position}) as (kernels, told):
        sides = {
            "matrix product": _side(kernels, {"gemm": PRODUCT}),
            "torch attention": _side(kernels, {"attention": position, "native": False}),
        }
        if told["native"]:
            sides["native attention"] = _side(kernels, {"attention": position, "native": True})
            sides[CEILING] = _side(kernels, {"multiply_adds": 20_000_000})
        else:
            bench.remark("the native kernel could not be built here")
        took = bench.alternate(sides)
    note = f"S's global layer, 2,048 queries, {told['threads']} threads, median of {bench.rounds} rounds"
    for name in sides:
        bench.rate(
            f"{name}, {position:,} keys" if name.endswith("attention") else name, took[name], amount=1_000, unit="GF", note=note
        )
    for name, aim in (("torch attention", 0.65), ("native attention", 1.4)):
        if name in took:
            what = f"{name} at {position:,} over the matrix product, operations per second"
            bench.ratio(what, took["matrix product"], took[name], at_least=aim, note=note)
    if CEILING in took:
        for name in ("matrix product", "native attention"):
            bench.ratio(f"{name} over {CEILING}, operations per second", took[CEILING], took[name], note=note)


def _side(kernels: Child, job: dict[str, Any]) -> Any:
    def side() -> float:
        answer = kernels.ask(job)
        # Seconds for 10¹² operations: what takes different amounts of them is compared per operation.
        return answer["seconds"] / answer["operations"] * 1e12

    return side
