"""Parts as messages: which messages a part becomes, and what they say. No token ids here.

One message per content part, as Inkling's chat format has it. A document is one text message followed by its images::

    Document: harbour.pdf

    [page 1]
    …text of page 1…

    [page 2: shown as image 1 below]

    [page 3: blank]

    [page 4: also shown as image 2 below]
    …text of page 4…

Slides, sheets and notebook cells are headed the same way by their own names. A document without pages (Markdown, source code) has
its text right below the first line. Pictures that stand in a document follow it too; its text says ``[image 3]`` where the third
stands. A recording in several clips is a text message that names them, followed by the clips. The marks are ours and are kept
apart from the source's own text, so that places count the source's characters only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from . import tools
from .parts import (
    AudioPart,
    DocumentPart,
    ImagePart,
    Page,
    Part,
    RecordingPart,
    ReplyPart,
    TextPart,
    ToolResultPart,
    WrittenReplyPart,
)  # fmt: skip

Role = Literal["user", "model", "system", "tool"]
Kind = Literal["text", "image", "audio", "thinking", "xml", "tool_call"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch of a message's text: the source's own words, or a mark of ours between them."""

    text: str
    label: str
    page: int | None = None
    mark: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message: a role, a kind, and either text in pieces or one image or recording.

    Attributes
    ----------
    part : str
        Id of the part it says something of, or a label such as ``effort``.
    author : str
        Name between role and kind: a tool's name; empty for none.
    """

    role: Role
    kind: Kind
    part: str
    label: str
    pieces: tuple[Piece, ...] = ()
    author: str = ""
    media: ImagePart | AudioPart | None = None
    page: int | None = None

    @property
    def text(self) -> str:
        """The whole text, marks included. Cost: joins the pieces each time it is asked."""
        return self.pieces[0].text if len(self.pieces) == 1 else "".join(piece.text for piece in self.pieces)


def text_message(role: Role, part: str, label: str, text: str, *, kind: Kind = "text", author: str = "") -> Message:
    """A message of one piece of text."""
    return Message(role=role, kind=kind, part=part, label=label, pieces=(Piece(text=text, label=label),), author=author)


def messages_of(part: Part, role: Role) -> tuple[Message, ...]:
    """The messages of one part, in order.

    Raises
    ------
    TypeError
        A :class:`ReplyPart`: its ids are messages already and are never written again.
    """
    match part:
        case TextPart():
            return (text_message(role, part.id, part.name, part.text),)
        case DocumentPart():
            return _document(part, role)
        case ImagePart():
            return (Message(role=role, kind="image", part=part.id, label=part.name, media=part),)
        case RecordingPart():
            return _recording(part, role)
        case AudioPart():
            return (Message(role=role, kind="audio", part=part.id, label=part.name, media=part),)
        case WrittenReplyPart():
            return _written_reply(part)
        case ToolResultPart():
            return (text_message("tool", part.id, part.name, part.text, author=part.tool),)
        case ReplyPart():
            raise TypeError("a reply's ids are messages already")


def _document(part: DocumentPart, role: Role) -> tuple[Message, ...]:
    pieces = [Piece(text=f"Document: {part.name}\n\n", label=part.name, mark=True)]
    images: list[Message] = []
    for index, page in enumerate(part.pages):
        title = page.label
        label = f"{part.name}, {title}" if title else part.name
        state = _state(page, len(images) + 1)
        for picture in page.images:
            images.append(Message(role=role, kind="image", part=part.id, label=label, media=picture, page=page.number))
        if title:
            gap = "\n\n" if index else ""
            end = "\n" if page.text else ""
            pieces.append(Piece(text=f"{gap}[{title}{state}]{end}", label=label, page=page.number, mark=True))
        if page.text:
            pieces.append(Piece(text=page.text, label=label, page=page.number))
    text = Message(role=role, kind="text", part=part.id, label=part.name, pieces=tuple(pieces))
    return (text, *images)


def _state(page: Page, number: int) -> str:
    """What a page's mark says beside its title; `number` is that of its first image in the document."""
    if page.image is not None:
        return f": {'also ' if page.text else ''}shown as image {number} below"
    return "" if page.text else ": blank"


def _recording(part: RecordingPart, role: Role) -> tuple[Message, ...]:
    lines = [f"[clip {n}: {clip.start_s:.2f} s to {clip.stop_s:.2f} s]" for n, clip in enumerate(part.clips, 1)]
    mark = Piece(text="\n".join([f"Recording: {part.name}\n", *lines]), label=part.name, mark=True)
    text = Message(role=role, kind="text", part=part.id, label=part.name, pieces=(mark,))
    return (text, *(
        Message(role=role, kind="audio", part=part.id, label=f"{part.name}, clip {n}", media=clip)
        for n, clip in enumerate(part.clips, 1)
    ))  # fmt: skip


def _written_reply(part: WrittenReplyPart) -> tuple[Message, ...]:
    found: list[Message] = []
    if part.reasoning:
        found.append(text_message("model", part.id, "thinking", part.reasoning, kind="thinking"))
    if part.text:
        found.append(text_message("model", part.id, part.name, part.text))
    for name, arguments in part.tool_calls:
        text = tools.call_json(name, arguments)
        found.append(text_message("model", part.id, f"call of {name}", text, kind="tool_call", author=name))
    return tuple(found)
