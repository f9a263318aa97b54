"""``inkling capture``: compose, run once through the engine, keep what happened inside as a file.

The file opens without an engine: ``Capture.load("run.zarr")``, ``inkling report run.zarr``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.protocol import CapturePlan

from .composing import add_engine_arguments, add_part_arguments, build_context
from .output import Console

SUMMARY = "record which experts every token of a context used, as a file"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_part_arguments(parser)
    add_engine_arguments(parser)
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="where to save it, such as run.zarr")


def run(args: argparse.Namespace, console: Console) -> int:
    """Capture, save, return 0."""
    # Everything that can be wrong with the files and the target is found before an engine is looked for.
    from ..capture_files import check_target

    check_target(args.out)
    context = build_context(args)
    import engine

    eng = engine.attach(args.url, args.token)
    context.budget(eng, max_tokens=args.max_tokens).check()
    capture = eng.capture(context, CapturePlan(routing=True))
    capture.save(args.out)
    console.show(f"{args.out}: {capture!r}")
    console.result(
        {"path": str(args.out), "tokens": len(capture), "complete": capture.complete, "context": capture.manifest.context}
    )
    if not capture.complete:
        console.note(f"note: partial, {capture.manifest.covered_tokens:,} of {len(capture):,} tokens were written")
    return 0
