"""``inkling bench``: measure, and write what was found with what it was found on.

A bench is a module of ``workbench.benchmarks``, loaded when it is named; its options come after its name.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..benchmarks import BENCHES, load
from .output import Console

SUMMARY = "measure speed and memory in alternating runs; writes JSON and Markdown"

_COMMON = {"out", "rounds", "seed", "quick", "json"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("name", nargs="?", choices=BENCHES, help="which bench; none lists them")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="inkling bench NAME --help lists them")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run one bench, or list them, and return 0."""
    if args.name is None:
        summaries = {name: load(name).SUMMARY for name in BENCHES}
        console.show("\n".join(f"{name:<12} {summary}" for name, summary in summaries.items()))
        console.result({"benches": summaries})
        return 0
    from ..benchmarks.bench import Bench
    from ..benchmarks.markdown import page

    module = load(args.name)
    chosen = _parser(args.name, module).parse_args(args.options)
    console = Console(json=console.json or chosen.json)
    own = {name: value for name, value in vars(chosen).items() if name not in _COMMON}
    bench = Bench(args.name, rounds=chosen.rounds, seed=chosen.seed, quick=chosen.quick, options=own, note=console.note)
    module.run(bench, chosen)
    record = bench.record()
    data, text = record.write(Path(chosen.out))
    console.show(page(record))
    console.note(f"written: {data}, {text}")
    console.result(record.to_json())
    return 0


def _parser(name: str, module) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"inkling bench {name}", description=module.SUMMARY)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument("--out", metavar="FOLDER", default="docs/benchmarks", help="where to write (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="runs of each side that count (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="small inputs, to see that it works; not for quoting")
    module.configure(parser)
    return parser
