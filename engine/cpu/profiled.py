"""Where the time of a step goes: ``python -m engine.cpu.profiled [--context N] [--requests N] [--steps N] [--prefill] [--ops]``.

Runs vLLM in this process, decodes `steps` tokens behind prompts of `context` tokens, and prints microseconds per step by Python
function (a sampling-free profile: Python's own cost is exaggerated, its order is right), or with ``--ops`` by torch operation.
``--prefill`` profiles reading the prompts instead. For whoever changes a kernel: run it before and after.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import time
from typing import Any


def main() -> None:
    """Profile and print."""
    parser = argparse.ArgumentParser(description="Where the time of a step goes.")
    parser.add_argument("--model", help="checkpoint folder (default: the small one of the benches)")
    parser.add_argument("--context", type=int, default=1_024, metavar="N")
    parser.add_argument("--requests", type=int, default=1, metavar="N")
    parser.add_argument("--steps", type=int, default=64, metavar="N")
    parser.add_argument("--prefill", action="store_true", help="profile reading the prompts instead of decoding")
    parser.add_argument("--ops", action="store_true", help="by torch operation, not by Python function")
    parser.add_argument("--rows", type=int, default=45, metavar="N", help="lines to print")
    args = parser.parse_args()
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    from vllm import LLM

    from .. import demo
    from .timed import DEFAULTS

    model = args.model or str(demo.unpack_random("demo-few"))
    sizes = {
        "max_model_len": args.context + args.steps + 64,
        "kv_cache_memory_bytes": (1 << 28) + 4_096 * args.context * args.requests,
    }
    llm = LLM(model=model, worker_extension_cls="engine.kernel.timed_worker.TimedWorker", **DEFAULTS | sizes)
    for watched in (False, True):
        steps = _steps(llm, args, seed=int(watched), watched=watched)
    print(f"a step: {1e3 * sorted(steps)[len(steps) // 2]:.3f} ms (median, under the profiler)")  # noqa: T201


def _steps(llm: Any, args: argparse.Namespace, *, seed: int, watched: bool) -> list[float]:
    import numpy as np
    from vllm import SamplingParams

    engine, draw = llm.llm_engine, np.random.default_rng(seed)
    for index in range(args.requests):
        prompt = {"prompt_token_ids": draw.integers(0, 4_096, args.context).tolist(), "cache_salt": f"{seed}-{index}"}
        engine.add_request(f"{seed}-{index}", prompt, SamplingParams(temperature=0, max_tokens=args.steps + 1, ignore_eos=True))
    answered: set[str] = set()
    reading = args.prefill
    if not reading:
        while len(answered) < args.requests:
            answered |= {output.request_id for output in engine.step()}
    times: list[float] = []

    def work() -> None:
        while engine.has_unfinished_requests() and not (reading and len(answered) == args.requests):
            start = time.perf_counter()
            answered.update(output.request_id for output in engine.step())
            times.append(time.perf_counter() - start)

    if not watched:
        work()
        llm.collective_rpc("workbench_watch")
        engine.abort_request([f"{seed}-{index}" for index in range(args.requests)])
        return times
    if args.ops:
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU]) as found:
            work()
        print(found.key_averages().table(sort_by="self_cpu_time_total", row_limit=args.rows, max_name_column_width=60))  # noqa: T201
    else:
        profiler = cProfile.Profile()
        profiler.runcall(work)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(args.rows)
    spent = llm.collective_rpc("workbench_watch")[0]
    for name, seconds in spent.items():
        print(f"{name}: {1e3 * sorted(seconds)[len(seconds) // 2]:.3f} ms (median of {len(seconds)})")  # noqa: T201
    return times


if __name__ == "__main__":
    main()
