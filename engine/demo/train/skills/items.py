"""What a skill gives: a scene to look at, hear or read, and questions about it with their answers; in plain values, not ids.

A :class:`Scene` becomes a training sequence here (:func:`sequence`) and a question to a running engine in ``workbench.evals``: the
same steps, so that what is measured is what was trained. Words in `marks` say what a stretch of an image or recording shows.
Knows no skill. Deterministic in the generator that is passed in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.demo.train.chat import Answer as Turn
from engine.demo.train.chat import Chat
from engine.demo.train.skills.media import HOP, RATE_HZ, frames_of, patches_of
from engine.demo.train.tokens import encode, framing, is_held_out
from engine.protocol.images import DEFAULT_IMAGE_RULE

DIRECT = ("0.0", "0.0", "0.0", "0.1", "0.2")
"""Efforts at which the model answers at once."""

THINKING = ("0.9", "0.9", "0.9", "0.7", "0.5", "0.99")
"""Efforts at which it writes a thinking message first."""

THINKING_SHARE = 0.25


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
    """

    skill: str
    text: str = ""
    spelled: bool = False
    thinking: str = ""
    call: tuple[str, Mapping[str, Any]] | None = None


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
    """

    steps: tuple[Step, ...]
    kinds: tuple[tuple[float, str, Ask], ...]
    questions: int = 1
    system: str = ""
    tools: tuple[Mapping[str, Any], ...] = ()

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


def drawn_for(text: str, held_out: bool) -> bool:
    """Whether a value, by its spelling, belongs to the wanted side."""
    return is_held_out(text) == held_out


def sequence(maker: Maker, random: Random, tokens: int, *, held_out: bool, paraphrase: bool, level: float) -> Chat:
    """A training sequence of at most `tokens` ids: scenes with as many questions as fit.

    Raises
    ------
    ValueError
        Not one scene with a question fits.
    """
    thinks = random.random() < THINKING_SHARE
    first = maker(random, held_out=held_out, level=level, room=tokens - (80 if thinks else 50))
    chat = opening(Item(random.choice(THINKING if thinks else DIRECT), (), first.system, first.tools))
    scene, answered = first, 0
    while True:
        added = _written(scene.steps, thinks)
        for _ in range(scene.questions):
            question = _written(scene.ask(random, paraphrase), thinks)
            if len(chat.ids) + len(added.ids) + len(question.ids) > tokens:
                if answered:
                    return chat
                raise ValueError(f"no question of this skill fits into {tokens} tokens: give it more")
            append(chat, added)
            append(chat, question)
            added, answered = Chat(), answered + 1
        if first.tools or first.system or tokens - len(chat.ids) < 60:
            return chat
        try:
            scene = maker(random, held_out=held_out, level=level, room=tokens - len(chat.ids) - (65 if thinks else 35))
        except ValueError:
            return chat


def case(
    maker: Maker, skill: str, random: Random, *, paraphrase: bool, level: float = 1.0, effort: str = "0.0", room: int = 4000
) -> Item:
    """One held-out case: a scene with one question of `skill`."""
    for _ in range(500):
        scene = maker(random, held_out=True, level=level, room=room)
        if question := scene.ask(random, paraphrase, skill):
            return Item(effort, (*scene.steps, *question), scene.system, scene.tools)
    raise ValueError(f"no question of {skill!r} came in 500 scenes")


def chat_of(item: Item) -> Chat:
    """The ids of a case, its wanted answer included."""
    chat = opening(item)
    append(chat, _written(item.steps, float(item.effort) >= 0.5))
    return chat


def opening(item: Item) -> Chat:
    """A chat with what stands before the first user message: tools, system text, effort."""
    chat, f = Chat(), framing()
    if item.tools:
        chat.message(f.message_system, f.content_xml, encode(_json(list(item.tools))), author="tool_declare")
    if item.system:
        chat.system(item.system)
    return chat.effort(item.effort)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def append(chat: Chat, more: Chat) -> None:
    """Put `more` behind `chat`."""
    at = len(chat.ids)
    chat.ids += more.ids
    chat.media += [(start + at, array) for start, array in more.media]
    chat.labels += [(place + at, label) for place, label in more.labels]
    chat.answers += [
        replace(a, start=a.start + at, stop=a.stop + at, payload=(a.payload[0] + at, a.payload[1] + at)) for a in more.answers
    ]


def _written(steps: tuple[Step, ...], thinks: bool) -> Chat:
    chat, question, f = Chat(), "", framing()
    for step in steps:
        match step:
            case Text():
                chat.user(step.text)
                question = step.text
            case Picture():
                start = len(chat.ids) + 2
                chat.image(patches_of(step.pixels))
                chat.labels += [(start + at, label(word)) for at, word in _patch_marks(step)]
            case Sound():
                start = len(chat.ids) + 2
                chat.audio(frames_of(step.samples))
                chat.labels += [(start + int(at * RATE_HZ / HOP), label(word)) for at, word in step.marks]
            case Result():
                chat.message(f.message_tool, f.content_text, encode(step.text), author=step.tool)
            case Answer():
                _turn(chat, step, thought(step, question) if thinks else "")
    return chat


def thought(answer: Answer, question: str) -> str:
    """What the thinking message before an answer says."""
    return answer.thinking or f"Asked: {question}"


def _turn(chat: Chat, answer: Answer, thinking: str) -> None:
    f, start = framing(), len(chat.ids)
    chat.ids.append(f.message_model)
    if thinking:
        chat.ids += [f.content_thinking, *encode(thinking), f.end_message, f.message_model]
    chat.ids += [f.content_text] if answer.call is None else [*encode(answer.call[0]), f.content_invoke_tool_json]
    first = len(chat.ids)
    chat.ids += payload(answer)
    last = len(chat.ids)
    chat.ids += [f.end_message, f.content_model_end_sampling]
    # The tool's name is as much of the answer as what is in the call.
    chat.answers.append(Turn(answer.skill, start + 1, len(chat.ids), (first if answer.call is None else start + 1, last)))


def payload(answer: Answer) -> list[int]:
    """Ids of an answer's text, or of its call."""
    if answer.call is not None:
        name, arguments = answer.call
        return list(encode(f'{{"name":{_json(name)},"args":{_json(dict(arguments))}}}'))
    if not answer.spelled:
        return list(encode(answer.text))
    ids: list[int] = []
    for piece in _pieces(answer.text):
        ids += encode(piece)
    return ids


@lru_cache(10_000)
def _pieces(text: str) -> tuple[str, ...]:
    """Every digit and key sign alone, the rest between them."""
    return tuple(piece for piece in re.split(r"([0-9*#])", text) if piece)


@lru_cache(1000)
def label(word: str) -> int:
    """The id a mark stands for: a digit's own, a word's as it is after a space."""
    ids = encode(word if len(word) == 1 else f" {word}")
    if len(ids) != 1:
        raise ValueError(f"{word!r} is {len(ids)} tokens: marks are single ones")
    return ids[0]


def _patch_marks(picture: Picture) -> list[tuple[int, str]]:
    height, width, _ = picture.pixels.shape
    grid = DEFAULT_IMAGE_RULE.grid(width, height)
    scale = grid.width_px / width / grid.patch_px
    return [(int(y * scale) * grid.cols + int(x * scale), word) for x, y, word in picture.marks]


@dataclass(frozen=True, slots=True)
class Skill:
    """A maker as the trainer calls it."""

    maker: Maker
    name: str = field(default="")

    def __call__(
        self, random: Random, tokens: int, *, held_out: bool = False, paraphrase: bool = False, level: float = 1.0, **_: Any
    ) -> Chat:
        """See :func:`sequence`."""
        return sequence(self.maker, random, tokens, held_out=held_out, paraphrase=paraphrase, level=level)
