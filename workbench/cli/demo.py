"""``inkling demo``: the whole job once, on the bundled files: compose, count, ask, look inside, report.

Everything it shows comes from the engine that answers: the counts are rendered for it, the routing is captured in it. It starts an
engine if none runs, and stops what it started.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import BadRequest

from .. import samples
from .output import Console
from .running import engine_for

if TYPE_CHECKING:
    from engine import Engine
    from engine.protocol import Reply

    from ..contexts import Context

SUMMARY = "compose a PDF, an image and a recording, ask, capture the routing, write a report"

MAX_TOKENS = 32


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--out", type=Path, default=Path("report.html"), help="where the report goes (default: %(default)s)")
    parser.add_argument("--question", default=samples.QUESTION, help="what to ask (default: %(default)r)")
    parser.add_argument("--max-tokens", type=int, default=MAX_TOKENS, help="length of the answer (default: %(default)s)")
    parser.add_argument("--url", help="an engine to attach to (default: the running one, or a new one)")
    parser.add_argument("--token", help="its token")


def run(args: argparse.Namespace, console: Console) -> int:
    """Do the demo and return 0."""
    from rich.console import Console as RichConsole

    from .. import CapturePlan
    from ..reports import write_report

    if not args.out.parent.is_dir():
        raise BadRequest(f"--out {args.out}: there is no folder {args.out.parent}; make it, or name another place")
    steps = Steps(console)
    context = compose(samples.paths(), args.question)
    steps.done("composed harbour.pdf, chart.png and call.wav")
    with engine_for(console, url=args.url, token=args.token) as (eng, started):
        steps.done(f"engine ready: {eng.info.model}")
        rendered, budget = context.render(eng), context.budget(eng, max_tokens=args.max_tokens)
        if not console.json:
            RichConsole().print(budget)
        steps.done(f"rendered {len(rendered):,} tokens")
        reply = answer(eng, context, args.max_tokens, console)
        steps.done(f"answered with {reply.usage.completion_tokens} tokens")
        capture = eng.capture(context, CapturePlan(routing=True))
        steps.done("captured the routing of every token and layer")
        write_report(args.out, context=context, rendered=rendered, budget=budget, reply=reply, capture=capture)
        steps.done(f"wrote {args.out} ({args.out.stat().st_size / 1e6:.1f} MB)")
    steps.done("engine stopped" if started else "the engine goes on running")
    console.show(how_to_go_on(args.out))
    console.result(
        {
            "report": str(args.out.resolve()), "answer": reply.text, "notices": list(reply.notices), "prompt_tokens": len(rendered),
            "completion_tokens": reply.usage.completion_tokens, "engine_started": started, "model": reply.provenance.get("model"),
            "steps": steps.times,
        }
    )  # fmt: skip
    return 0


def compose(paths: dict[str, Path], question: str) -> Context:
    """The demo's context: the three bundled files and a question."""
    from .. import Context

    context = Context(effort="none")
    context.add_document(paths["document"])
    context.add_image(paths["image"])
    context.add_audio(paths["audio"])
    context.ask(question)
    return context


def answer(eng: Engine, context: Context, max_tokens: int, console: Console) -> Reply:
    """Stream the answer to standard output and return it whole."""
    from engine.protocol import Done, Reasoning, Text

    reply = None
    for event in eng.stream(context, max_tokens=max_tokens, temperature=0):
        if isinstance(event, Text | Reasoning):
            console.show(event.text, end="")
        elif isinstance(event, Done):
            reply = event.reply
    console.show("")
    assert reply is not None, "a stream ends with Done or raises"
    for notice in reply.notices:
        console.show(f"Note: {notice}")
    return reply


def how_to_go_on(report: Path) -> str:
    """What to try next, in a few lines; in a clone by make, elsewhere by the command."""
    clone = (Path(__file__).parents[2] / "Makefile").exists()
    lab, app = ("make lab", "make app") if clone else ("inkling lab", "inkling app")
    return "\n".join(
        [
            "",
            f"Open {report} in a browser: it holds the context, the budget, the answer and the routing.",
            f"  {lab:12} JupyterLab with the tutorials",
            f"  {app:12} the same in a web page: drop files, ask, look inside",
            "  inkling ask --doc a.pdf --image b.png --audio c.wav 'question'",
        ]
    )


class Steps:
    """Progress of the demo: a line per step with the time since the start, in seconds."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.begun = time.monotonic()
        self.times: list[dict[str, Any]] = []

    def done(self, text: str) -> None:
        """Note that a step is done."""
        at_s = time.monotonic() - self.begun
        self.times.append({"step": text, "at_s": round(at_s, 2)})
        self.console.note(f"[{at_s:5.1f} s] {text}")
