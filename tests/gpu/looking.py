"""Parity and cost of captures and interventions on GPUs, in under ten minutes: prints a table, exits 1 when a line is wrong.

    python -m tests.gpu.looking --recipe inkling-4xgb300 [--layer 3]        starts the recipe's engine, and stops it
    python -m tests.gpu.looking --attach                                    on the engine that runs

Written against the released source of vLLM 0.32 and never run on a GPU yet. It states what it saw, never that it is right: on a
machine without a GPU everything here is compared with transformers (tests/cpu). Convolutions are seen only where the engine was
started with ``LAMPORT_RS_SCONV=0``, drafts only where it drafts.
"""

from __future__ import annotations

import argparse
import sys
import time

import engine
from workbench import Context

from . import captures, interventions

LIMIT_S = 600


class Report:
    """Lines of a table, and whether one was out of its bounds."""

    def __init__(self) -> None:
        self.wrong: list[str] = []

    def line(self, name: str, value: float, *, at_most: float = float("inf"), at_least: float = -float("inf")) -> None:
        """Print a line. Bounds allow for bfloat16, which rounds logits by some hundredths between batches of other sizes."""
        good = at_least <= value <= at_most
        self.wrong += [] if good else [name]
        sys.stdout.write(f"{'ok ' if good else 'NO '} {name:60} {value:.4g}\n")
        sys.stdout.flush()


def check(eng: engine.Engine, *, layer: int) -> Report:
    """All checks on a running engine; `layer` is one with experts."""
    report, began = Report(), time.monotonic()
    context = Context(effort="none")
    context.add_text("The ferry leaves the north quay at seven, and again at noon. " * (captures.TOKENS // 14))
    context.ask("When does the ferry leave?")
    captures.check(eng, context, report)
    interventions.check(eng, context, report, layer=layer)
    report.line("seconds of all checks", time.monotonic() - began, at_most=LIMIT_S)
    return report


def main() -> int:
    """Run all checks; 0 when all hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--recipe", help="a recipe by name, or the path of a .toml file")
    where.add_argument("--attach", action="store_true", help="use the engine that runs here")
    parser.add_argument("--layer", type=int, default=3, help="a layer with experts (default: %(default)s)")
    args = parser.parse_args()
    eng = engine.attach() if args.attach else engine.start(args.recipe)
    try:
        report = check(eng, layer=args.layer)
    finally:
        if not args.attach:
            eng.stop()
    sys.stdout.write(f"{eng.info.model}, mode {eng.info.mode}: {len(report.wrong)} lines out of bounds\n")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
