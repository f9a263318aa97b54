"""A soak: many clients at once for as long as one likes, with cancels and reconnects; nothing leaks and every answer is its own.

    pytest -m slow tests/kernel/test_soak.py                    # one minute
    INKLING_SOAK_S=1200 pytest -m slow tests/kernel/test_soak.py

What is held: every greedy answer equals the one its context gave alone, before the load (a first difference only where the two best
tokens were nearly tied); no client sees an error that is not its own doing; the API's and the engine core's memory is flat, the
worker grows by no more than its cache; no process holds more files at the end, the engine no request.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from statistics import median

import numpy as np
import psutil
import pytest

import engine
from engine import discovery
from engine.errors import EngineBusy
from engine.protocol import Reply
from workbench import CapturePlan, Context, samples

pytestmark = [pytest.mark.engine, pytest.mark.slow]

SOAK_S = float(os.environ.get("INKLING_SOAK_S", "60"))
CLIENTS = 6
ANSWER = {"max_tokens": 16, "temperature": 0, "logprobs": 2}

NEAR_TIE = 0.01
"""Natural logarithms. Which requests share a step decides the order of sums in float32: worth 2e-3 a token (test_demo_answers)."""

FLAT_BYTES = 48 << 20
"""Python's and the allocator's own unrest between two quarters of a run."""


def contexts() -> list[Context]:
    """Short, long, with an image, with a recording, with tools; each with something to say."""
    made = []
    for part, question in (
        ("document", samples.QUESTION),
        ("image", "What is at row 2, column 1?"),
        ("audio", "Which keys are dialled?"),
    ):
        context = Context(effort="none")
        {"document": context.add_document, "image": context.add_image, "audio": context.add_audio}[part](samples.paths()[part])
        context.ask(question)
        made.append(context)
    for number in range(3):
        context = Context(system=f"You are number {number}.", effort="high" if number else "none", tools=[{"name": "look"}])
        context.ask("What do you see? " * (1 + 40 * number))
        made.append(context)
    return made


def first_difference(alone: Reply, now: Reply) -> str | None:
    """How an answer differs from the one that was given alone; None when it does not, or only from a near-tie on."""
    size = min(len(alone.token_ids), len(now.token_ids))
    apart = np.flatnonzero(alone.token_ids[:size] != now.token_ids[:size])
    if not len(apart):
        return None if len(alone.token_ids) == len(now.token_ids) else "one is longer"
    at = int(apart[0])
    chances = alone.logprobs[at].alternatives
    other = int(now.token_ids[at])
    gap = alone.logprobs[at].logprob - chances.get(other, -np.inf)
    return None if gap < NEAR_TIE else f"token {at}: {other} instead of {int(alone.token_ids[at])}, {gap:.3f} less likely"


class Client(threading.Thread):
    """One client that does something at random until the end, now and then over a new connection."""

    def __init__(self, number: int, address: tuple[str, str], alone: list[tuple[Context, Reply]], until: float) -> None:
        super().__init__(daemon=True, name=f"client {number}")
        self._address, self._alone, self._until = address, alone, until
        self._random = random.Random(number)
        self.did: Counter[str] = Counter()
        self.problems: list[str] = []

    def run(self) -> None:
        actions: dict[str, tuple[int, Callable[[engine.Engine], None]]] = {
            "answer": (6, self._answer), "leave": (3, self._leave), "forced": (1, self._forced), "probe": (1, self._probe),
            "capture": (1, self._capture), "fresh": (2, self._fresh),
        }  # fmt: skip
        names = [name for name, (weight, _) in actions.items() for _ in range(weight)]
        eng = engine.attach(*self._address)
        while time.monotonic() < self._until:
            if self._random.random() < 0.2:
                eng = engine.attach(*self._address)
                self.did["reconnect"] += 1
            name = self._random.choice(names)
            try:
                actions[name][1](eng)
                self.did[name] += 1
            except EngineBusy:
                time.sleep(0.5)
            except Exception as problem:
                self.problems.append(f"{name}: {type(problem).__name__}: {problem}")

    def _answer(self, eng: engine.Engine) -> None:
        context, alone = self._random.choice(self._alone)
        if difference := first_difference(alone, eng.generate(context, **ANSWER)):
            self.problems.append(f"answer: {difference}")

    def _leave(self, eng: engine.Engine) -> None:
        """In the prompt or the answer, wherever it is. Nothing is told while a call is being written: hence the limit."""
        context, _ = self._random.choice(self._alone)
        events = eng.stream(context, max_tokens=400, temperature=1.5)
        for _ in range(self._random.randrange(8)):
            next(events, None)
        events.close()  # type: ignore[attr-defined]

    def _forced(self, eng: engine.Engine) -> None:
        text = eng.generate(self._alone[0][0], output={"choice": ["yes", "no"]}, max_tokens=8, temperature=1.5).text
        assert text in ("yes", "no")

    def _probe(self, eng: engine.Engine) -> None:
        eng.probe(self._random.choice(self._alone)[0])

    def _capture(self, eng: engine.Engine) -> None:
        capture = eng.capture(self._alone[-1][0], CapturePlan(routing=True))
        assert capture.routing.sizes["t"] > 0

    def _fresh(self, eng: engine.Engine) -> None:
        """A context nobody has seen: the cache has to give something up."""
        context = Context(effort="none")
        context.add_text(" ".join(f"{self._random.randrange(10**9)}" for _ in range(self._random.randrange(10, 300))))
        context.ask("How many?")
        eng.generate(context, max_tokens=2, temperature=0)


def kinds(pid: int) -> dict[str, psutil.Process]:
    """The kernel's processes by what they do."""
    kernel = psutil.Process(pid)
    found = {"api": kernel}
    for process in kernel.children(recursive=True):
        line = " ".join(process.cmdline())
        found["worker" if "Worker" in line else "core" if "EngineCore" in line else f"other {process.pid}"] = process
    return found


@pytest.mark.timeout(SOAK_S + 900)
def test_mixed_load(eng) -> None:
    address = (eng.url, eng._connection.token or "")
    alone = [(context, eng.generate(context, **ANSWER)) for context in contexts()]
    assert [first_difference(reply, eng.generate(context, **ANSWER)) for context, reply in alone] == [None] * len(alone)
    presence = next((found.presence for found in discovery.running() if found.url == eng.url), None)
    processes = kinds(presence.pid) if presence is not None else {}
    began = time.monotonic()
    clients = [Client(number, address, alone, began + SOAK_S) for number in range(CLIENTS)]
    memory: dict[str, list[int]] = defaultdict(list)
    files: dict[str, list[int]] = defaultdict(list)
    for client in clients:
        client.start()
    while any(client.is_alive() for client in clients):
        for name, process in processes.items():
            memory[name].append(process.memory_info().rss)
            files[name].append(process.num_fds())
        time.sleep(min(2.0, SOAK_S / 40))
    did = sum((client.did for client in clients), Counter())
    problems = [problem for client in clients for problem in client.problems]
    said = [f"{time.monotonic() - began:.0f} s: {dict(did)}"]
    assert not problems, f"{len(problems)} problems: " + "\n".join(problems[:10])
    assert all(did[name] for name in ("answer", "leave", "fresh", "reconnect")), did
    for _ in range(100):
        status = eng.status()
        if not status["requests"] and not status["running"] + status["waiting"]:
            break
        time.sleep(0.1)
    assert (status["requests"], status["running"], status["waiting"]) == ([], 0, 0), "a slot was lost"
    cache = sum(eng.info.memory["cache_bytes"])
    for name, sizes in memory.items():
        quarter = max(1, len(sizes) // 4)
        early, late = median(sizes[quarter : 2 * quarter] or sizes), median(sizes[-quarter:])
        said.append(f"{name}: {early / 1e6:.0f} to {late / 1e6:.0f} MB, {files[name][0]} to {files[name][-1]} files")
        # The cache is memory that the system hands out when it is first written.
        allowed = FLAT_BYTES + (cache if name == "worker" else 0)
        assert late - early < allowed, f"{name} grew by {(late - early) / 1e6:.0f} MB"
        few = median(files[name][quarter : 2 * quarter] or files[name])
        assert median(files[name][-quarter:]) <= few + CLIENTS, f"{name} holds more files than before: {few} to {files[name][-1]}"
    sys.stderr.write("\n".join(said) + "\n")
