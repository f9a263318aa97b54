"""Reading files and objects into parts. One module per family, loaded when it is needed.

Every reader either returns a part with content or raises a :class:`~workbench.errors.SourceError` that says what was given, what
is allowed and what to do next: never an empty text, a silent truncation or a guess.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, BinaryIO

from ..errors import MessageError
from ..parts import AudioPart, DocumentPart, ImagePart, RecordingPart
from .options import Options, Progress, page_numbers
from .sources import kind_of, load

if TYPE_CHECKING:
    from .folders import Gathered

__all__ = [
    "Options",
    "checked_text",
    "kind_of",
    "page_numbers",
    "read_audio",
    "read_document",
    "read_file",
    "read_folder",
    "read_image",
]


def read_document(
    source: str | os.PathLike[str] | bytes | BinaryIO, *, name: str | None = None, options: Options | None = None
) -> DocumentPart:
    """A document part; see :meth:`workbench.Context.add_document`."""
    from . import documents

    return documents.read(load(source, name=name, default="document"), options or Options())


def read_image(source: Any, *, name: str | None = None, frame: int | None = None) -> ImagePart:
    """An image part; see :meth:`workbench.Context.add_image`."""
    from . import images

    return images.read(source, name=name, frame=frame)


def read_audio(
    source: Any, *, rate_hz: int | None = None, name: str | None = None, start_s: float = 0.0, stop_s: float | None = None,
    split: bool = True,
) -> AudioPart | RecordingPart:  # fmt: skip
    """An audio part; see :meth:`workbench.Context.add_audio`."""
    from . import audio

    return audio.read(source, rate_hz=rate_hz, name=name, start_s=start_s, stop_s=stop_s, split=split)


def read_file(source: str | os.PathLike[str], *, name: str | None = None) -> DocumentPart | ImagePart | AudioPart | RecordingPart:
    """The part that a file's kind (its name, then its first bytes) asks for."""
    from .folders import part_of

    return part_of(load(source, name=name))


def read_folder(
    source: str | os.PathLike[str], *, only: tuple[str, ...] = (), skip: tuple[str, ...] = (), hidden: bool = False,
    progress: Progress | None = None,
) -> Gathered:  # fmt: skip
    """The parts of a folder or zip archive; see :meth:`workbench.Context.add_folder`."""
    from . import folders

    return folders.read(source, only=only, skip=skip, hidden=hidden, progress=progress)


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
