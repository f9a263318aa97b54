"""The widgets in a real browser: first paint on a whole window of tokens, frames per second, bytes per gesture, memory.

Each view is opened on a saved capture of a million tokens (:mod:`large_capture`) as a notebook opens it, and driven by real pointer
and wheel events in headless Chromium. Frames are counted by the page itself. No notebook stands in between: its sockets add what
they add to every answer, and the bytes are the same.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .bench import Bench
from .measuring import Series
from .widget_host import Hosted, browser, hosted

SUMMARY = "the widgets in a real browser: first paint, frames per second, bytes per gesture, memory after 200 gestures"

STRIP = "[aria-roledescription='token strip']"
PAINTED = "() => window.painted_ms !== undefined && document.querySelector(\"[aria-roledescription='token strip']\") !== null"
WAIT_MS = 120_000
ANSWERED = "() => window.open_questions === 0"
FRAMES = """async ([selector, kind, seconds]) => {
  const canvas = document.querySelector(selector);
  const box = canvas.getBoundingClientRect();
  const [began, gaps] = [performance.now(), []];
  let last = began;
  for (let n = 0; performance.now() - began < seconds * 1000; n += 1) {
    const at = { bubbles: true, cancelable: true, clientX: box.left + 80 + (n * 7) % (box.width - 120), clientY: box.top + 60 };
    if (kind === "hover") canvas.dispatchEvent(new PointerEvent("pointermove", at));
    else if (kind === "pan") canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaX: n % 40 < 20 ? 40 : -40 }));
    else canvas.dispatchEvent(new WheelEvent("wheel", { ...at, ctrlKey: true, deltaY: n % 60 < 30 ? -90 : 90 }));
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    gaps.push(now - last);
    last = now;
  }
  return gaps;
}"""
"""One event per frame for some seconds; the time between frames in milliseconds."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the bench's options."""
    parser.add_argument("--tokens", type=int, default=1_000_000, metavar="N", help="of the capture (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, metavar="S", help="of each gesture (default: %(default)s)")
    parser.add_argument("--gestures", type=int, default=200, metavar="N", help="before memory is read again (default: %(default)s)")


def run(bench: Bench, args: argparse.Namespace) -> None:
    """Measure."""
    from ..captures import Capture
    from .large_capture import save

    args = bench.sized(args, tokens=50_000, seconds=0.5, gestures=20)
    with TemporaryDirectory() as folder, browser() as chromium:
        bench.note(f"making a capture of {args.tokens:,} tokens")
        path = save(Path(folder) / "run.zarr", args.tokens, seed=bench.seed)
        for name, make in (("routing_map", _routing), ("attention_view", _attention), ("sconv_view", _sconv)):
            _first_paint(bench, chromium, name, lambda make=make: make(Capture.load(path)))
            state, answer = make(Capture.load(path))
            with hosted(chromium, name, state, answer) as shown:
                _open(shown)
                _gestures(bench, shown, name, args.seconds)
                _memory(bench, shown, name, args.gestures)
    _updates(bench)
    bench.remark("Random numbers of eight layers; a real model's 66 layers make the answers of a strip eight times as large.")
    bench.remark("The page is driven without a notebook: its socket is not in the times.")


def _routing(capture: Any) -> tuple[dict[str, Any], Any]:
    from ..routing_views import answer, traits

    return traits(capture), partial(answer, capture)


def _attention(capture: Any) -> tuple[dict[str, Any], Any]:
    from ..attention_views import AttentionSubject, answer, traits

    subject = AttentionSubject.of(capture)
    return traits(subject), partial(answer, subject)


def _sconv(capture: Any) -> tuple[dict[str, Any], Any]:
    from ..sconv_views import SconvSubject, answer, traits

    subject = SconvSubject.of(capture)
    return traits(subject), partial(answer, subject)


def _first_paint(bench: Bench, chromium: Any, name: str, make: Any) -> None:
    """From the saved file to the first painted frame: reading in Python, then the page."""
    python: list[float] = []

    def opened() -> float:
        began = time.perf_counter()
        state, answer = make()
        python.append(time.perf_counter() - began)
        with hosted(chromium, name, state, answer) as shown:
            took = python[-1] + _open(shown)
            shown.page.wait_for_function(ANSWERED, timeout=WAIT_MS)  # or the next round shares the machine with these answers
            return took

    first = Series(name, (opened(),), (0,))
    bench.time(f"{name}: the first opening of a new capture", first, note="what is kept beside it is made now")
    python.clear()
    found = bench.measure(f"{name}: first paint", opened, rounds=max(3, bench.rounds // 2))
    bench.time(f"{name}: first paint", found, at_most_s=1.0, note="capture opened, traits made, page drawn")
    counted = tuple(python[-len(found.runs_s) :])
    bench.time(f"{name}: of that in Python", Series(name, counted, found.turns))


def _open(shown: Hosted) -> float:
    """Open the page; seconds until the widget's first frame was painted, since navigation."""
    shown.page.goto(shown.url)
    shown.page.wait_for_function(PAINTED)
    return float(shown.page.evaluate("window.painted_ms")) / 1_000


def _gestures(bench: Bench, shown: Hosted, name: str, seconds: float) -> None:
    page = shown.page
    page.wait_for_function(ANSWERED, timeout=WAIT_MS)
    zoomed = (
        "() => document.querySelector(\"%s\").dispatchEvent(new WheelEvent('wheel', {ctrlKey: true, deltaY: -900, clientX: 600}))"
    )
    for kind in ("hover", "pan", "zoom"):
        if kind == "pan":  # there is nothing to pan in the whole
            page.evaluate(zoomed % STRIP)
            page.wait_for_function(ANSWERED, timeout=WAIT_MS)
        before, questions = shown.carried, len(shown.sent)
        gaps = page.evaluate(FRAMES, [STRIP, kind, seconds])
        page.wait_for_function(ANSWERED, timeout=WAIT_MS)
        _frames(bench, f"{name}: {kind}", gaps)
        asked = len(shown.sent) - questions
        bench.value(f"{name}: bytes of {seconds:g} s {kind}", shown.carried - before, unit="bytes", note=f"{asked} questions")
    largest = max((a + b for a, b in zip(shown.sent, shown.received, strict=True)), default=0)
    bench.value(f"{name}: largest question and answer", largest, unit="bytes", at_most=1_000_000)


def _frames(bench: Bench, name: str, gaps: list[float]) -> None:
    """Frames per second, and the slowest twentieth."""
    ordered = sorted(gaps)
    slow = ordered[int(len(ordered) * 0.95)]
    bench.rate(name, Series(name, (sum(gaps) / 1_000,), (0,)), amount=len(gaps), unit="frames", at_least=30,
               note=f"95 % of the frames within {slow:.0f} ms")  # fmt: skip


def _updates(bench: Bench) -> None:
    """How often a chat tells its page while an answer comes, where an engine runs."""
    import engine

    from ..chat_sessions import UPDATES_PER_S, ChatSession

    if not (running := engine.list()):
        bench.remark("No engine was running: updates per second while an answer streams were not measured.")
        return
    session = ChatSession(engine.attach(running[0].url), max_tokens=200, temperature=1.0)
    told: list[float] = []
    session.listen(lambda: told.append(time.perf_counter()))
    session.send("Tell me everything about the harbour.")
    session.wait(120)
    per_s = (len(told) - 1) / max(1e-9, told[-1] - told[0])
    bench.value("chat: updates while an answer streams", per_s, unit="1/s", at_most=UPDATES_PER_S, note=f"{len(told)} updates")


def _memory(bench: Bench, shown: Hosted, name: str, gestures: int) -> None:
    """What the page holds after many gestures over what it held after a few, both after a collection."""
    page, session = shown.page, shown.page.context.new_cdp_session(shown.page)
    session.send("Performance.enable")
    box = page.locator(STRIP).bounding_box()

    def act(count: int) -> None:
        for n in range(count):
            x = box["x"] + 70 + (n * 37) % (box["width"] - 100)
            page.mouse.move(x, box["y"] + 60)
            if n % 4 == 0:
                page.mouse.click(x, box["y"] + 60)
            if n % 10 == 9:
                page.keyboard.press("Escape")
        page.wait_for_function(ANSWERED, timeout=WAIT_MS)

    def held() -> tuple[int, int]:
        session.send("HeapProfiler.collectGarbage")
        found = {item["name"]: item["value"] for item in session.send("Performance.getMetrics")["metrics"]}
        return int(found["JSHeapUsedSize"]), int(found["Nodes"])

    act(20)
    first = held()
    act(gestures)
    last = held()
    bench.value(
        f"{name}: heap after {gestures} gestures", last[0], unit="bytes", note=f"{last[0] - first[0]:+,} bytes since the 20th"
    )
    bench.value(f"{name}: growth of the heap", (last[0] - first[0]) / max(1, first[0]), unit="of it", at_most=0.1)
    bench.value(f"{name}: elements more", last[1] - first[1], unit="nodes")
