"""``inkling count``: what a context costs, part by part, before anything is sent.

Counts by the running engine's image rule and limit; without one by the model's default, and says so.
"""

from __future__ import annotations

import argparse
from typing import Any

from engine.errors import EngineNotFound

from .composing import add_engine_arguments, add_part_arguments, build_context
from .output import Console

SUMMARY = "count the tokens of documents, images, recordings and a question, exactly"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_part_arguments(parser, question=False)
    add_engine_arguments(parser)
    parser.add_argument("--tree", action="store_true", help="show the tokens by folder, file, page, sheet and clip")
    parser.add_argument("--proof", action="store_true", help="show the hashes of what would be sent")
    parser.add_argument("--no-engine", action="store_true", help="count by the model's default rule, whatever runs")


def run(args: argparse.Namespace, console: Console) -> int:
    """Count and return 0; a context over a limit is an error, after its table."""
    context = build_context(args)
    engine = _engine(args, console)
    budget = context.budget(engine, max_tokens=args.max_tokens)
    console.show(str(budget.tree) + "\n" if args.tree else str(budget), end="")
    proof = context.proof(engine)
    if args.proof:
        console.show(str(proof))
    budget.check()
    if args.token_budget is not None:
        budget.check_below(args.token_budget)
    found = {"context": proof.context, "proof": proof.to_json(), "engine": getattr(engine, "url", None)}
    console.result(budget.to_json() | found)
    return 0


def _engine(args: argparse.Namespace, console: Console) -> Any:
    if args.no_engine:
        return None
    import engine

    try:
        return engine.attach(args.url, args.token)
    except EngineNotFound:
        if args.url:
            raise
        console.note("no engine runs here: counting by the model's default image rule and limit")
        return None
