"""Benchmarks: one module each, loaded when it is run; ``inkling bench NAME`` is their command.

A bench module has ``SUMMARY`` (one line), ``configure(parser)`` for options of its own, and ``run(bench, args)``, which measures
and hands what it found to ``bench`` (:class:`~workbench.benchmarks.bench.Bench`)::

    def run(bench: Bench, args: argparse.Namespace) -> None:
        text = …
        took = bench.alternate({"with spans": lambda: render(text), "tokenizer alone": lambda: encode(text)})
        bench.rate("with spans", took["with spans"], amount=len(ids), unit="tokens")
        bench.ratio("spans over tokenizer", took["with spans"], took["tokenizer alone"], at_most=1.5)

What is compared is measured in turns in one run, so that a busy machine burdens both sides alike; a ratio of runs that did not
alternate is refused. Benches need no other library than what they measure, and import it inside ``run``.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from ..errors import BenchError

BENCHES = (
    "adapters",
    "app",
    "capture",
    "compose",
    "engine",
    "runner",
    "widgets",
)  # fmt: skip
"""Names of the benches; each is the module ``workbench.benchmarks.<name>``."""


def load(name: str) -> ModuleType:
    """The module of the bench called `name`.

    Raises
    ------
    BenchError
        No bench has this name.
    """
    if name not in BENCHES:
        raise BenchError(f"no bench is called {name!r}: there are {', '.join(BENCHES) or 'none'}", name=name, known=list(BENCHES))
    return importlib.import_module(f"{__name__}.{name}")
