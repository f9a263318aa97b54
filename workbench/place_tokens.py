"""From places in the source to tokens: which tokens hold these characters, this region of a picture, this stretch of sound.

Many places at once; the other way is :mod:`workbench.token_places`. Where a part stands in a context more than once, `occurrence`
says which. Reads a rendered context, never the sources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.protocol import AUDIO_TOKENS_PER_S, AudioPlace, ImagePlace, Rendered, Span, TextPlace

from .errors import SelectionError
from .token_places import places_of


def tokens_of_text(
    rendered: Rendered, part: str, starts: ArrayLike, stops: ArrayLike, *, page: int | None = None, occurrence: int = 0
) -> NDArray[np.int64]:
    """Tokens that hold characters `starts` to `stops` of a text or of one page of a document.

    Parameters
    ----------
    part : str
        Id of the part, or ``system``.
    starts, stops : array-like of int, shape (n,)
        First and one past the last character of each place.

    Returns
    -------
    ndarray of int64, shape (n, 2)
        First and one past the last token.

    Raises
    ------
    SelectionError
        No such part or page in the context, or characters outside it.
    """
    spans = _spans(rendered, part, occurrence, lambda span: isinstance(span.locator, TextPlace) and span.locator.page == page)
    t = np.concatenate([np.arange(span.start, span.stop) for span in spans])
    chars = places_of(rendered, t).chars
    first, last = np.atleast_1d(np.asarray(starts, dtype=np.int64)), np.atleast_1d(np.asarray(stops, dtype=np.int64))
    low, high = int(chars[0, 0]), int(chars[-1, 1])
    if len(first) and (first.min() < low or last.max() > high or (first >= last).any()):
        raise SelectionError(f"characters {first.min()} to {last.max()}: this text has {low} to {high}; a place has at least one")
    begin = np.searchsorted(chars[:, 1], first, side="right")
    end = np.searchsorted(chars[:, 0], last, side="left")
    return np.stack([t[begin], t[end - 1] + 1], axis=1)


def tokens_of_points(
    rendered: Rendered, part: str, points_px: ArrayLike, *, size_px: tuple[int, int] | None = None, page: int | None = None,
    occurrence: int = 0,
) -> NDArray[np.int64]:  # fmt: skip
    """Tokens of the patches under points of a picture.

    Parameters
    ----------
    points_px : array-like of float, shape (n, 2)
        x and y in pixels, from the upper left corner.
    size_px : (int, int), optional
        Width and height of the picture the points were measured in; the resized one by default.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    span, place = _image(rendered, part, page, occurrence)
    grid = place.grid
    points = np.atleast_2d(np.asarray(points_px, dtype=np.float64)) * _scale(place, size_px)
    if len(points) and ((points < 0) | (points >= (grid.width_px, grid.height_px))).any():
        raise SelectionError(f"a point outside the {grid.width_px} × {grid.height_px} px: give the size_px it was measured in")
    col, row = (points // grid.patch_px).astype(np.int64).T
    return span.start + row * grid.cols + col


def tokens_of_box(
    rendered: Rendered, part: str, box_px: tuple[float, float, float, float], *, size_px: tuple[int, int] | None = None,
    page: int | None = None, occurrence: int = 0,
) -> NDArray[np.int64]:  # fmt: skip
    """Tokens of every patch that a box (left, top, right, bottom) touches, in order."""
    span, place = _image(rendered, part, page, occurrence)
    grid, scale = place.grid, _scale(place, size_px)
    left, top, right, bottom = np.asarray(box_px, dtype=np.float64) * np.tile(scale, 2)
    left, top, right, bottom = max(left, 0), max(top, 0), min(right, grid.width_px), min(bottom, grid.height_px)
    if left >= right or top >= bottom:
        raise SelectionError(f"the box {box_px} has nothing of the picture of {grid.width_px} × {grid.height_px} px in it")
    rows = np.arange(int(top // grid.patch_px), int(np.ceil(bottom / grid.patch_px)))
    cols = np.arange(int(left // grid.patch_px), int(np.ceil(right / grid.patch_px)))
    return (span.start + rows[:, None] * grid.cols + cols[None, :]).ravel()


def tokens_of_time(
    rendered: Rendered, part: str, starts_s: ArrayLike, stops_s: ArrayLike, *, occurrence: int = 0
) -> NDArray[np.int64]:
    """Tokens of stretches of a recording, on its own time line.

    Parameters
    ----------
    starts_s, stops_s : array-like of float, shape (n,)

    Returns
    -------
    ndarray of int64, shape (n, 2)
        First and one past the last token. A stretch over two clips of one recording spans the framing between them.
    """
    spans = _spans(rendered, part, occurrence, lambda span: isinstance(span.locator, AudioPlace))
    t = np.concatenate([np.arange(span.start, span.stop) for span in spans])
    seconds = places_of(rendered, t).seconds
    first, last = np.atleast_1d(np.asarray(starts_s, dtype=np.float64)), np.atleast_1d(np.asarray(stops_s, dtype=np.float64))
    low, high = float(seconds[0, 0]), float(seconds[-1, 1])
    step = 1 / AUDIO_TOKENS_PER_S
    if len(first) and (first.min() < low - 1e-9 or last.max() > high + 1e-9 or (first >= last).any()):
        raise SelectionError(f"{first.min():g} s to {last.max():g} s: this recording has {low:g} s to {high:g} s")
    # A hair of tolerance: 0.15 is no multiple of 0.05 in binary.
    begin = np.searchsorted(seconds[:, 1], first + step * 1e-6, side="right")
    end = np.searchsorted(seconds[:, 0], last - step * 1e-6, side="left")
    return np.stack([t[begin], t[np.maximum(end - 1, begin)] + 1], axis=1)


def _image(rendered: Rendered, part: str, page: int | None, occurrence: int) -> tuple[Span, ImagePlace]:
    found = _spans(rendered, part, occurrence, lambda span: isinstance(span.locator, ImagePlace) and span.locator.page == page)
    place = found[0].locator
    assert isinstance(place, ImagePlace)
    return found[0], place


def _scale(place: ImagePlace, size_px: tuple[int, int] | None) -> NDArray[np.float64]:
    width, height = size_px or (place.grid.width_px, place.grid.height_px)
    return np.array([place.grid.width_px / width, place.grid.height_px / height])


def _spans(rendered: Rendered, part: str, occurrence: int, fits: Callable[[Span], Any]) -> list[Span]:
    """The fitting spans of one occurrence of a part: those of neighbouring messages belong together."""
    groups: list[list[Span]] = []
    last = None
    for span in rendered.spans:
        if span.part != part:
            last = None if span.part is not None else last
            continue
        if last is None or span.message > last + 1 or _repeats(groups[-1], span):
            groups.append([])
        groups[-1].append(span)
        last = span.message
    chosen = [span for span in groups[occurrence] if fits(span)] if occurrence < len(groups) else []
    if not chosen:
        known = sorted({span.part for span in rendered.spans if span.part})
        have = f"{part[:19]} stands there {len(groups)} times" if groups else f"it has {', '.join(name[:19] for name in known)}"
        raise SelectionError(f"no such place of {part[:19]} in this context: {have}")
    return chosen


def _repeats(group: list[Span], span: Span) -> bool:
    """Whether `span` begins the part again: the same place a second time."""
    first = group[0]
    return (span.locator, span.label, span.modality) == (first.locator, first.label, first.modality)
