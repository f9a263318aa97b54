"""``inkling engine adapters``: load, list and unload adapters of a running engine."""

from __future__ import annotations

import argparse
from typing import Any

from .output import Console

SUMMARY = "load, list and unload adapters of a running engine"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands."""
    tasks = parser.add_subparsers(dest="task", metavar="task", required=True)
    _task(tasks, "list", "what is loaded, and what could be")
    load = _task(tasks, "load", "load an adapter from one of the engine's adapter folders")
    load.add_argument("adapter", help="its folder's name there, or its path on the engine's machine")
    load.add_argument("--name", help="what to call it (default: its folder's name)")
    _task(tasks, "unload", "let an adapter go; what runs with it finishes").add_argument("name", help="what it is called")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run one task; 0 when it did what was asked."""
    import engine

    eng = engine.attach(args.url, args.token)
    match args.task:
        case "load":
            info = eng.adapters.load(args.adapter, args.name)
            console.show(f"loaded {_line(info)}")
            console.result(info.model_dump(mode="json"))
        case "unload":
            info = eng.adapters.unload(args.name)
            console.show(f"unloaded {info.name}")
            console.result(info.model_dump(mode="json"))
        case _:
            loaded, available, support = eng.adapters.list(), eng.adapters.available(), eng.adapters.support
            console.show("\n".join(map(_line, loaded)) or "no adapter is loaded")
            console.show(f"to load: {', '.join(available) or 'nothing'} (from {', '.join(support.folders) or 'no folder'})")
            console.result({
                "loaded": [info.model_dump(mode="json") for info in loaded], "available": available,
                "limits": support.model_dump(mode="json", include={"max_rank", "max_loaded", "max_per_step", "folders"}),
            })  # fmt: skip
    return 0


def _task(tasks: Any, name: str, summary: str) -> argparse.ArgumentParser:
    parser = tasks.add_parser(name, help=summary, description=summary)
    parser.add_argument("--url", help="address of the engine, when several are running")
    parser.add_argument("--token", help="its token, when it is not this user's on this machine")
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object on standard output")
    return parser


def _line(info: Any) -> str:
    return f"{info.name}: rank {info.rank}, {info.modules:,} modules ({', '.join(info.parts)}), {info.size_bytes / 1e6:,.1f} MB"
