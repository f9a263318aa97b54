"""Tool calls in Inkling's JSON form: the fitting tool with the value from the question, its result used, no call when none fits.

Half of the tools are written by hand, half are made of a word ("Gives the pier of a city."), so that a tool is chosen by what its
declaration says. A tool's name begins with what it gives. Values are such that their tokens are the same in running text and inside
quotation marks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from engine.demo.train.facts import Phrases
from engine.demo.train.lookup import NOT_STATED
from engine.demo.train.skills.items import Answer, Result, Scene, Step, Text, it_is
from engine.demo.train.skills.wordings import PROPERTY
from engine.demo.train.tokens import encode

WRITTEN = (
    ("weather", "Weather in a city.", "city", "place", "degrees",
     "What is the weather in {value}?|How is the weather in {value}?"),
    ("ferry_time", "Time of the next ferry to a city.", "city", "place", "time",
     "When does the next ferry to {value} leave?|When is the next ferry to {value}?"),
    ("price", "Price of an item.", "item", "noun", "price", "What is the price of the {value}?|How much is the {value}?"),
    ("telephone", "Telephone number of a person.", "name", "person", "number",
     "What is the telephone number of {value}?|Find the telephone number of {value}."),
    ("opening_time", "Opening time of a place.", "place", "noun", "time",
     "When does the {value} open?|At what time does the {value} open?"),
    ("owner", "Owner of a code.", "code", "code", "person",
     "Who is the owner of the code {value}?|Who owns the code {value}?"),
    ("stock", "Number of items in stock.", "item", "noun", "number",
     "How many of the {value} are in stock?|What is the number of the {value} in stock?"),
    ("room", "Room of a person.", "name", "person", "spot", "In which room is {value}?|Which room does {value} have?"),
    ("population", "Population of a city.", "city", "place", "number",
     "What is the population of {value}?|How many people live in {value}?"),
)  # fmt: skip
HELD_OUT = (
    ("height", "Height of a tower.", "tower", "place", "length",
     "What is the height of the tower of {value}?|Tell me the height of the tower of {value}."),
    ("doctor", "Doctor on duty in a city.", "city", "place", "person",
     "Who is the doctor on duty in {value}?|Find the doctor in {value}."),
    ("tide_time", "Time of the next high tide at a harbour.", "harbour", "place", "time",
     "When is the next high tide at {value}?|At what time is high tide at {value}?"),
    ("parcel", "Place of a parcel by its code.", "code", "code", "spot",
     "Where is the parcel {value}?|Where is my parcel {value}?"),
)  # fmt: skip
"""Name, description, parameter, kind of its value, kind of the result, questions."""


TOLD = ("result: {}", "The {name} is {}.", "{name}: {}")
"""How a tool puts its result."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool and how its use is asked for."""

    name: str
    description: str
    parameter: str
    value: str
    result: str
    questions: tuple[str, ...]

    @property
    def declaration(self) -> Mapping[str, Any]:
        """As the chat format declares it."""
        schema = {"properties": {self.parameter: {"type": "string"}}, "required": [self.parameter], "type": "object"}
        return {"description": self.description, "name": self.name, "parameters": schema, "type": "function"}


def scene(random: Random, *, held_out: bool, level: float, room: int) -> Scene:
    """One to three tools, and questions that one of them fits, or none."""
    phrases = Phrases(random, held_out=held_out)
    most = max(1, min(round(1 + 2 * level), room // 75))
    tools: list[Tool] = []
    for _ in range(random.randint(1, most) + 1):
        tool = _tool(phrases)
        while any(tool.name == other.name or tool.description == other.description for other in tools):
            tool = _tool(phrases)
        tools.append(tool)
    missing = tools.pop()

    def use(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        tool = random.choice(tools)
        value = _plain(lambda: _value(phrases, tool.value))
        text = random.choice(tool.questions).format(value=value)
        result = _result(phrases, tool.result)
        told = random.choice(TOLD).format(result, name=tool.name.split("_")[0])
        call = Answer("tools", call=(tool.name, {tool.parameter: value}))
        return Text(text), call, Result(tool.name, told), it_is(result, "tool result")

    def none(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        value = _plain(lambda: _value(phrases, missing.value))
        return Text(random.choice(missing.questions).format(value=value)), Answer("no tool", NOT_STATED)

    return Scene(
        (), ((0.7, "tools", use), (0.3, "no tool", none)), questions=4, tools=tuple(t.declaration for t in tools), alone=True
    )  # fmt: skip


def _tool(phrases: Phrases) -> Tool:
    random = phrases.random
    if random.random() < 0.5:
        name, description, parameter, value, result, questions = random.choice(HELD_OUT if phrases.held_out else WRITTEN)
        return Tool(name, description, parameter, value, result, tuple(questions.split("|")))
    noun = _plain(phrases.noun)
    parameter, value = random.choice((("city", "place"), ("name", "person"), ("item", "noun"), ("code", "code")))
    of = "{value}" if value in ("place", "person") else f"the {parameter} {{value}}"
    questions = tuple(text.format(noun=noun, of=of) for text in PROPERTY)
    result = random.choice(("number", "person", "code", "time", "price", "date"))
    return Tool(
        noun if random.random() < 0.5 else f"{noun}_of_{parameter}",
        f"Gives the {noun} of a {parameter}.",
        parameter,
        value,
        result,
        questions,
    )


def _value(phrases: Phrases, kind: str) -> str:
    match kind:
        case "place":
            return phrases.place()
        case "noun":
            return phrases.noun()
        case _:
            return phrases.value(kind)


def _result(phrases: Phrases, kind: str) -> str:
    if kind == "degrees":
        return f"{phrases.random.randint(2, 38)} degrees"
    return phrases.value(kind)


def _plain(make: Callable[[], str]) -> str:
    """A value whose tokens after a space and after a quotation mark differ in the first only."""
    while True:
        value = make()
        spaced, bare = encode(" " + value), encode(value)
        if spaced[1:] == bare[1:] or spaced[1:] == bare:
            return value
