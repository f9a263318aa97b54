"""Pictures that stand inside a document: read like any image, numbered through the document, and named when they cannot be read."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import InklingError
from ..parts import ImagePart
from .options import Options
from .sources import Source


class Pictures:
    """The pictures of one document, in order. Lives as long as its reader."""

    def __init__(self, source: Source, options: Options) -> None:
        self._source, self._options = source, options
        self._found: list[ImagePart] = []
        self._left_out = self._unreadable = 0

    def take(self, blobs: Iterable[bytes]) -> list[ImagePart]:
        """The pictures that can be read."""
        return [image for blob in blobs if (image := self.one(blob)) is not None]

    def one(self, blob: bytes) -> ImagePart | None:
        """The picture in `blob`, or None: it was not asked for, or cannot be read."""
        from . import images

        if not self._options.pictures:
            self._left_out += 1
            return None
        number = len(self._found) + 1
        try:
            image = images.read(blob, name=f"{self._source.name}, image {number}", frame=None)
        except InklingError:
            self._unreadable += 1
            return None
        self._found.append(image)
        return image

    def number(self, image: ImagePart) -> int:
        """Which picture of the document it is, from 1."""
        return next(number for number, found in enumerate(self._found, 1) if found is image)

    def missing(self) -> None:
        """Count a picture that is named but not there (a link, a vector drawing)."""
        self._unreadable += 1

    @property
    def notes(self) -> tuple[str, ...]:
        found: list[str] = []
        if self._left_out:
            found.append(f"{_count(self._left_out)} in it left out, as asked")
        if self._unreadable:
            found.append(
                f"{_count(self._unreadable)} in it not read (a link, a vector drawing, or an unknown kind): export it as PDF"
            )
        return tuple(found)


def _count(number: int) -> str:
    return f"{number} picture{'' if number == 1 else 's'}"
