"""The engine kernel beside a bare vLLM server with the same plugin and options: what the kernel adds to a request.

Both serve one recipe on this machine and are asked in turns: by vLLM's own completions route on both, and by the workbench's route.
The one that is not asked is suspended: vLLM's processes go on looking for work for a while after each request, on the same cores.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
import psutil

from ..errors import BenchError
from . import fresh_ids
from .bench import Bench
from .children import checkpoint

START_S = 300.0


def measure(bench: Bench, recipe: str) -> None:
    """Measure the time to the first token of a prompt, and the speed of an answer."""
    import engine
    from engine import recipes

    chosen = recipes.load(recipe)
    kernel = engine.start(recipe, say=bench.note)
    try:
        found = next(one for one in engine.list() if one.url == kernel.url)
        with _bare(bench, chosen) as (url, process):
            servers = _Turns(psutil.Process(found.presence.pid), psutil.Process(process))
            draw = np.random.default_rng(bench.seed)
            plain = _Completions(url, "", draw)
            routes = {"bare vLLM": plain, "kernel, vLLM's route": _Completions(kernel.url, found.token, draw)}
            prompt, answer = (512, 16) if bench.quick else (4_096, 100)
            for what, given, asked in (("time to the first token", prompt, 1), ("an answer", 20, answer)):
                sides: dict[str, Callable[[], float]] = {name: _run(route, given, asked) for name, route in routes.items()}
                sides["kernel, workbench's route"] = _workbench(kernel, draw, given, asked)
                sides = {name: servers.alone(int(name == "bare vLLM"), side) for name, side in sides.items()}
                with servers:
                    took = bench.alternate(sides, rounds=max(bench.rounds, 3 if bench.quick else 15))
                label = f"{what} ({given:,} tokens in, {asked} out)"
                for name in sides:
                    bench.time(f"{label}, {name}", took[name], note=f"recipe {recipe}, {len(took[name].runs_s)} rounds")
                for name in list(sides)[1:]:
                    bench.ratio(f"{label}: {name} over bare vLLM", took[name], took["bare vLLM"], at_most=1.05)
    finally:
        kernel.stop()


def _run(route: _Completions, given: int, asked: int) -> Callable[[], float]:
    return lambda: route.ask(given, asked)


def _workbench(kernel: Any, draw: np.random.Generator, given: int, asked: int) -> Callable[[], float]:
    def side() -> float:
        began = time.perf_counter()
        reply = kernel.generate(fresh_ids.context(draw, given), max_tokens=asked, temperature=0)
        took = time.perf_counter() - began
        # An answer may end early; time per token counts.
        return took * asked / max(1, reply.usage.completion_tokens)

    return side


class _Turns:
    """Two servers of which one runs; after the block both do."""

    def __init__(self, *servers: psutil.Process) -> None:
        self._families = [[server, *server.children(recursive=True)] for server in servers]

    def alone(self, server: int, side: Callable[[], float]) -> Callable[[], float]:
        """`side`, while the other server is suspended."""

        def run() -> float:
            for process in self._families[1 - server]:
                process.suspend()
            for process in self._families[server]:
                process.resume()
            return side()

        return run

    def __enter__(self) -> None: ...

    def __exit__(self, *problem: object) -> None:
        for process in itertools.chain(*self._families):
            process.resume()


class _Completions:
    """vLLM's completions route, streamed."""

    def __init__(self, url: str, token: str, draw: np.random.Generator) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client, self._draw = httpx.Client(base_url=url, headers=headers, timeout=600), draw
        self._model = self._client.get("/v1/models").raise_for_status().json()["data"][0]["id"]

    def ask(self, given: int, asked: int) -> float:
        """Seconds of one request."""
        ids = self._draw.integers(0, fresh_ids.ORDINARY_IDS, given).tolist()
        body = {
            "model": self._model, "prompt": ids, "max_tokens": asked, "temperature": 0, "stream": True, "ignore_eos": True,
        }  # fmt: skip
        began = time.perf_counter()
        with self._client.stream("POST", "/v1/completions", json=body) as answer:
            if answer.is_error:
                raise BenchError(f"the server refused a request: {answer.read().decode(errors='replace')[:300]}")
            for line in answer.iter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    json.loads(line.removeprefix("data: "))
        return time.perf_counter() - began


@contextmanager
def _bare(bench: Bench, recipe: Any) -> Iterator[tuple[str, int]]:
    """Address and process of a bare vLLM server with a recipe's options; ended with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [
        "--model", checkpoint(recipe.model), "--host", "127.0.0.1", "--port", str(port), "--worker-extension-cls",
        "engine.kernel.worker.WorkbenchWorker", "--enforce-eager", *recipe.argv(),
    ]  # fmt: skip
    bench.note("starting a bare vLLM server")
    process = subprocess.Popen(
        [sys.executable, "-m", "vllm.entrypoints.launchers.api_server.entry", *words], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env=os.environ | recipe.env | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
        start_new_session=True,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + START_S
        while not _answers(url):
            if process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(f"the bare vLLM server did not come up ({process.poll()}): {' '.join(words)}")
            time.sleep(0.5)
        yield url, process.pid
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=2).is_success
    except httpx.HTTPError:
        return False
