"""Reuse by part and in words."""

from __future__ import annotations

import pytest

from engine.protocol import Reuse, Span


def span(start: int, stop: int, part: str | None, label: str) -> Span:
    return Span(start=start, stop=stop, part=part, label=label, modality="text", message=0)


SPANS = (
    span(0, 10, "system", "system"),
    span(10, 12, None, "framing"),
    span(12, 500, "doc", "report.pdf"),
    span(500, 520, "q", "question"),
)


def reuse(**changes) -> Reuse:
    values = {"prompt_tokens": 520, "cached_tokens": 0, "matching_tokens": 0, "shared_tokens": 0, "hit_tokens": 16, "spans": SPANS}
    return Reuse(**values | changes)


@pytest.mark.parametrize("cached", [0, 1, 11, 12, 300, 519, 520])
def test_parts_add_up_to_the_whole(cached: int) -> None:
    rows = reuse(cached_tokens=cached).by_part
    assert sum(row.cached_tokens for row in rows) == cached
    assert sum(row.to_compute_tokens for row in rows) == 520 - cached
    assert [row.label for row in rows] == ["system", "report.pdf", "question"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "nothing that begins like this"),
        ({"cached_tokens": 504, "matching_tokens": 504, "shared_tokens": 510}, "everything but the end"),
        ({"cached_tokens": 208, "matching_tokens": 208, "shared_tokens": 210, "earlier": "x"}, "token 210, in report.pdf"),
        ({"cached_tokens": 0, "matching_tokens": 208, "shared_tokens": 210, "earlier": "x"}, "resume point .* at 0"),
        ({"cached_tokens": 16, "matching_tokens": 16, "shared_tokens": 300, "earlier": "x"}, "284 tokens are no longer cached"),
        ({"cached_tokens": 16, "matching_tokens": None, "shared_tokens": 300, "earlier": "x"}, "284 tokens .* resume point"),
        ({"cached_tokens": 16, "matching_tokens": 504, "shared_tokens": 519, "earlier": "x"}, "had all of it"),
    ],
)
def test_the_reason_names_what_broke_the_prefix(changes: dict, says: str) -> None:
    import re

    assert re.search(says, reuse(**changes).reason)
    assert reuse(**changes).reason in str(reuse(**changes))


def test_the_time_is_what_the_measured_rate_makes_of_it() -> None:
    assert reuse(cached_tokens=20, prefill_tokens_per_s=250.0).prefill_s == 2.0
    assert reuse().prefill_s is None


def test_only_a_difference_breaks_a_prefix() -> None:
    broken = reuse(cached_tokens=208, shared_tokens=210, earlier="x").broken_by
    assert broken is not None
    assert broken.label == "report.pdf"
    assert reuse(shared_tokens=520, earlier="x").broken_by is None
    assert reuse(shared_tokens=0).broken_by is None
