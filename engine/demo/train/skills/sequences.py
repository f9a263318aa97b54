"""Scenes as ids: training sequences, and single cases, in the framing that the workbench renders.

Lifetimes: nothing is kept but small caches. Deterministic in the generator that is passed in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import Any

from engine.demo.train.chat import Answer as Turn
from engine.demo.train.chat import Chat
from engine.demo.train.skills.items import Answer, Item, Maker, Picture, Result, Scene, Sound, Step, Text
from engine.demo.train.skills.media import HOP, RATE_HZ, frames_of, patches_of
from engine.demo.train.tokens import encode, framing
from engine.protocol.images import DEFAULT_IMAGE_RULE

DIRECT = ("0.0", "0.0", "0.0", "0.1", "0.2")
"""Efforts at which the model answers at once."""

THINKING = ("0.9", "0.9", "0.9", "0.7", "0.5", "0.99")
"""Efforts at which it writes a thinking message first."""

THINKING_SHARE = 0.25

NEAR_TOKENS = 120
"""So far back the layers that slide see, near enough."""


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
        for steps in _questions(scene, random, paraphrase):
            question = _written(steps, thinks)
            if len(chat.ids) + len(added.ids) + len(question.ids) > tokens:
                if answered:
                    return chat
                raise ValueError(f"no question of this skill fits into {tokens} tokens: give it more")
            append(chat, added)
            append(chat, question)
            if scene.steps and all(isinstance(step, (Picture, Sound)) for step in scene.steps):
                _tell_early(chat, chat.media[-len(scene.steps)][0])
            added, answered = Chat(), answered + 1
        if first.alone or tokens - len(chat.ids) < 60:
            return chat
        try:
            scene = maker(random, held_out=held_out, level=level, room=tokens - len(chat.ids) - (65 if thinks else 35))
        except ValueError:
            return chat
        if scene.alone:
            return chat


def _tell_early(chat: Chat, seen_from: int) -> None:
    """Let the stream below the last layer tell the last answer, too, where the layers that slide see all that it rests on.

    Counting and comparing take more than the one look back of the last layer. The frame ("It is", the full stop) is left out.
    """
    answer = chat.answers[-1]
    if answer.start - seen_from <= NEAR_TOKENS:
        first, last = answer.payload
        chat.labels += [(place - 1, chat.ids[place]) for place in range(first + 2, last - 1)]


def _questions(scene: Scene, random: Random, paraphrase: bool) -> Iterator[tuple[Step, ...]]:
    """As many questions as make sense, none twice in the same words."""
    seen: set[str] = set()
    for _ in range(3 * scene.questions):
        steps = scene.ask(random, paraphrase)
        text = "".join(step.text for step in steps if isinstance(step, Text))
        if text not in seen:
            seen.add(text)
            yield steps
        if len(seen) == scene.questions:
            return


def case(
    maker: Maker, skill: str, random: Random, *, paraphrase: bool, kind: str = "", effort: str = "0.0", room: int = 4000
) -> Item:
    """One held-out case: a scene and a question up to its answer of `skill`.

    Parameters
    ----------
    kind : str
        The scene's kind of question, where it is not named like the skill.
    """
    for _ in range(500):
        scene = maker(random, held_out=True, level=1.0, room=room)
        if question := scene.ask(random, paraphrase, kind or skill):
            stop = next(i for i, step in enumerate(question, 1) if isinstance(step, Answer) and step.skill == skill)
            return Item(effort, (*scene.steps, *question[:stop]), scene.system, scene.tools)
    raise ValueError(f"no question of {kind or skill!r} came in 500 scenes of up to {room} tokens: give it more")


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
    before = len(chat.ids) + 1
    ids, first = turn_ids(answer, thinking)
    chat.ids += [framing().message_model, *ids]
    # The tool's name is as much of the answer as what is in the call; the end of the message and of sampling are not.
    chat.answers.append(Turn(answer.skill, before, before + len(ids), (before + first, before + len(ids) - 2)))


def turn_ids(answer: Answer, thinking: str) -> tuple[list[int], int]:
    """What the model writes after the model token, and where the answer itself begins in it."""
    f = framing()
    ids = [f.content_thinking, *encode(thinking), f.end_message, f.message_model] if thinking else []
    named = len(ids)
    ids += [f.content_text] if answer.call is None else [*encode(answer.call[0]), f.content_invoke_tool_json]
    first = len(ids) if answer.call is None else named
    return [*ids, *payload(answer), f.end_message, f.content_model_end_sampling], first


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

    def __call__(self, random: Random, tokens: int, *, held_out: bool = False, paraphrase: bool = False) -> Chat:
        """See :func:`sequence`; a scene that came out too large is drawn again."""
        for _ in range(50):
            with suppress(ValueError):
                return sequence(self.maker, random, tokens, held_out=held_out, paraphrase=paraphrase, level=1.0)
        raise ValueError(f"no scene of {self.maker.__name__} came that fits into {tokens} tokens: give it more")
