"""Typing in the app: from a key that is pressed to the frame that shows it, whatever else the page, the app and the engine do.

The app runs as people start it, in a process of its own, on a real engine; headless Chromium opens its page and real key events are
sent to the message box, with a rest now and then that lets the page ask for the price. A key's time is taken in the page: from the
event's own time stamp, given where the browser received it, to the first task after the frame that followed. Sides: an empty desk;
a context of a million tokens composed; a long answer streaming; both.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ..errors import BenchError
from .app_host import Desk, running_app
from .bench import Bench
from .measuring import Series
from .widget_host import browser

SUMMARY = "typing in the app in a real browser: key to paint, with a million tokens composed and a long answer streaming"

SMOOTH_S, LATEST_S = 0.05, 0.1
"""Aims: the median key within three frames, and 95 of 100 before a reader notices (a tenth of a second)."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the bench's options."""
    parser.add_argument("--tokens", type=int, default=1_000_000, metavar="N", help="of the large context (default: %(default)s)")
    parser.add_argument("--keys", type=int, default=60, metavar="N", help="pressed in each run (default: %(default)s)")
    parser.add_argument(
        "--characters", type=int, default=4_000, metavar="N", help="of the answer when typing begins (default: %(default)s)"
    )


def run(bench: Bench, args: argparse.Namespace) -> None:
    """Measure."""
    args = bench.sized(args, tokens=20_000, keys=20, characters=500)
    with TemporaryDirectory() as folder, running_app(bench.note) as address, browser() as chromium:
        text = large_text(Path(folder) / "large.txt", args.tokens, seed=bench.seed)
        small, large = Desk(chromium, address), Desk(chromium, address)
        bench.note(f"composing {args.tokens:,} tokens")
        began = time.perf_counter()
        composed = large.compose(text)
        bench.value("tokens composed", composed, unit="tokens", note=f"in {time.perf_counter() - began:.1f} s, upload to budget")
        seen: dict[str, list[float]] = {}

        def typing(side: str, desk: Desk) -> float:
            found = desk.type(args.keys)
            seen.setdefault(side, []).extend(found)
            return float(np.median(found))

        def streaming(side: str, *, compose: bool) -> float:
            for _ in range(20):
                small.ask_at_length(args.characters)
                if compose:
                    small.compose(text)
                taken = typing(side, small) if small.answering else None
                went_on = small.answering
                small.stop()
                if compose:
                    small.take_away()
                if taken is not None and went_on:
                    return taken
                del seen.get(side, [])[-args.keys :]
            raise BenchError("twenty answers ended before the typing did")

        sides: dict[str, Callable[[], float]] = {
            "empty": lambda: typing("empty", small),
            "large context": lambda: typing("large context", large),
            "answer streaming": lambda: streaming("answer streaming", compose=False),
            "both": lambda: streaming("both", compose=True),
        }
        found = bench.alternate(sides)
        for side, series in found.items():
            report(bench, side, series, seen[side])
        for side in ("large context", "answer streaming", "both"):
            bench.ratio(f"key to paint, {side} over empty", found[side], found["empty"])
        shown = bench.measure("price", large.price, rounds=3)
        bench.time("price of a message over the large context", shown, note="asked when typing rests; the page goes on meanwhile")
    bench.remark("Key to paint holds the wait for the next frame: 8 ms on average at 60 frames a second.")


def report(bench: Bench, side: str, series: Series, keys_s: list[float]) -> None:
    """The median of the runs' medians, and the slowest twentieth of all keys of the runs that counted."""
    counted = keys_s[-len(series.runs_s) * (len(keys_s) // (len(series.runs_s) + 1)) :]
    bench.time(f"key to paint, {side}", series, at_most_s=SMOOTH_S)
    late = float(np.quantile(counted, 0.95))
    bench.value(f"95 % of the keys within, {side}", late, unit="s", at_most=LATEST_S, note=f"slowest {max(counted):.3g} s")


def large_text(path: Path, tokens: int, *, seed: int) -> Path:
    """A text file of about so many tokens: numbered lines of plain words."""
    from .. import tokens as tokenizer

    draw = np.random.default_rng(seed)
    words = np.array(["harbour", "ferry", "gate", "berth", "pilot", "north", "tide", "letter", "winter", "open", "boat", "crane"])

    def lines(count: int) -> str:
        return "\n".join(f"{n}: {' '.join(draw.choice(words, 12))}" for n in range(count))

    each = len(tokenizer.encode(lines(500))) / 500
    path.write_text(lines(round(tokens / each)), encoding="utf-8")
    return path
