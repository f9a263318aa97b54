"""Reading files and objects into parts. One module per family, loaded when it is needed.

Every reader either returns a part with content or raises a :class:`~workbench.errors.SourceError` that says what was given, what
is allowed and what to do next: never an empty text, a silent truncation or a guess.
"""

from __future__ import annotations

import os
from typing import Any, BinaryIO

from ..errors import MessageError
from ..parts import AudioPart, DocumentPart, ImagePart
from .sources import kind_of, load

__all__ = ["checked_text", "kind_of", "read_audio", "read_document", "read_file", "read_image"]


def read_document(
    source: str | os.PathLike[str] | bytes | BinaryIO,
    *,
    name: str | None = None,
    password: str | None = None,
    encoding: str | None = None,
) -> DocumentPart:
    """A document part; see :meth:`workbench.Context.add_document`."""
    from . import documents

    return documents.read(load(source, name=name, default="document"), password=password, encoding=encoding)


def read_image(source: Any, *, name: str | None = None, frame: int | None = None) -> ImagePart:
    """An image part; see :meth:`workbench.Context.add_image`."""
    from . import images

    return images.read(source, name=name, frame=frame)


def read_audio(source: Any, *, rate_hz: int | None = None, name: str | None = None) -> AudioPart:
    """An audio part; see :meth:`workbench.Context.add_audio`."""
    from . import audio

    return audio.read(source, rate_hz=rate_hz, name=name)


def read_file(source: str | os.PathLike[str], *, name: str | None = None) -> DocumentPart | ImagePart | AudioPart:
    """The part that a file's kind (its name, then its first bytes) asks for."""
    read = {"image": read_image, "audio": read_audio, "document": read_document}[kind_of(load(source, name=name))]
    return read(source, name=name)


def checked_text(text: str, what: str, *, empty: bool = False) -> str:
    """`text` itself, if it can be given to the model.

    Raises
    ------
    MessageError
        Not a string, empty, or with half a surrogate pair (it has no UTF-8, so no tokens).
    """
    if not isinstance(text, str):
        raise MessageError(f"{what} must be text, not {type(text).__name__}")
    if not text and not empty:
        raise MessageError(f"{what} is empty: leave it out or write something")
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        raise MessageError(f"{what} has half a surrogate pair at character {problem.start}: it cannot be encoded") from problem
    return text
