"""What a caller may ask of a reader, and telling the caller how far it is. Knows no format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from ..errors import ReadingCancelled, SourceError
from .sources import Source

Show = Literal["auto", "text", "image", "both"]
Progress = Callable[[str, int, int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to read a document; see :meth:`workbench.Context.add_document`."""

    password: str | None = None
    encoding: str | None = None
    show: Show = "auto"
    pages: tuple[int, ...] | None = None
    sheets: tuple[str, ...] | None = None
    cells: str | None = None
    pictures: bool = True
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.show not in get_args(Show):
            raise SourceError(f"pages cannot be shown as {self.show!r}: {', '.join(get_args(Show))}")

    def chosen(self, total: int, source: Source, noun: str = "page") -> list[int]:
        """The numbers asked for, from 1, in the document's order; all without a choice.

        Raises
        ------
        SourceError
            One that the document does not have.
        """
        if self.pages is None:
            return list(range(1, total + 1))
        missing = [number for number in self.pages if not 1 <= number <= total]
        if missing:
            raise SourceError(
                f"{source.name}: no {noun} {missing[0]}: it has {noun}s 1 to {total}", path=source.path, name=source.name,
                missing=missing,
            )  # fmt: skip
        return sorted(set(self.pages))

    def refuse(self, source: Source, *names: str) -> None:
        """Refuse options that mean nothing for this kind of file.

        Raises
        ------
        SourceError
        """
        defaults = Options()
        for name in names:
            if getattr(self, name) != getattr(defaults, name):
                raise SourceError(f"{source.name}: {name}= means nothing for {source.suffix or 'this kind of'} files: leave it out",
                                  path=source.path, name=source.name)  # fmt: skip

    def tell(self, what: str, done: int, total: int) -> None:
        """Tell the caller how far reading is.

        Raises
        ------
        ReadingCancelled
            The caller answered False.
        """
        tell(self.progress, what, done, total)


def tell(progress: Progress | None, what: str, done: int, total: int) -> None:
    """Tell `progress`, if there is one; False cancels."""
    if progress is not None and progress(what, done, total) is False:
        raise ReadingCancelled(f"cancelled at {what} ({done} of {total}): nothing was added", what=what, done=done, total=total)


def page_numbers(given: str | Iterable[int] | None) -> tuple[int, ...] | None:
    """Numbers from a choice of pages.

    Raises
    ------
    SourceError
        Not numbers or ranges.

    Examples
    --------
    >>> page_numbers("1-3, 7"), page_numbers([2, 4]), page_numbers(None)
    ((1, 2, 3, 7), (2, 4), None)
    """
    if given is None:
        return None
    if not isinstance(given, str):
        numbers = list(given)
        if not numbers or any(isinstance(n, bool) or not isinstance(n, int) for n in numbers):
            raise SourceError(f"pages are numbers from 1, not {numbers!r}")
        return tuple(numbers)
    found: list[int] = []
    for piece in given.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", piece)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last - first > 1_000_000:
            raise SourceError(f"pages are given as 1-5,9, not {given!r}")
        found += range(first, last + 1)
    return tuple(found)
