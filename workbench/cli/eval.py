"""``inkling eval``: ask an engine held-out cases, keep every answer, print a table with intervals and bars.

A run lies in a folder and goes on where it was ended, by Ctrl-C or a kill; asking for more cases later asks only those.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import BadRequest, InklingError

from ..errors import EvalRunError
from .output import Console
from .running import engine_for

if TYPE_CHECKING:
    from engine import Engine

    from ..evals.asking import Manner
    from ..evals.records import Record, RunFolder
    from ..evals.suites import Row

SUMMARY = "measure an engine on held-out cases; goes on where it was ended"
SUITES = {
    "demo": "the demo checkpoint's skills, word for word, each beside its bar",
    "skills": "the same skills on any engine: an answer counts when it says the value",
    "needle": "one fact hidden in long filler, by length and depth, beside published figures",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("suite", choices=SUITES, help="; ".join(f"{name}: {text}" for name, text in SUITES.items()))
    parser.add_argument("--url", help="an engine or a plain vLLM server (default: the running one, or a new one)")
    parser.add_argument("--token", help="its token")
    parser.add_argument("--recipe", default="demo", help="recipe to start when no engine runs (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="the run's folder (default: inkling-eval-SUITE)")
    parser.add_argument("--fresh", action="store_true", help="forget the run that is in the folder")
    parser.add_argument("--cases", type=int, metavar="N", help="at most N cases a row (default: each row's own, mostly 200)")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="only these rows")
    parser.add_argument("--long", action="store_true", help="rows above 100k tokens, too: minutes to hours")
    parser.add_argument("--seed", type=int, default=0, help="of the cases (default: %(default)s)")
    parser.add_argument(
        "--wording", choices=("unseen", "known"), default="unseen", help="wordings of questions (default: %(default)s)"
    )
    parser.add_argument(
        "--concurrency", type=int, default=8, metavar="N", help="questions under way at once (default: %(default)s)"
    )
    parser.add_argument("--max-tokens", type=int, metavar="N", help="longest answer (default: 96; 1024 for skills and needle)")
    parser.add_argument(
        "--trainer", type=Path, nargs="+", metavar="FILE", help="demo: what the trainer's ablate and drafts printed"
    )
    parser.add_argument(
        "--lengths", nargs="+", default=["2k", "8k", "32k", "64k"], metavar="N", help="needle: tokens (%(default)s)"
    )
    parser.add_argument(
        "--depths", nargs="+", type=int, default=[0, 25, 50, 75, 100], metavar="P", help="needle: per cent (%(default)s)"
    )
    parser.add_argument("--haystack", type=Path, metavar="FILE", help="needle: text to hide the fact in (default: generated)")
    parser.add_argument("--note", metavar="TEXT", help="a remark for the report's readers")
    parser.add_argument("--write", type=Path, metavar="NAME", help="write NAME.json and NAME.md as well")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run a suite, print its table, return 0; what does not meet its bar is in the table, not in the status."""
    check(args)
    from ..evals import tables

    extra = tables.trainers_tables(args.trainer or ()) | ({"note": args.note} if args.note else {})
    rows = chosen_rows(args)
    with engine_for(console, recipe=args.recipe, url=args.url, token=args.token) as (eng, _):
        if args.suite == "demo" and eng.info.random_weights:
            console.note("note: this checkpoint has random weights; its answers are noise")
        folder = open_run(args, eng)
        rows, skipped = fitting(rows, eng)
        try:
            ask(eng, rows, args, folder, manner(args, eng), console)
        except (KeyboardInterrupt, InklingError):
            console.note(f"{len(folder.records)} answers are kept in {folder.path}: the same command goes on from there")
            raise
        finally:
            found = finish(
                args, eng, [*rows, *skipped], folder, skipped={row.name: why for row, why in skipped.items()}, extra=extra
            )
            show(found, console)
            console.note(f"written: {folder.path / 'report.json'}, {folder.path / 'report.md'}")
    console.result(found)
    return 0


def check(args: argparse.Namespace) -> None:
    """Refuse what cannot be asked, before anything starts.

    Raises
    ------
    BadRequest
    """
    for name, least in (("cases", 1), ("concurrency", 1), ("max_tokens", 1)):
        value = getattr(args, name)
        if value is not None and value < least:
            raise BadRequest(f"--{name.replace('_', '-')} {value}: at least {least}")
    if any(not 0 <= depth <= 100 for depth in args.depths):
        raise BadRequest(f"--depths {' '.join(map(str, args.depths))}: per cent of the text, 0 to 100")
    if args.trainer and args.suite != "demo":
        raise BadRequest("--trainer belongs to the demo's report: inkling eval demo --trainer FILE")


def chosen_rows(args: argparse.Namespace) -> list[Row]:
    """The suite's rows, those asked for.

    Raises
    ------
    EvalRunError
        A row of that name is not there.
    """
    if args.suite == "needle":
        from ..evals import needle

        found = needle.rows([needle.length(text) for text in args.lengths], args.depths, args.seed, needle.haystack(args.haystack))
    else:
        from ..evals.suites import rows as all_rows

        found = all_rows(args.seed, known=args.wording == "known")
    names = [row.name for row in found]
    if unknown := [name for name in args.rows or () if name not in names]:
        raise EvalRunError(f"no row is called {', '.join(map(repr, unknown))}: there is {'; '.join(names)}")
    return [row for row in found if (row.name in args.rows if args.rows else args.long or not row.long)]


def open_run(args: argparse.Namespace, eng: Engine) -> RunFolder:
    """The run's folder, with what makes its answers comparable."""
    from ..evals.records import RunFolder

    settings: dict[str, Any] = {
        "suite": args.suite, "seed": args.seed, "wording": args.wording, "model": eng.info.model, "revision": eng.info.revision,
        "exact": args.suite == "demo",
    }  # fmt: skip
    if args.suite == "needle":
        settings["haystack"] = str(args.haystack) if args.haystack else "generated"
    return RunFolder.open(args.out or Path(f"inkling-eval-{args.suite}"), settings, fresh=args.fresh)


def fitting(rows: list[Row], eng: Engine) -> tuple[list[Row], dict[Row, str]]:
    """Rows whose contexts this engine takes, and the others with the reason."""
    limit = eng.info.limits.context_tokens
    skipped = {row: f"over this engine's limit of {limit:,} tokens" for row in rows if limit and row.tokens > limit}
    return [row for row in rows if row not in skipped], skipped


def manner(args: argparse.Namespace, eng: Engine) -> Manner:
    """How this suite asks."""
    from ..evals.asking import Manner
    from ..evals.suites import VALUE_ALONE

    exact = args.suite == "demo"
    taught = exact or eng.info.recipe == "demo"
    return Manner(
        exact=exact, system=None if taught else VALUE_ALONE, max_tokens=args.max_tokens or (96 if taught else 1024),
        concurrency=args.concurrency,
    )  # fmt: skip


def ask(eng: Engine, rows: list[Row], args: argparse.Namespace, folder: RunFolder, how: Manner, console: Console) -> None:
    """Ask what is missing, with a progress bar on standard error."""
    from rich.console import Console as Terminal
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from ..evals.asking import ask_all, missing

    groups = missing(rows, args.cases, folder)
    total = sum(len(indices) for _, indices in groups)
    console.note(f"{len(folder.records)} answers are there, {total} to go")
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    terminal = Terminal(stderr=True)
    with Progress(*columns, console=terminal, disable=not terminal.is_terminal) as bar:
        task = bar.add_task("", total=total)
        step = max(1, total // 20)

        def done(row: Row, _: Record) -> None:
            bar.update(task, advance=1, description=row.name)
            # Where there is no terminal to draw on, a line now and then.
            if not terminal.is_terminal and (count := round(bar.tasks[0].completed)) % step == 0:
                console.note(f"{count} of {total} answered, now {row.name}")

        asyncio.run(ask_all(eng, groups, folder, how, done))


def finish(
    args: argparse.Namespace, eng: Engine, rows: list[Row], folder: RunFolder, *, skipped: dict[str, str], extra: dict[str, Any]
) -> dict[str, Any]:
    """The report, written into the run's folder and where else it was asked for."""
    from ..evals import needle, tables

    info = eng.info
    engine = {"model": info.model, "revision": info.revision, "random_weights": info.random_weights, "versions": info.versions}
    found = tables.report(rows, args.cases, folder, engine=engine, skipped=skipped, extra=extra)
    if args.suite == "needle":
        text = needle.page(found)
        needle.figure(found, folder.path / "needle.png")
    else:
        text = tables.page(found, title="Evaluation of the demo checkpoint" if args.suite == "demo" else "Evaluation of skills")
    tables.write(folder.path, found, text)
    if args.write:
        tables.write(args.write.parent, found, text, name=args.write.name)
    return found


def show(found: dict[str, Any], console: Console) -> None:
    """The table for the terminal."""
    if console.json:
        return
    from rich.console import Console as Terminal
    from rich.table import Table

    from ..evals.tables import HEADS, cells

    table = Table(*HEADS)
    for line in found["rows"]:
        table.add_row(*(cell.replace("**", "") for cell in cells(line)))
    # Wide enough for a line a row where the output is no terminal and has no width.
    Terminal(width=None if sys.stdout.isatty() else 130).print(table)
