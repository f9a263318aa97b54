"""Tool calls in Inkling's JSON form: the fitting tool with the value from the question, its result used, no call when none fits.

Some of the tools are written by hand, the others are made of words ("Gives the pier of a city."), so that a tool is chosen by what
its declaration says. Training's made tools also have parameters of any name and questions that put the value anywhere: with few of
both, a model learns where these stand instead of what a value is. A tool's name begins with what it gives. Values are such that
their tokens are the same in running text and inside quotation marks.
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
from engine.demo.train.words import QUALITIES

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
    ("bus_time", "Time of the next bus from a stop.", "stop", "place", "time",
     "When does the next bus leave from {value}?|At what time does a bus stop at {value}?|When is there a bus from {value}?"),
    ("train_time", "Time of the last train to a station.", "station", "place", "time",
     "When is the last train to {value}?|At what time does the last train leave for {value}?"),
    ("length", "Length of a river.", "river", "place", "length",
     "What is the length of the river {value}?|How long is the river {value}?|Tell me how long the river {value} is."),
    ("depth", "Depth of a lake.", "lake", "place", "length",
     "How deep is the lake of {value}?|Give me the depth of the lake at {value}.|What depth has the lake of {value}?"),
    ("nurse", "Nurse at work in a hospital.", "hospital", "place", "person",
     "Who is the nurse at work in {value}?|Find me a nurse for {value}.|Which nurse works in {value}?"),
    ("mayor", "Mayor of a town.", "town", "place", "person",
     "Who is mayor in {value}?|Who is the mayor of {value}?|Tell me the mayor of {value}."),
    ("letter", "Place of a letter by its number.", "number", "code", "spot",
     "Where is the letter {value} now?|Where do I find letter {value}?|In which place is {value}, my letter?"),
    ("order", "Date of an order by its number.", "order", "code", "date",
     "When does my order {value} come?|On which day will I have {value}?|What about order {value}?"),
    ("sunset", "Time of sunset on an island.", "island", "place", "time",
     "When is sunset on {value}?|At what time does the sun go down over {value}?"),
    ("level", "Level of the water at a bridge.", "bridge", "place", "length",
     "How high is the water at {value}?|What is the level of the water under {value}?|Is the water high at {value} now?"),
    ("pilot", "Pilot of a ship.", "ship", "noun", "person",
     "Who is the pilot of the {value}?|Which pilot has the {value}?|Who brings the {value} in?"),
    ("captain", "Captain of a boat.", "boat", "place", "person",
     "Who is the captain on {value}?|Name the captain of {value}.|Which captain does {value} have?"),
    ("seat", "Seat of a guest.", "guest", "person", "spot",
     "Where does {value} sit?|Which seat has {value}?|Find a seat for {value}, please."),
    ("birthday", "Birthday of a person.", "person", "person", "date",
     "When is the birthday of {value}?|On which day was {value} born?|Does {value} have a birthday soon?"),
    ("locker", "Locker by its key.", "key", "code", "spot",
     "Which locker does the key {value} open?|What does {value} open?|I have {value}: which locker is it?"),
    ("ticket", "Price of a ticket to a place.", "target", "place", "price",
     "How much is a ticket to {value}?|What does it cost to go to {value}?|I go to {value}: what must I pay?"),
    ("guard", "Guard of a gate.", "gate", "noun", "person",
     "Who guards the {value}?|Who stands at the {value}?|Which guard is at the {value}?"),
    ("wind", "Wind on a coast.", "coast", "place", "number",
     "How strong is the wind at {value}?|What about the wind off {value}?|Is there wind on {value} today?"),
    ("snow", "Snow on a mountain.", "mountain", "place", "length",
     "How much snow lies on {value}?|Is there snow on {value}?|How high is the snow of {value}?"),
    ("flight", "Time of a flight by its code.", "flight", "code", "time",
     "When does {value} land?|When does flight {value} arrive?|At what time is {value} due?"),
    ("car", "Owner of a car by its plate.", "plate", "code", "person",
     "Whose car is {value}?|Who drives the car {value}?|I see the plate {value}: who is it?"),
    ("chemist", "Chemist open at night in a quarter.", "quarter", "place", "person",
     "Which chemist is open in {value}?|Who is the chemist in {value} tonight?|I need a chemist near {value}."),
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


ANYWHERE = (
    "What is the {what} in {of}?", "What is the {what} at {of}?", "Who is the {what} for {of}?", "When is the {what} in {of}?",
    "When is the {what} at {of}?", "At what time is the {what} for {of}?", "Where is the {what} of {of}?", "Where is {of}?",
    "Where is my {what} {of}?", "How is the {what} in {of}?", "Is there a {what} at {of}?", "For {of}, what is the {what}?",
    "Which {what} does {of} have today?", "I need the {what} for {of}, please.", "Find the {what} in {of}.",
    "Get me the {what} from {of}.", "{of}: what is the {what}?", "The {what} of {of}?", "Does {of} have a {what}?",
    "In {of}, who is the {what}?", "Look at {of}: where is the {what}?", "Tell me about the {what} of {of} now.",
    "Who has the {what} at {of}?", "How much is the {what} to {of}?", "What {what} is there on {of}?",
    "Can you find {of} and its {what}?", "With {of}, which {what} do I get?", "About {of}: the {what}?",
)  # fmt: skip
"""How training asks for what made tools give: the value anywhere, after any word."""

DESCRIBED = (
    "Gives the {what} of a {parameter}.", "{What} of a {parameter}.", "{What} in a {parameter}.",
    "Finds the {what} by its {parameter}.", "{What} at a {parameter}.", "The {what} for one {parameter}.",
    "Looks up a {parameter} and gives its {what}.",
)  # fmt: skip

TOLD = ("result: {}", "The {name} is {}.", "{name}: {}")
"""How a tool puts its result."""

RESULTS = ("number", "person", "code", "time", "price", "date")
"""Kinds of results of made tools."""


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
    if not phrases.held_out and random.random() < 0.45:
        return _made(phrases)
    if random.random() < 0.5:
        name, description, parameter, value, result, questions = random.choice(HELD_OUT if phrases.held_out else WRITTEN)
        return Tool(name, description, parameter, value, result, tuple(questions.split("|")))
    noun = _plain(phrases.noun)
    parameter, value = random.choice((("city", "place"), ("name", "person"), ("item", "noun"), ("code", "code")))
    of = "{value}" if value in ("place", "person") else f"the {parameter} {{value}}"
    questions = tuple(text.format(noun=noun, of=of) for text in PROPERTY)
    result = random.choice(RESULTS)
    return Tool(
        noun if random.random() < 0.5 else f"{noun}_of_{parameter}",
        f"Gives the {noun} of a {parameter}.",
        parameter,
        value,
        result,
        questions,
    )


def _made(phrases: Phrases) -> Tool:
    """A tool of training whose parameter has any name and whose questions put the value anywhere."""
    random = phrases.random
    noun, second = _plain(phrases.noun), _plain(phrases.noun)
    what = random.choice((noun, noun, f"{random.choice(QUALITIES)} {noun}", f"{noun} {second}"))
    parameter = _plain(phrases.noun)
    value = random.choice(("place", "person", "noun", "code", "place"))
    named = "the {value}" if value == "noun" else "{value}"
    near = (f"the {parameter} {{value}}", f"the {parameter} of {{value}}", f"{parameter} {{value}}")
    of = random.choice((named, named, named, *near))
    questions = tuple(text.format(what=what, of=of) for text in random.sample(ANYWHERE, 6))
    name = random.choice((noun, f"{noun}_of_{parameter}", f"{noun}_{second}"))
    description = random.choice(DESCRIBED).format(what=what, What=what[0].upper() + what[1:], parameter=parameter)
    return Tool(name, description, parameter, value, random.choice(RESULTS), questions)


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
