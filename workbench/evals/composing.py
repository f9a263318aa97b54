"""A skill's case as a context: documents, images and recordings as the parts that a user would add.

The context's ids equal those of training; a test holds that. Earlier answers are the very ids that training wrote, or, for other
engines, what they say. Knows no engine.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from engine.demo.train.skills.items import Answer, Item, Picture, Result, Sound, Text
from engine.demo.train.skills.sequences import thought, turn_ids

from ..contexts import Context
from ..messages import messages_of
from ..parts import DocumentPart, Page, ReplyPart, TextPart

_NAMED = re.compile(r"Document: ([^\n]+)\n\n")
_PAGE = re.compile(r"(?:\A|\n\n)\[page (\d+)\]\n")


def context_of(item: Item, *, system: str | None = None, exact: bool = True) -> Context:
    """The context whose next turn is the wanted answer.

    Parameters
    ----------
    system : str, optional
        System text for an engine that does not know the demo's form of answers; where the case has none of its own.
    exact : bool
        Earlier answers as the ids that training wrote, instead of as text.
    """
    context = Context(system=item.system or system, effort=float(item.effort), tools=item.tools)
    question = ""
    for step in item.steps[:-1]:
        match step:
            case Text():
                context.add(text_part(step.text))
                question = step.text
            case Picture():
                context.add_image(step.pixels)
            case Sound():
                context.add_audio(step.samples, rate_hz=16_000)
            case Result():
                context.add_tool_result(step.text, tool=step.tool)
            case Answer():
                _add_answer(context, step, thought(step, question) if float(item.effort) >= 0.5 else "", exact)
    return context


def _add_answer(context: Context, answer: Answer, thinking: str, exact: bool) -> None:
    if exact:
        context.add(ReplyPart(token_ids=np.array(turn_ids(answer, thinking)[0], dtype=np.uint32)))
    else:
        calls = [{"name": answer.call[0], "arguments": dict(answer.call[1])}] if answer.call else []
        context.add_reply(answer.text, reasoning=thinking, tool_calls=calls)


@lru_cache(16)
def text_part(text: str) -> TextPart | DocumentPart:
    """A message as the part that renders to it: a document with its pages where it is laid out as one.

    Kept for a while, because a long one's ids are made once per part.
    """
    if (named := _NAMED.match(text)) is None:
        return TextPart(text=text)
    body = text[named.end() :]
    marks = list(_PAGE.finditer(body))
    if marks and marks[0].start() == 0:
        stops = [mark.start() for mark in marks[1:]] + [len(body)]
        pages = tuple(Page(text=body[mark.end() : stop], number=int(mark[1])) for mark, stop in zip(marks, stops, strict=True))
    else:
        pages = (Page(text=body),)
    part = DocumentPart(name=named[1], pages=pages)
    return part if messages_of(part, "user")[0].text == text else TextPart(text=text)
