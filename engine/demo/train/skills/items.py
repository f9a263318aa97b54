"""What a skill gives: a scene to look at, hear or read, and questions about it with their answers; in plain values, not ids.

A :class:`Scene` becomes a training sequence in :mod:`.sequences` and a question to a running engine in ``workbench.evals``: the
same steps, so that what is measured is what was trained. Words in `marks` say what a stretch of an image or recording shows.
Knows no skill and no ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.demo.train.tokens import is_held_out


@dataclass(frozen=True, slots=True)
class Text:
    """A user's text message."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """An image [h, w, 3]; each mark is (x, y, word) in its own pixels."""

    pixels: NDArray[np.uint8]
    marks: tuple[tuple[float, float, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Sound:
    """A recording at 16 kHz; each mark is (second, word)."""

    samples: NDArray[np.float32]
    marks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool returned."""

    tool: str
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The model's turn.

    Attributes
    ----------
    skill : str
        Row of the evaluation's table.
    text : str
        The whole answer as a reader sees it; empty for a tool call.
    spelled : bool
        Every digit is a token of its own, because nothing in the context spells them otherwise.
    thinking : str
        Thinking message before it, at the efforts that ask for one; by default the question again, word for word.
    call : (name, arguments) or None
        A tool call instead of text.
    value : str
        What must be said in any other words; by default the text without its frame.
    """

    skill: str
    text: str = ""
    spelled: bool = False
    thinking: str = ""
    call: tuple[str, Mapping[str, Any]] | None = None
    value: str = ""


Step = Text | Picture | Sound | Result | Answer


Ask = Callable[[Random, bool], "tuple[Step, ...]"]
"""``ask(random, paraphrase)`` gives the steps of one question, the last of them its :class:`Answer`."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Something to ask about.

    Attributes
    ----------
    steps : tuple of Step
        What comes first.
    kinds : tuple of (float, str, Ask)
        Kinds of questions that can be asked of it: how often, the skill's name, the question.
    questions : int
        So many make sense.
    system, tools
        What stands before everything.
    alone : bool
        Questions count or name what the conversation holds: nothing else may be in it.
    """

    steps: tuple[Step, ...]
    kinds: tuple[tuple[float, str, Ask], ...]
    questions: int = 1
    system: str = ""
    tools: tuple[Mapping[str, Any], ...] = ()
    alone: bool = False

    def ask(self, random: Random, paraphrase: bool, skill: str = "") -> tuple[Step, ...]:
        """One question, of `skill` if it is given; empty when this scene has none of it."""
        kinds = [kind for kind in self.kinds if skill in ("", kind[1])]
        if not kinds:
            return ()
        return random.choices(kinds, [kind[0] for kind in kinds])[0][2](random, paraphrase)


@dataclass(frozen=True, slots=True)
class Item:
    """A whole conversation whose last step is the answer that is wanted."""

    effort: str
    steps: tuple[Step, ...]
    system: str = ""
    tools: tuple[Mapping[str, Any], ...] = ()

    @property
    def wanted(self) -> Answer:
        """The last step."""
        last = self.steps[-1]
        assert isinstance(last, Answer)
        return last


Maker = Callable[..., Scene]
"""Called as ``maker(random, held_out=, level=, room=)``: values of which side, difficulty 0 to 1, tokens that there are for it."""


def it_is(value: str, skill: str, *, spelled: bool = False, thinking: str = "") -> Answer:
    """The answer "It is …."."""
    return Answer(skill, f"It is {value}.", spelled=spelled, thinking=thinking)


def counted_as(ask: Ask, skill: str) -> Ask:
    """The same question, its answer counted in another row of the table."""

    def asked(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        *before, answer = ask(random, paraphrase)
        assert isinstance(answer, Answer)
        return *before, replace(answer, skill=skill)

    return asked


def drawn_for(text: str, held_out: bool) -> bool:
    """Whether a value, by its spelling, belongs to the wanted side."""
    return is_held_out(text) == held_out
