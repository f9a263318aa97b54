"""A million tokens through a running engine: read piece by piece, with a second question on them afterwards.

A piece is a request for a longer beginning of the same context: what was read before is in the engine's prefix cache. The engine is
left running until the end, and every piece is noted in a file: a run that is interrupted goes on at the piece where it was, as long
as its engine lives. The time of the whole is the sum of its pieces.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from engine.protocol import places

from . import fresh_ids
from .bench import Bench
from .children import child
from .engine_attention import SIZES
from .engine_kept import KERNEL, Kept
from .peak_memory import peak_here

PIECES, QUESTION, ANSWER = 16, 24, 16
CHUNK = 2_048


def measure(bench: Bench, recipe: str, *, tokens: int) -> None:
    """Read `tokens` tokens, then ask a second question on them."""
    import psutil

    import engine

    eng = engine.start(recipe, say=bench.note)
    found = next(one for one in engine.list() if one.url == eng.url)
    noted = _Noted(eng.info.nonce, tokens, bench.seed)
    whole = fresh_ids.context(np.random.default_rng(bench.seed), tokens + 2 * QUESTION).token_ids
    edges = np.linspace(0, tokens, PIECES + 1).astype(int)[1:].tolist()
    for index, edge in enumerate(edges):
        if index < len(noted.pieces):
            continue
        reply = eng.generate(_beginning(whole, edge + (QUESTION if edge == tokens else 0)), max_tokens=1, temperature=0)
        noted.add(reply.timings.first_token_s)
        bench.note(f"  {edge:,} tokens: {reply.timings.first_token_s:.1f} s, of them {reply.usage.cached_tokens:,} cached")
    second = whole.copy()
    second[tokens : tokens + QUESTION] = whole[tokens + QUESTION :]
    # Temperature 2: an answer that does not end at once, for the time of its steps.
    reply = eng.generate(_beginning(second, tokens + QUESTION), max_tokens=ANSWER, temperature=2.0, seed=bench.seed)
    kernel = psutil.Process(found.presence.pid)
    family = [kernel, *kernel.children(recursive=True)]
    peaks = {process.pid: peak_here(process.pid) for process in family}
    # Libraries that all three map are in each one's peak, and in memory once.
    held = sum(peaks.values()) - sum(one.rss - one.pss for one in (process.memory_full_info() for process in family))
    worker = next(process.pid for process in family if "Worker" in process.name())
    took, memory, threads = sum(noted.pieces), eng.info.memory, _threads(kernel)
    through = f"recipe {recipe}, {threads or 'all'} threads, through the engine kernel, in {PIECES} pieces"
    bench.value(f"{tokens:,} tokens read", took, unit="s", note=through)
    bound = _bound(bench, tokens, threads)
    bench.value("that over the attention kernel's own time", took / bound, unit="×", at_most=1.3,
                note=f"the kernel alone, timed at {len(edges)} positions: {bound:.0f} s")  # fmt: skip
    bench.value("time to the first token of a second question", reply.timings.first_token_s, unit="s", at_most=3,
                note=f"{reply.usage.cached_tokens:,} of {tokens + QUESTION:,} tokens cached")  # fmt: skip
    step = (reply.timings.total_s - reply.timings.first_token_s) / max(1, reply.usage.completion_tokens - 1)
    bench.value("a decode step behind them", step, unit="s", note=f"{reply.usage.completion_tokens} tokens at temperature 2")
    if not bench.quick:
        Kept().put(f"{KERNEL}/{tokens}", {"prefill_s": took, "step_s": step, "bytes": held})
    allowed = sum(memory["weights_bytes"]) + 1.3 * sum(memory["cache_bytes"]) + 1.5e9
    bench.value("memory of the engine's processes at their peaks", held, unit="bytes", at_most=allowed,
                note="weights + 1.3 × cache + 1.5 GB are allowed; pages that several processes share counted once")  # fmt: skip
    bench.value("of it the worker, which holds weights and cache", peaks[worker], unit="bytes", at_most=allowed,
                note="the others are vLLM's core and the server, each with a Python and torch of its own")  # fmt: skip
    noted.forget()
    eng.stop()


def _beginning(ids: np.ndarray, tokens: int) -> Any:
    from engine.protocol import Rendered, Span

    span = Span(start=0, stop=tokens, part=None, label="text", modality="text", message=0)
    return Rendered(token_ids=ids[:tokens], spans=(span,))


def _threads(kernel: Any) -> str:
    """Threads that vLLM gave its worker: it keeps a core for its other processes. Empty: as many as there are."""
    for process in kernel.children(recursive=True):
        # Read raw: a process that renamed itself has overwritten the beginning.
        given = re.search(rb"(?:^|\0)OMP_NUM_THREADS=(\d+)", Path(f"/proc/{process.pid}/environ").read_bytes())
        if given and "Worker" in process.name():
            return given[1].decode()
    return ""


def _bound(bench: Bench, tokens: int, threads: str) -> float:
    """Seconds that the attention kernel alone needs for all chunks of the global layer, from some of them, on as many threads."""
    positions = np.unique(np.linspace(CHUNK, max(CHUNK, tokens // CHUNK * CHUNK), 9).astype(int))
    environment = {"OMP_NUM_THREADS": threads} if threads else {}
    with child("engine.cpu.timed_kernels", SIZES | {"keys": int(positions[-1])}, environment) as (kernels, told):
        bench.note("timing the attention kernel alone")
        native = bool(told["native"])
        seconds = [
            min(kernels.ask({"attention": int(at), "native": native})["seconds"] for _ in range(3)) for at in positions.tolist()
        ]  # fmt: skip
    return float(np.interp(np.arange(CHUNK, tokens + 1, CHUNK), positions, seconds).sum())


class _Noted:
    """Seconds of the pieces that this engine has read."""

    def __init__(self, nonce: str, tokens: int, seed: int) -> None:
        self._path = places.cache_folder() / "benches" / f"million-{nonce}-{tokens}-{seed}.json"
        try:
            self.pieces: list[float] = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError):
            self.pieces = []

    def add(self, seconds: float) -> None:
        self.pieces.append(seconds)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self.pieces), "utf-8")

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)
