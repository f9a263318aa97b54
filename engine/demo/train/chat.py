"""One training sequence in Inkling's chat format: messages in, ids, targets and media out.

The framing is the real one (role, kind, payload, end), as the workbench renders it; a document is one text message. Answers are
what the model must write: every id of a model message after the role is a target.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from engine.demo.train.tokens import encode, framing


def say(value: str) -> list[int]:
    """Ids of a direct answer. Its fixed beginning makes every piece of the value the very token that running text has."""
    return list(encode(f"It is {value}."))


@dataclass(slots=True)
class Answer:
    """A model turn in a sequence: ids [start, stop) are to be written; `payload` are those that carry the answer."""

    skill: str
    start: int
    stop: int
    payload: tuple[int, int]


@dataclass(slots=True)
class Chat:
    """A sequence under construction.

    Attributes
    ----------
    media : list of (start, array)
        Where patches [n, 40, 40, 3] or audio frames [n, 80] take the places of slots.
    labels : list of (position, id)
        What the stream below the last layer should tell at a position, e.g. the colour of the patch there: a second, denser target
        in training.
    """

    ids: list[int] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    media: list[tuple[int, np.ndarray]] = field(default_factory=list)
    labels: list[tuple[int, int]] = field(default_factory=list)

    def message(self, role: int, kind: int, payload: tuple[int, ...] | list[int], *, author: str = "") -> Chat:
        """Append a whole message."""
        self.ids += [role, *(encode(author) if author else ()), kind, *payload, framing().end_message]
        return self

    def system(self, text: str) -> Chat:
        """Append a system text message."""
        f = framing()
        return self.message(f.message_system, f.content_text, encode(text))

    def effort(self, effort: str) -> Chat:
        """Append the thinking-effort line, e.g. ``"0.9"``."""
        return self.system(f"Thinking effort level: {effort}")

    def user(self, text: str) -> Chat:
        """Append a user text message."""
        f = framing()
        return self.message(f.message_user, f.content_text, encode(text))

    def image(self, patches: np.ndarray) -> Chat:
        """Append an image of patches [n, 40, 40, 3]."""
        f = framing()
        self.ids += [f.message_user, f.content_image]
        self.media.append((len(self.ids), patches))
        self.ids += [f.image_slot] * len(patches) + [f.end_message]
        return self

    def audio(self, frames: np.ndarray) -> Chat:
        """Append a recording of frames [n, 80]."""
        f = framing()
        self.ids += [f.message_user, f.content_audio_input]
        self.media.append((len(self.ids), frames))
        self.ids += [f.audio_slot] * len(frames) + [f.audio_end, f.end_message]
        return self

    def reply(self, payload: tuple[int, ...] | list[int], skill: str) -> Chat:
        """Append the model's turn: the text message, the end of sampling."""
        f = framing()
        self.ids.append(f.message_model)
        start = len(self.ids)
        self.ids.append(f.content_text)
        first = len(self.ids)
        self.ids += payload
        last = len(self.ids)
        self.ids += [f.end_message, f.content_model_end_sampling]
        self.answers.append(Answer(skill, start, len(self.ids), (first, last)))
        return self
