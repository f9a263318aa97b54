"""Mixed contexts for comparing renderers: every role, kind and order that the chat format has, with real media."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from engine.protocol import EFFORTS
from tests.workbench.samples_of import docx, noise_image, pdf, scan, tone, xlsx
from workbench import Context, samples

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather at a place, in °C",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["place"],
        },
    },
}
ADD = {"name": "add", "parameters": {"type": "object", "properties": {"b": {"type": "number"}, "a": {"type": "number"}}}}
PROSE = "Naïve café — 東京 и Москва, 🙂👩‍👩‍👧.\r\n\tdef f(x):\n        return x**2  # ½\n\n\n   trailing   "


def builders() -> dict[str, Callable[[Path], Context]]:
    """Contexts by name; each is given a folder for its files."""
    found: dict[str, Callable[[Path], Context]] = {
        "text": lambda _: _asked(Context()),
        "system": lambda _: _asked(Context(system="Answer briefly.")),
        "nothing": lambda _: Context(),
        "system alone": lambda _: Context(system="You are a clerk."),
        "later system": _later_system,
        "leading systems": _leading_systems,
        "prose": lambda _: _texts(PROSE, "x" * 5000, " ", "\n", "0" * 50),
        "numbers": lambda _: _texts("3.14159 1,048,576 0xdeadbeef", "2026-11-30T05:00:00Z"),
        "one tool": lambda _: _asked(Context(tools=[WEATHER])),
        "two tools and system": lambda _: _asked(Context("Use tools.", "low", [WEATHER, ADD])),
        "tool call and result": _tool_turns,
        "call without thinking": _bare_call,
        "two turns": _two_turns,
        "thinking kept": _thinking,
        "thinking alone": _thinking_alone,
        "image": lambda _: _with(image=noise_image(512, 384)),
        "tiny image": lambda _: _with(image=noise_image(1, 1)),
        "exact patches": lambda _: _with(image=noise_image(80, 80)),
        "wide image": lambda _: _with(image=noise_image(2100, 30)),
        "tall image": lambda _: _with(image=noise_image(33, 700)),
        "transparent image": lambda _: _with(image=noise_image(60, 41, "RGBA")),
        "audio": lambda _: _with(audio=tone(1.0)),
        "one sample": lambda _: _with(audio=np.zeros(1, np.float32)),
        "801 samples": lambda _: _with(audio=tone(801 / 16_000)),
        "16001 samples": lambda _: _with(audio=tone(16_001 / 16_000)),
        "image then audio": lambda _: _with(image=noise_image(100, 60), audio=tone(0.4)),
        "three images two clips": _many,
        "same image twice": _twice,
        "pdf": _pdf,
        "scanned pdf": _scanned,
        "docx and xlsx": _office,
        "samples": _samples,
        "everything": _everything,
    }
    for name in EFFORTS:
        found[f"effort {name}"] = lambda _, name=name: _asked(Context(effort=name))
    for number in (0, 0.0, 0.1, 0.33, 0.5, 0.99):
        found[f"effort {number!r}"] = lambda _, number=number: _asked(Context(effort=number))
    return found


def _asked(context: Context) -> Context:
    context.ask("Which code opens the north gate?")
    return context


def _texts(*texts: str) -> Context:
    context = Context()
    for text in texts:
        context.add_text(text)
    return context


def _with(image=None, audio=None) -> Context:
    context = Context(effort="none")
    if image is not None:
        context.add_image(image)
    if audio is not None:
        context.add_audio(audio, rate_hz=16_000)
    return _asked(context)


def _later_system(_: Path) -> Context:
    context = _asked(Context())
    context.add_text("From now on in French.", role="system")
    return context


def _leading_systems(_: Path) -> Context:
    context = Context(system="One.")
    context.add_text("Two.", role="system")
    return _asked(context)


def _tool_turns(_: Path) -> Context:
    context = _asked(Context(tools=[WEATHER, ADD]))
    calls = [
        {"name": "get_weather", "arguments": {"place": "Évora", "days": 2}},
        {"name": "add", "arguments": {"b": 1.5, "a": [1, {"z": 0, "y": None}]}},
    ]
    context.add_reply("Let me see.", reasoning="I need the weather.", tool_calls=calls)
    context.add_tool_result("21 °C, clear", tool="get_weather")
    context.add_tool_result("", tool="add")
    return context


def _bare_call(_: Path) -> Context:
    context = _asked(Context(tools=[ADD]))
    context.add_reply("", tool_calls=[{"name": "add", "arguments": {}}])
    context.add_tool_result("0", tool="add")
    return context


def _two_turns(_: Path) -> Context:
    context = _asked(Context("Be brief."))
    context.add_reply("48213.")
    context.ask("And the south gate?")
    return context


def _thinking(_: Path) -> Context:
    context = _asked(Context(effort="max"))
    context.add_reply("48213.", reasoning="Page one\nsays so.")
    context.ask("Sure?")
    return context


def _thinking_alone(_: Path) -> Context:
    context = _asked(Context())
    context.add_reply("", reasoning="Hm.")
    return context


def _many(_: Path) -> Context:
    context = Context()
    for index in range(3):
        context.add_image(noise_image(90 + 40 * index, 70, seed=index))
        context.add_text(f"That was picture {index}.")
    context.add_audio(tone(0.3), rate_hz=16_000)
    context.add_audio(tone(0.7, hz=880), rate_hz=16_000)
    return _asked(context)


def _twice(_: Path) -> Context:
    context = Context()
    context.add_image(noise_image(64, 64))
    context.add_image(noise_image(64, 64))
    return _asked(context)


def _pdf(folder: Path) -> Context:
    context = Context()
    context.add_document(pdf(folder / "plain.pdf", ["First page.\nTwo lines.", "/ begins with a slash", "Third."]))
    return _asked(context)


def _scanned(folder: Path) -> Context:
    context = Context()
    context.add_document(pdf(folder / "scan.pdf", ["Text first.", scan("Scanned second."), None, scan("Fourth.")]))
    return _asked(context)


def _office(folder: Path) -> Context:
    context = Context()
    context.add_document(docx(folder / "report.docx"))
    context.add_document(xlsx(folder / "fees.xlsx"))
    return _asked(context)


def _samples(_: Path) -> Context:
    context, paths = Context(), samples.paths()
    context.add_document(paths["document"])
    context.add_image(paths["image"])
    context.add_audio(paths["audio"])
    return _asked(context)


def _everything(folder: Path) -> Context:
    context = Context("Answer briefly.", 0.25, [WEATHER, ADD])
    context.add_document(pdf(folder / "mixed.pdf", ["Some text.", scan("A scan.")]))
    context.add_image(noise_image(200, 90))
    context.add_audio(tone(0.33), rate_hz=16_000)
    context.add_text(PROSE)
    _asked(context)
    context.add_reply("Wait.", reasoning="Look.", tool_calls=[{"name": "add", "arguments": {"a": 1, "b": 2}}])
    context.add_tool_result("3", tool="add")
    context.add_reply("Three.")
    context.add_image(noise_image(40, 40, seed=4))
    context.ask("And now?")
    return context
