"""``inkling ask``: compose, check that it fits, send, stream the answer.

The answer goes to standard output as it comes; thinking, progress and usage go to standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from engine.errors import RequestFailed
from engine.protocol import Done, Event, PrefillProgress, Reasoning, Reply, Text, ToolCall

from .changing import add_intervention_arguments, interventions_from
from .composing import add_engine_arguments, add_part_arguments, build_context
from .output import Console

if TYPE_CHECKING:
    from engine import Engine

    from ..causes import AttributionProgress

SUMMARY = "ask about documents, images and recordings; the answer streams to standard output"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_part_arguments(parser)
    add_engine_arguments(parser)
    parser.add_argument("--temperature", type=float, default=1.0, help="0 is greedy (default: %(default)s)")
    parser.add_argument("--top-p", type=float, default=1.0, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, help="for the same answer again")
    add_intervention_arguments(parser)
    parser.add_argument(
        "--attribute", action="store_true", help="afterwards: what the answer loses without each part (one prefill per part)"
    )
    parser.add_argument("--adapter", metavar="NAME", help="a loaded adapter that shall answer (inkling engine adapters list)")


def run(args: argparse.Namespace, console: Console) -> int:
    """Ask, print the answer, return 0."""
    # Everything that can be wrong with the files is found before an engine is looked for.
    interventions = interventions_from(args)
    context = build_context(args)
    import engine

    eng = engine.attach(args.url, args.token)
    budget = context.budget(eng, max_tokens=args.max_tokens)
    budget.check()
    if args.token_budget is not None:
        budget.check_below(args.token_budget)
    for note in budget.notes:
        console.note(f"note: {note}")
    sampling: dict[str, Any] = {
        "max_tokens": args.max_tokens, "temperature": args.temperature, "top_p": args.top_p, "seed": args.seed,
        "adapter": args.adapter,
    }  # fmt: skip
    printer = Printer(console)
    for event in eng.stream(context, interventions=interventions, **sampling):
        printer.take(event)
    reply = printer.reply
    if reply is None:
        raise RequestFailed("the stream ended without an answer: see the engine's log (inkling engine logs)")
    console.show("")
    lost = _attributed(reply, eng, console) if args.attribute else None
    _close(reply, console, lost)
    return 0


def _attributed(reply: Reply, eng: Engine, console: Console) -> dict[str, float]:
    """What the answer loses without each part, shown and by name."""
    from ..causes import attribute

    found = attribute(reply, engine=eng, progress=_Attributing(console))
    drops = dict(zip(found.data["part"].values.tolist(), found.data["drop"].values.tolist(), strict=True))
    console.show("log-probability the answer loses without each part, in nats:")
    for name, drop in sorted(drops.items(), key=lambda item: -item[1]):
        console.show(f"  {drop:+9.3f}  {name}")
    return drops


class _Attributing:
    """Says which part is being masked, once each."""

    def __init__(self, console: Console) -> None:
        self._console, self._said = console, -1

    def __call__(self, progress: AttributionProgress) -> None:
        if progress.done != self._said and 0 < progress.done < progress.total:
            self._said = progress.done
            self._console.note(f"without {progress.name} ({progress.done} of {progress.total - 1})")


class Printer:
    """Prints one reply's events as they come."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.reply: Reply | None = None
        self._noted_at = time.monotonic()
        self._thinking = False

    def take(self, event: Event) -> None:
        """Print one event."""
        match event:
            case PrefillProgress(done_tokens=done, total_tokens=total, waiting=waiting):
                # One line a second is enough, and none for a prompt that is read at once.
                if time.monotonic() - self._noted_at >= 1:
                    self._noted_at = time.monotonic()
                    self.console.note("waiting for the engine" if waiting else f"reading {done:,} of {total:,} tokens")
            case Reasoning(text=text):
                self._aside(text)
            case Text(text=text):
                self._end_aside()
                self.console.show(text, end="")
            case ToolCall():
                self._end_aside()
                arguments = event.raw if event.arguments is None else json.dumps(event.arguments, ensure_ascii=False)
                self.console.show(f"{event.name}({arguments})" + (f"  [unreadable: {event.problem}]" if event.problem else ""))
            case Done(reply=reply):
                self._end_aside()
                self.reply = reply

    def _aside(self, text: str) -> None:
        sys.stderr.write(text if self._thinking else f"[thinking] {text}")
        sys.stderr.flush()
        self._thinking = True

    def _end_aside(self) -> None:
        if self._thinking:
            sys.stderr.write("\n")
        self._thinking = False


def _close(reply: Reply, console: Console, lost: dict[str, float] | None) -> None:
    for notice in reply.notices:
        console.note(f"note: {notice}")
    if reply.finish_reason == "length":
        console.note("note: cut at --max-tokens; ask for more to see the rest")
    use, took = reply.usage, reply.timings
    console.note(
        f"{use.prompt_tokens:,} prompt tokens ({use.cached_tokens:,} cached), {use.completion_tokens:,} answer tokens, "
        f"first after {took.first_token_s:.2f} s, all after {took.total_s:.2f} s"
    )
    console.result(
        {
            "text": reply.text, "reasoning": reply.reasoning, "tool_calls": [asdict(call) for call in reply.tool_calls],
            "finish_reason": reply.finish_reason, "usage": asdict(use), "timings": asdict(took), "notices": list(reply.notices),
            "context": reply.context, "adapter": reply.adapter, "request_id": reply.request_id, "provenance": reply.provenance,
        }
        | ({} if lost is None else {"lost_without": lost})
    )  # fmt: skip
