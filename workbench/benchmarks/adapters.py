"""What adapters cost: an engine that takes them beside one that does not, and an adapter beside the model alone.

Starts two engines of one recipe under names of their own and stops them; needs the memory of both.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import fresh_ids
from .bench import Bench

SUMMARY = "adapters: what switching them on costs every request, and what one costs its own"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the bench's options."""
    parser.add_argument("--recipe", default="demo", help="(default: %(default)s)")
    parser.add_argument("--adapter", type=Path, metavar="FOLDER", help="measure this adapter, too")
    parser.add_argument("--answer", type=int, default=100, metavar="N", help="tokens of an answer (default: %(default)s)")
    parser.add_argument("--prompt", type=int, default=4_000, metavar="N", help="tokens of a prompt (default: %(default)s)")


def run(bench: Bench, args: argparse.Namespace) -> None:
    """Measure."""
    import engine

    args = bench.sized(args, answer=20, prompt=500)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.adapter.resolve().parent if args.adapter else Path(scratch)
        plain = engine.start(_named(args.recipe, Path(scratch), "bench-plain"), say=bench.note)
        try:
            taking = engine.start(_named(args.recipe, Path(scratch), "bench-adapters"), adapters=folder, say=bench.note)
            try:
                sides: dict[str, tuple[Any, str | None]] = {"plain engine": (plain, None), "engine with adapters": (taking, None)}
                if args.adapter:
                    sides["with an adapter"] = taking, taking.adapters.load(args.adapter.name).name
                _measure(bench, sides, args.answer, args.prompt)
            finally:
                taking.stop()
        finally:
            plain.stop()


def _measure(bench: Bench, sides: dict[str, tuple[Any, str | None]], answer: int, prompt: int) -> None:
    draw = np.random.default_rng(bench.seed)
    for what, given, asked in (("answering", 20, answer), ("reading", prompt, 1)):
        runs = {name: _side(eng, adapter, draw, given, asked) for name, (eng, adapter) in sides.items()}
        took = bench.alternate(runs)
        for name in sides:
            bench.rate(f"{what}, {name}", took[name], amount=asked if what == "answering" else given, unit="tokens")
        bench.ratio(f"{what}: adapters switched on, none used", took["engine with adapters"], took["plain engine"])
        if "with an adapter" in took:
            bench.ratio(f"{what}: an adapter over the model alone", took["with an adapter"], took["engine with adapters"])


def _side(eng: Any, adapter: str | None, draw: np.random.Generator, given: int, asked: int) -> Callable[[], float]:
    def side() -> float:
        reply = eng.generate(fresh_ids.context(draw, given), max_tokens=asked, temperature=0, adapter=adapter)
        # An answer may end early; time per token counts.
        return reply.timings.total_s * asked / reply.usage.completion_tokens

    return side


def _named(recipe: str, folder: Path, name: str) -> Path:
    """A copy of a recipe under another name, so that two engines of it can run."""
    from engine import recipes

    path = folder / f"{name}.toml"
    path.write_text((recipes.FOLDER / f"{recipe}.toml").read_text("utf-8"), encoding="utf-8")
    return path
