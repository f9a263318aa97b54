"""``inkling capture``: compose, run once through the engine, keep what happened inside as a file.

The file opens without an engine: ``Capture.load("run.zarr")``, ``inkling report run.zarr``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from .capture_plans import add_plan_arguments, plan_of
from .changing import add_intervention_arguments, interventions_from
from .composing import add_engine_arguments, add_part_arguments, build_context
from .output import Console

SUMMARY = "record what happens inside while a context is read: routing, convolutions, attention, residual stream; as a file"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_part_arguments(parser)
    add_engine_arguments(parser)
    add_plan_arguments(parser)
    add_intervention_arguments(parser)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to save it, such as run.zarr (not needed with --cost)")


def run(args: argparse.Namespace, console: Console) -> int:
    """Capture, save, return 0."""
    # Everything that can be wrong with the plan, the files and the target is found before an engine is looked for.
    from engine.errors import BadRequest

    from ..capture_files import check_target

    plan, interventions = plan_of(args), interventions_from(args)
    if args.out is not None:
        check_target(args.out)
    elif not args.cost:
        raise BadRequest("--out says where to save the capture: inkling capture … --out run.zarr")
    context = build_context(args)
    import engine

    eng = engine.attach(args.url, args.token)
    context.budget(eng, max_tokens=args.max_tokens).check()
    cost = eng.capture_cost(context, plan)
    if args.cost:
        console.show(f"{', '.join(plan.seams())}: {cost}")
        console.result(cost.model_dump(mode="json"))
        return 0
    console.note(f"capturing {', '.join(plan.seams())}: {cost}")
    capture = eng.capture(context, plan, progress=_Progress(console), recompute=args.recompute, interventions=interventions)
    assert args.out is not None  # checked first of all
    capture.save(args.out)
    console.show(f"{args.out}: {capture!r}")
    console.result(
        {"path": str(args.out), "tokens": len(capture), "complete": capture.complete, "context": capture.manifest.context}
    )
    if not capture.complete:
        console.note(f"note: partial, {capture.manifest.covered_tokens:,} of {len(capture):,} tokens were written")
    return 0


class _Progress:
    """A line for every tenth of the tokens."""

    def __init__(self, console: Console) -> None:
        self._console, self._told = console, 0

    def __call__(self, job: object) -> None:
        done, total = job.done_tokens, job.total_tokens  # type: ignore[attr-defined]
        if done * 10 // max(1, total) > self._told:
            self._told = done * 10 // total
            self._console.note(f"{done:,} of {total:,} tokens")
