"""Capture plans from the command line: which seams, which layers, which tokens. Knows no engine."""

from __future__ import annotations

import argparse
from typing import Any

from engine.errors import BadRequest
from engine.protocol import AttentionPlan, CapturePlan, DraftsPlan, ResidualPlan, RoutingPlan, SconvPlan


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that make a plan; without any, routing of all tokens."""
    plan = parser.add_argument_group("what to record (default: --routing)")
    plan.add_argument("--routing", action="store_true", help="chosen experts, their weights, the sinks'")
    plan.add_argument("--logits", action="store_true", help="with --routing: the router's raw logits too")
    plan.add_argument(
        "--sconv", choices=("norms", "taps", "channels"), help="short convolutions: norms, also each tap, or also every channel"
    )
    plan.add_argument("--residual", choices=("norms", "vectors"), help="the residual stream")
    plan.add_argument("--lens", type=int, default=0, metavar="K", help="with --residual: the K likeliest next tokens per layer")
    plan.add_argument("--drafts", action="store_true", help="what the draft heads propose (an engine that drafts)")
    plan.add_argument(
        "--attention", metavar="TOKENS", help="attention rows of these query tokens: last, all, or positions as 0-99,250"
    )
    plan.add_argument(
        "--keep", default="pooled", choices=("pooled", "topk", "whole"), help="how much of a row (default: %(default)s)"
    )
    plan.add_argument("--heads", default="all", metavar="LIST", help="heads of --attention (default: all)")
    plan.add_argument(
        "--layers", metavar="LIST", help="all, global, local, or numbers as 0,3,5-8 (default: all; global for --attention)"
    )
    plan.add_argument("--tokens", default="all", metavar="LIST", help="all, last, or positions as 0-99,250 (default: all)")
    plan.add_argument("--cost", action="store_true", help="say what it would cost, and end")
    plan.add_argument("--recompute", action="store_true", help="however many cached tokens must be computed again")


def plan_of(args: argparse.Namespace) -> CapturePlan:
    """The plan that the flags describe.

    Raises
    ------
    BadRequest
        A flag's value is not one.
    """
    layers = {} if args.layers is None else {"layers": numbers(args.layers, "layers")}
    tokens: dict[str, Any] = {"tokens": numbers(args.tokens, "tokens")}
    named = args.routing or args.sconv or args.attention or args.residual or args.lens or args.drafts
    try:
        return CapturePlan(
            routing=RoutingPlan(logits=args.logits, **layers, **tokens) if args.routing or args.logits or not named else None,
            sconv=SconvPlan(keep=args.sconv, **layers, **tokens) if args.sconv else None,
            residual=ResidualPlan(keep=args.residual or "norms", lens=args.lens, **layers, **tokens)
            if args.residual or args.lens
            else None,
            attention=AttentionPlan(
                queries=numbers(args.attention, "attention"), heads=numbers(args.heads, "heads"), keep=args.keep, **layers
            )
            if args.attention
            else None,
            drafts=DraftsPlan(**tokens) if args.drafts else None,
        )
    except ValueError as problem:
        raise BadRequest(f"not a capture plan: {problem}") from problem


def numbers(text: str, name: str) -> Any:
    """A word as it stands, or numbers and ranges (both ends included) as ranges.

    Raises
    ------
    BadRequest
        Neither.

    Examples
    --------
    >>> numbers("last", "tokens"), numbers("3,5-8", "layers")
    ('last', (3, 5, 6, 7, 8))
    """
    if text.isalpha():
        return text
    found: list[Any] = []
    for piece in text.split(","):
        low, _, high = piece.strip().partition("-")
        if not low.isdigit() or (high and not high.isdigit()) or int(high or low) < int(low):
            raise BadRequest(f"--{name} is {text!r}: give a word, or numbers and ranges as 0,3,5-8")
        run = range(int(low), int(high or low) + 1)
        found += [run] if name in ("tokens", "attention") else list(run)
    return tuple(found)
