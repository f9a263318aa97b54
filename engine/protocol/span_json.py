"""Spans as JSON values and back; the locator says its kind."""

from __future__ import annotations

import dataclasses
from typing import Any

from .images import PatchGrid
from .spans import AudioPlace, ImagePlace, Span, TextPlace

_KINDS = {"text": TextPlace, "image": ImagePlace, "audio": AudioPlace}
_KIND_NAMES = {cls: name for name, cls in _KINDS.items()}


def span_to_json(span: Span) -> dict[str, Any]:
    """A span as JSON values."""
    values = dataclasses.asdict(span)
    if span.locator is not None:
        values["locator"] = {"kind": _KIND_NAMES[type(span.locator)], **values["locator"]}
    return values


def span_from_json(values: dict[str, Any]) -> Span:
    """The span that :func:`span_to_json` wrote.

    Raises
    ------
    KeyError, TypeError, ValueError
        Not one.
    """
    fields = dict(values)
    if fields.get("locator") is not None:
        place = dict(fields["locator"])
        kind = place.pop("kind")
        if "grid" in place:
            place["grid"] = PatchGrid(**place["grid"])
        fields["locator"] = _KINDS[kind](**place)
    return Span(**fields)
