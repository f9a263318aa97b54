"""The ``inkling`` command: one module per command, loaded when it is called.

A command module has ``SUMMARY`` (one line), ``configure(parser)`` and ``run(args, console) -> int``. Conventions for all:
``--json`` prints one JSON object on standard output and nothing else there; progress and logs go to standard error; exit status 2
for bad input, 1 for what failed, 130 for Ctrl-C. This module knows no command's business.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from engine.errors import InklingError, RequestRefused

from ..errors import ContextError
from .output import Console

COMMANDS = ("demo", "doctor", "engine", "ask", "count", "capture", "report", "plan", "lab", "app", "bench", "eval")


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="inkling", description="Compose for Inkling, ask it, look inside.")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    named = argv[0] if argv and argv[0] in COMMANDS else None
    for name in COMMANDS:
        if named not in (None, name):
            continue
        module = importlib.import_module(f"workbench.cli.{name}")
        sub = commands.add_parser(name, help=module.SUMMARY, description=module.SUMMARY)
        sub.add_argument("--json", action="store_true", help="print one JSON object on standard output")
        module.configure(sub)
        sub.set_defaults(run=module.run)
    args = parser.parse_args(argv)
    console = Console(json=args.json)
    try:
        return args.run(args, console)
    except InklingError as error:
        console.error(error)
        return 2 if isinstance(error, RequestRefused | ContextError) else 1
    except KeyboardInterrupt:
        console.note("interrupted")
        return 130
