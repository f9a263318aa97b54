"""What is asked: rows of cases, each with the bar it is held to.

A row makes its cases by number from the seed, so that a run can go on anywhere. Cases are held out: values, layouts, codes and
voices that training never has; questions in wordings that training never has, but for look-up, where rewording is a row of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from engine.demo.train.skills import bars, digits, grids, reading, sounds, spoken, talk, together, tools
from engine.demo.train.skills.items import Item, Maker, Scene, Step, Text
from engine.demo.train.skills.sequences import case

THINKING_EFFORTS = ("0.7", "0.9", "0.99")
VALUE_ALONE = (
    "Answer with the value alone, in as few words as possible. Digits are written without spaces. "
    "If it is not there, answer: not stated."
)
"""System text for engines that do not know the demo's form of answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    Attributes
    ----------
    make : callable
        Case by number, from 0.
    bar : float or None
        Share of right answers it is held to.
    cases : int
        At most so many; a run may ask for fewer.
    tokens : int
        About how long the longest of its contexts is.
    shared : int
        So many cases in a row share a document; the first of them fills the prefix cache for the others.
    long : bool
        Only when long ones are asked for.
    """

    name: str
    make: Callable[[int], Item]
    about: str
    bar: float | None = None
    cases: int = 200
    tokens: int = 1000
    shared: int = 1
    long: bool = False


def rows(seed: int = 0, *, known: bool = False) -> tuple[Row, ...]:
    """All rows of the demo's evaluation.

    Parameters
    ----------
    known : bool
        Ask images, recordings and the rest in the wordings of training.
    """
    return (*_reading_rows(seed), *_scene_rows(seed, paraphrase=not known), _thinking_row(seed))


def _reading_rows(seed: int) -> tuple[Row, ...]:
    sizes = (("256", 256, 200, 2), ("1k", 1_000, 200, 4), ("2k", 2_000, 200, 4), ("8k", 8_000, 200, 10), ("64k", 64_000, 40, 10),
             ("256k", 256_000, 20, 20), ("1M", 1_040_000, 20, 20))  # fmt: skip
    bars_of = {"2k": 0.97, "64k": 0.93}
    found = [
        _read(seed, f"look-up, {name}", "lookup", f"a stated fact in {name} tokens", tokens=tokens, cases=cases, shared=shared,
              bar=bars_of.get(name), long=tokens > 100_000)
        for name, tokens, cases, shared in sizes
    ]  # fmt: skip
    return (
        *found,
        _read(seed, "look-up, reworded", "lookup", "asked in wordings that training does not have, 1k tokens", bar=0.85,
              paraphrase=True),
        _read(seed, "look-up, foreign", "lookup", "names, places and things outside the training vocabulary, 1k tokens", bar=0.85,
              foreign=True),
        _read(seed, "not stated", "not stated", "near misses in 1k tokens", bar=0.9),
        _read(seed, "two hops", "two hops", "a fact about the person that another fact names, 1k tokens"),
    )  # fmt: skip


def _read(
    seed: int, name: str, skill: str, about: str, *, tokens: int = 1_000, cases: int = 200, shared: int = 4,
    bar: float | None = None, long: bool = False, paraphrase: bool = False, foreign: bool = False,
) -> Row:  # fmt: skip
    @lru_cache(16)
    def questions(number: int) -> list[Item]:
        random = Random(f"{seed}/{name}/document {number}")
        while True:
            scene = reading.scene(random, held_out=True, level=1.0, room=tokens, foreign=foreign)
            if found := _distinct(scene, skill, random, paraphrase, shared):
                return found

    return Row(
        name=name, about=about, bar=bar, cases=cases, tokens=tokens, shared=shared, long=long,
        make=lambda index: questions(index // shared)[index % shared],
    )  # fmt: skip


def _distinct(scene: Scene, skill: str, random: Random, paraphrase: bool, count: int) -> list[Item]:
    """`count` different questions about one scene, or none if it does not have so many."""
    found: dict[str, tuple[Step, ...]] = {}
    for _ in range(40 * count):
        steps = scene.ask(random, paraphrase, skill)
        if not steps:
            return []
        found.setdefault(next(step.text for step in steps if isinstance(step, Text)), steps)
        if len(found) == count:
            return [Item("0.0", (*scene.steps, *steps)) for steps in found.values()]
    # A short document may state a single pair of facts: its questions are asked again then.
    return [Item("0.0", (*scene.steps, *steps)) for steps in list(found.values()) * count][:count]


def _scene_rows(seed: int, *, paraphrase: bool) -> tuple[Row, ...]:
    def row(name: str, maker: Maker, skill: str, about: str, *, bar: float | None = None, cases: int = 200, room: int = 400,
            kind: str = "") -> Row:  # fmt: skip
        def make(index: int) -> Item:
            return case(maker, skill, Random(f"{seed}/{name}/{index}"), paraphrase=paraphrase, kind=kind, room=room)

        return Row(name=name, about=about, bar=bar, cases=cases, tokens=room, make=make)

    return (
        row("what is at", _small_grids, "what is at", "grids of up to 5 × 5 cells of 40 px", bar=0.95),
        row("where", _small_grids, "where", "one shape's row and column", bar=0.8),
        row("count", _small_grids, "count", "shapes of a kind or a colour", bar=0.8),
        row("colour", _small_grids, "colour", "colour of a shape, shape of a colour"),
        row("what is at, larger", _large_grids, "what is at", "cells of 60 to 200 px, up to 1000 px", room=2700, cases=100),
        row("digits shown", digits.shown, "digits shown", "2 to 6 digits, 14 typefaces, 12 to 48 px", bar=0.9),
        row("bars", bars.chart, "bars", "tallest, shortest, how many", room=2700),
        row("touch tones", sounds.dialled, "dtmf", "2 to 8 keys", bar=0.95),
        row("tones", sounds.tones, "tones", "how many"),
        row("pitch", sounds.tones, "pitch", "which tone is highest, which lowest"),
        row("spoken digits", spoken.spoken, "spoken", "2 to 5 digits in voices that training does not have", bar=0.85),
        row("spoken in one breath", spoken.in_one_breath, "spoken in one breath", "as espeak-ng runs them together", cases=20),
        row("together", together.scene, "together", "documents, images and recordings at once", bar=0.85, room=600),
        row("tool calls", tools.scene, "tools", "valid, the fitting tool, the right value", bar=0.95, room=500),
        row("tool results", tools.scene, "tool result", "the answer from what the tool returned", room=500, kind="tools"),
        row("no tool fits", tools.scene, "no tool", "no call", room=500),
        row("several turns", talk.told, "turns", "a fact told some turns before"),
        row("courtesy", talk.told, "courtesy", "greetings and thanks"),
    )


def _small_grids(random: Random, *, held_out: bool, level: float, room: int) -> Scene:
    return grids.scene(random, held_out=held_out, level=level, room=room, large=False)


def _large_grids(random: Random, *, held_out: bool, level: float, room: int) -> Scene:
    return grids.scene(random, held_out=held_out, level=level, room=room, large=True)


def _thinking_row(seed: int) -> Row:
    """Every kind of case at efforts that ask for a thinking message."""
    mix: tuple[tuple[Maker, str], ...] = (
        (reading.scene, "lookup"), (_small_grids, "what is at"), (sounds.dialled, "dtmf"), (talk.told, "turns"),
        (tools.scene, "tools"),
    )  # fmt: skip

    def make(index: int) -> Item:
        maker, skill = mix[index % len(mix)]
        effort = THINKING_EFFORTS[index % len(THINKING_EFFORTS)]
        return case(maker, skill, Random(f"{seed}/thinking/{index}"), paraphrase=False, effort=effort, room=300)

    return Row(name="thinking", about="a thinking message first at effort 0.7 and above, then the right answer", make=make)
