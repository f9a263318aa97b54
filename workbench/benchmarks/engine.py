"""The engine without a GPU: how fast it reads and answers, beside transformers, beside its own kernels and beside a bare vLLM.

Parts, each in a module of its own and each to be had alone (``--only``): `reading` and `answering` against transformers' Inkling on
the same weights, `attention` against this machine's matrix product, `serving` against a bare vLLM server, `growth` as contexts
grow. Two are asked for by name: `million` reads a million tokens through a running engine, which takes half an hour, and `llama`
compares with llama.cpp, which has to be there.

The model is S unless ``--model`` names another: hidden 128, 6 layers of which 1 is global, 4 heads of 32 on 2 key/value heads, 16
experts, 4,096 ids, random weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from engine.errors import InklingError

from ..errors import BenchError
from . import engine_answering, engine_attention, engine_growth, engine_llama, engine_million, engine_reading, engine_serving
from .bench import Bench
from .children import checkpoint
from .engine_sides import Sides

SUMMARY = "the engine on a CPU: prefill, decode, attention, serving, growth to a million tokens"

PARTS = ("reading", "answering", "attention", "serving", "growth", "million", "llama")
DEFAULT = PARTS[:-2]

STAND_IN_TO = 65_536
"""Tokens of the longest prompt of llama.cpp's stand-in."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the bench's options."""
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(DEFAULT), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--model", default="demo-few", help="demo-few (S), demo, or a checkpoint folder (default: %(default)s)")
    parser.add_argument("--below", type=int, default=4_096, metavar="ID", help="prompts are random ids below this one")
    parser.add_argument("--largest", type=int, default=16_384, metavar="N", help="tokens of the longest prompt that is compared")
    parser.add_argument(
        "--one-go", type=int, default=4_096, metavar="N",
        help="tokens of the longest prompt that transformers reads without chunks; 16384 takes 14 GB and 5 minutes",
    )  # fmt: skip
    parser.add_argument("--grow-to", type=int, default=65_536, metavar="N", help="largest context of the growth part")
    parser.add_argument("--position", type=int, default=131_072, metavar="N", help="where attention alone is timed")
    parser.add_argument("--million", type=int, default=1_048_000, metavar="N", help="tokens of the million part")
    parser.add_argument("--llama-bench", metavar="FILE", help="llama.cpp's program of this name: for its part, and in growth")
    parser.add_argument("--recipe", default="demo", help="of the serving and million parts (default: %(default)s)")


def run(bench: Bench, args: argparse.Namespace) -> None:
    """Measure."""
    if "llama" in args.only and not args.llama_bench:
        raise BenchError("--only llama needs --llama-bench FILE: llama.cpp's program of that name")
    if args.llama_bench:
        if not Path(args.llama_bench).is_file():
            raise BenchError(
                f"--llama-bench {args.llama_bench}: no such file; engine_llama.py says how to build it", path=args.llama_bench
            )
        bench.options["llama_bench"] = Path(args.llama_bench).name  # where it lies is this machine's business
    args = bench.sized(args, largest=1_024, one_go=1_024, grow_to=4_096, position=16_384, million=8_192)
    failed: list[str] = []
    with ExitStack() as stack:
        model = checkpoint(args.model)
        sides = Sides(bench, model, args.model, below=args.below, longest=max(args.largest, args.grow_to), stack=stack)
        beside = None
        if args.llama_bench:
            beside = (engine_llama.THEIRS, STAND_IN_TO, engine_llama.once(sides, model=model, program=args.llama_bench))
        parts: dict[str, Callable[[], None]] = {
            # First: on an engine of its own, while nothing else lives; growth shows what it found.
            "million": lambda: engine_million.measure(bench, args.recipe, tokens=args.million),
            "serving": lambda: engine_serving.measure(bench, args.recipe),
            "attention": lambda: engine_attention.measure(bench, position=args.position),
            "reading": lambda: engine_reading.measure(bench, sides, largest=args.largest, one_go=args.one_go),
            "answering": lambda: engine_answering.measure(bench, sides),
            "llama": lambda: engine_llama.measure(
                bench, sides, model=model, program=args.llama_bench, largest=max(args.largest, STAND_IN_TO)
            ),
            "growth": lambda: engine_growth.measure(
                bench, sides, to=args.grow_to, theirs_to=args.largest, folder=Path(args.out), beside=beside
            ),
        }  # fmt: skip
        for name, part in parts.items():
            if name in args.only:
                try:
                    part()
                except InklingError as problem:
                    # An hour of other parts is not lost with it.
                    bench.remark(f"**The part {name} broke off:** {problem}")
                    bench.note(f"{name} broke off: {problem}")
                    failed.append(name)
    if len(failed) == len(set(args.only)):
        raise BenchError(f"nothing was measured: {', '.join(failed)} broke off; why is said above")
