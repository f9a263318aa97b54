"""Spans: partition, lookup and places."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.protocol import AudioPlace, ImagePlace, ImageRule, Span, check_partition, span_at, tokens_by_modality


def spans_of(lengths: list[int]) -> tuple[Span, ...]:
    edges = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    return tuple(Span(start=a, stop=b, part=None, label=str(a), modality="text", message=0) for a, b in itertools.pairwise(edges))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30))
def test_partition_holds_and_every_token_finds_its_span(lengths: list[int]) -> None:
    spans = spans_of(lengths)
    check_partition(spans, sum(lengths))
    for t in range(sum(lengths)):
        assert span_at(spans, t).start <= t < span_at(spans, t).stop
    assert tokens_by_modality(spans)["text"] == sum(lengths)


@given(st.lists(st.integers(1, 50), min_size=2, max_size=10), st.data())
def test_a_gap_an_overlap_and_a_wrong_end_are_found(lengths: list[int], data: st.DataObject) -> None:
    spans = list(spans_of(lengths))
    with pytest.raises(ValueError, match="cover"):
        check_partition(spans, sum(lengths) + 1)
    del spans[data.draw(st.integers(0, len(spans) - 2))]
    with pytest.raises(ValueError, match="partition"):
        check_partition(spans, sum(lengths))


def test_outside_is_an_error() -> None:
    spans = spans_of([3, 4])
    for t in (-1, 7):
        with pytest.raises(IndexError):
            span_at(spans, t)
    with pytest.raises(IndexError):
        spans[0].place(3)


def test_patch_place_is_row_major() -> None:
    grid = ImageRule(upscale=None).grid(100, 60)
    span = Span(start=10, stop=10 + grid.tokens, part="p", label="i", modality="image", message=0, locator=ImagePlace(grid=grid))
    place = span.place(10 + grid.cols + 2)
    assert isinstance(place, ImagePlace)
    assert (place.row, place.col, place.box_px) == (1, 2, (80, 40, 100, 60))


def test_audio_place_is_50_ms_and_ends_with_the_clip() -> None:
    span = Span(start=5, stop=26, part="p", label="a", modality="audio", message=0, locator=AudioPlace(start_s=0.0, stop_s=1.01))
    first, last = span.place(5), span.place(25)
    assert isinstance(first, AudioPlace)
    assert isinstance(last, AudioPlace)
    assert (first.start_s, first.stop_s) == (0.0, pytest.approx(0.05))
    assert (last.start_s, last.stop_s) == (pytest.approx(1.0), 1.01)
