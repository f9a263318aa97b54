"""What looking inside costs: time and memory beside a prefill, bytes on disk, and opening a capture of a million tokens.

The engine is the one that runs here, or one started for the bench. Prefills of fresh contexts are measured in turns, with and
without a capture, in seconds of CPU time of the engine's processes (``--wall``: of the clock): a machine that others use changes
the clock, less the CPU's. The capture of a million tokens is made up; opening it needs no engine.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import fresh_ids
from .bench import Bench

if TYPE_CHECKING:
    from engine import Engine
    from engine.protocol import CapturePlan, Rendered

SUMMARY = "captures: time and memory beside a prefill, bytes per token, opening a million tokens"

MILLION = 1_048_576


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the bench's options."""
    parser.add_argument("--tokens", type=int, default=65_536, metavar="N", help="of each prefill (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=15, metavar="N", help="rounds of the prefills (default: %(default)s)")
    parser.add_argument("--million", type=int, default=MILLION, metavar="N", help="of the made-up capture (default: %(default)s)")
    parser.add_argument("--wall", action="store_true", help="time by the clock, not by the engine's CPU seconds")
    parser.add_argument("--url", help="the engine's address (default: the one that runs here, or one of the bench's own)")
    parser.add_argument("--no-engine", action="store_true", help="only what needs none")


def run(bench: Bench, args: argparse.Namespace) -> None:
    """Measure."""
    args = bench.sized(args, tokens=4_096, pairs=3, million=65_536)
    if not args.no_engine:
        from ..cli.output import Console
        from ..cli.running import engine_for

        with engine_for(Console(), url=args.url) as (eng, _):
            _prefills(bench, eng, args.tokens, args.pairs, wall=args.wall)
    _million(bench, args.million)


def _prefills(bench: Bench, eng: Engine, tokens: int, pairs: int, *, wall: bool) -> None:
    from engine.protocol import AttentionPlan, CapturePlan, SconvPlan

    processes = _processes(eng)
    fresh = _contexts(tokens, bench.seed)
    light = CapturePlan(routing=True, sconv=SconvPlan(keep="norms"))
    queries = tuple(np.linspace(tokens // 64, tokens - 1, 64).astype(int).tolist())
    rows = AttentionPlan(queries=queries, layers="global", keep="pooled")
    more = CapturePlan(routing=True, sconv=SconvPlan(keep="norms"), attention=rows)
    peaks: dict[str, float] = {}

    def timed(work: Callable[[Rendered], None], name: str) -> Callable[[], float]:
        def once() -> float:
            context = next(fresh)
            with _measured(processes, wall=wall) as took:
                work(context)
            peaks[name] = max(peaks.get(name, 0), took["bytes"])
            return took["s"]

        return once

    def capture(plan: CapturePlan) -> Callable[[Rendered], None]:
        def work(context: Rendered) -> None:
            job = eng.start_capture(context, plan, recompute=True)
            while job.refresh().state in ("queued", "running"):
                # As often as a prefill's own progress is told: asking costs the engine's processes time as well.
                time.sleep(0.05 if wall else 0.2)
            sizes.update(job.job.manifest.arrays if job.job.manifest else {})
            job.discard()

        return work

    def prefill(context: Rendered) -> None:
        eng.generate(context, max_tokens=1, temperature=0)

    sizes: dict[str, Any] = {}
    # What a capture takes may stay with the process afterwards: memory without one is taken before the first.
    for _ in range(2):
        timed(prefill, "before any capture")()
    took = bench.alternate(
        {
            "prefill": timed(prefill, "prefill"),
            "routing and sconv norms": timed(capture(light), "routing and sconv norms"),
            "with 64 attention rows": timed(capture(more), "with 64 attention rows"),
        },
        rounds=pairs,
    )
    clock = "clock" if wall else "CPU seconds of the engine's processes"
    bench.rate("prefill", took["prefill"], amount=tokens, unit="tokens", note=f"{tokens:,} tokens, {clock}")
    light_took, more_took = took["routing and sconv norms"], took["with 64 attention rows"]
    bench.ratio("routing and sconv norms of every token", light_took, took["prefill"], at_most=1.10)
    bench.ratio("64 pooled attention rows on the global layers beside it", more_took, light_took, at_most=1.10)
    layers = len(eng.info.architecture.moe_layers) if eng.info.architecture else 1
    routing = sum(
        np.dtype(entry.dtype).itemsize * int(np.prod(entry.shape)) for name, entry in sizes.items() if name.startswith("routing.")
    )
    bench.value("routing on disk, per token and MoE layer", routing / tokens / layers, unit="bytes", at_most=40)
    held = max(peaks["routing and sconv norms"], peaks["with 64 attention rows"]) - peaks["before any capture"]
    bench.value("memory beside the engine while capturing", max(0.0, held), unit="bytes", at_most=500e6,
                note="largest resident memory of the engine's processes, with captures less before the first one")  # fmt: skip


def _million(bench: Bench, tokens: int) -> None:
    from ..captures import Capture
    from ..routing_windows import RoutingWindows

    with tempfile.TemporaryDirectory(prefix="inkling-bench-") as folder:
        path = Path(folder) / "run.zarr"
        bench.note(f"making up a capture of {tokens:,} tokens")
        _made_up(tokens, bench.seed).save(path)

        def overview() -> None:
            windows = RoutingWindows.of(Capture.load(path))
            for metric in ("entropy", "sink"):
                windows.strip(metric, 0, tokens, 1_024)
            windows.load()

        opened = bench.measure("overview", overview)
        bench.time(f"overview of {tokens:,} tokens from a file", opened, at_most_s=1.0)
        capture = Capture.load(path)
        windows, random = RoutingWindows.of(capture), np.random.default_rng(bench.seed)
        moved: list[int] = []

        def window() -> None:
            width = min(tokens, int(random.choice([256, 4_096, 65_536, tokens // 4])))
            start = int(random.integers(0, tokens - width + 1))
            strip = windows.strip("sink", start, start + width, 1_024)
            moved.append(strip.values.nbytes)

        one = bench.measure("window", window, rounds=max(30, bench.rounds))
        bench.time("any window of it", one, at_most_s=0.1, note="256 tokens to a quarter of all")
        bench.value("moved by a window", max(moved), unit="bytes", at_most=1e6)


def _made_up(tokens: int, seed: int) -> Any:
    """A capture of routing over `tokens` tokens, with the demo's sizes."""
    from engine.protocol import ArrayEntry, CaptureManifest

    from ..captures import Capture

    layers, experts, top_k, sinks = 5, 16, 2, 2
    random = np.random.default_rng(seed)
    weight = random.uniform(0.2, 1, (tokens, layers, top_k + sinks)).astype(np.float32)
    weight *= 2 / weight.sum(-1, keepdims=True)
    arrays = {
        "routing.expert": random.integers(0, experts, (tokens, layers, top_k)).astype(np.uint8),
        "routing.weight": np.ascontiguousarray(weight[..., :top_k]), "routing.sink": np.ascontiguousarray(weight[..., top_k:]),
    }  # fmt: skip
    dims = {"routing.expert": ("t", "l", "k"), "routing.weight": ("t", "l", "k"), "routing.sink": ("t", "l", "s")}
    context = fresh_ids.context(random, tokens, part="sha256:made-up")
    manifest = CaptureManifest(
        id="made-up", context=context.id, plan={"routing": {}}, tokens=tokens,
        arrays={name: ArrayEntry(dims=dims[name], shape=value.shape, dtype=value.dtype.str) for name, value in arrays.items()},
        layers={"routing": list(range(1, layers + 1))}, covered_tokens=tokens, complete=True,
        provenance={"model": "made up", "architecture": {"experts": experts}},
    )  # fmt: skip
    return Capture.from_reader(manifest, lambda name, where: arrays[name][where], context)


def _contexts(tokens: int, seed: int) -> Iterator[Rendered]:
    draw = np.random.default_rng(seed)
    while True:
        yield fresh_ids.context(draw, tokens)


def _processes(eng: Engine) -> list[Any]:
    """The engine's process on this machine, and its children."""
    import psutil

    import engine
    from engine.errors import EngineNotFound

    for found in engine.list():
        if found.url == eng.url:
            kernel = psutil.Process(found.presence.pid)
            return [kernel, *kernel.children(recursive=True)]
    raise EngineNotFound(f"the engine at {eng.url} does not run on this machine: its CPU time and memory cannot be seen from here")


@contextmanager
def _measured(processes: list[Any], *, wall: bool) -> Iterator[dict[str, float]]:
    """Seconds and the largest resident memory of some processes, while the block runs."""
    took = {"s": 0.0, "bytes": 0.0}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            took["bytes"] = max(took["bytes"], _resident(processes))

    watcher = threading.Thread(target=watch, daemon=True)
    began = time.perf_counter() if wall else _cpu_s(processes)
    watcher.start()
    try:
        yield took
    finally:
        took["s"] = (time.perf_counter() if wall else _cpu_s(processes)) - began
        done.set()
        watcher.join()


def _cpu_s(processes: list[Any]) -> float:
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


def _resident(processes: list[Any]) -> int:
    return sum(process.memory_info().rss for process in processes)
