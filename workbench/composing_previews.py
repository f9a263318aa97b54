"""What a part looks like, small enough for a page: a thumbnail with its patch grid, a waveform in tokens, a page, a beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import SelectionError
from .media_previews import peaks, thumbnail
from .parts import AudioPart, DocumentPart, ImagePart, Part, RecordingPart, ReplyPart, WrittenReplyPart
from .token_text import text_of

if TYPE_CHECKING:
    from engine.protocol import ImageRule

TEXT_CHARACTERS = 4_000
COLUMNS = 1_200


def preview(part: Part, rule: ImageRule, *, page: int = 0) -> tuple[dict[str, Any], list[bytes]]:
    """A part for the eye.

    Parameters
    ----------
    rule : ImageRule
        By which patches are counted.
    page : int
        Which page of a document, or clip of a recording, from 0.

    Returns
    -------
    dict, list of bytes
        ``kind``, ``name``, and by kind: ``rows``, ``cols``, ``tokens``; ``tokens``, ``start_s``, ``seconds``; ``pages``, ``page``,
        ``label``, ``text``. Then a PNG, or float32 (2,n) of lowest and highest samples.

    Raises
    ------
    SelectionError
        No such page.
    """
    match part:
        case ImagePart():
            return _image(part, rule)
        case AudioPart():
            return _clip(part)
        case RecordingPart():
            _inside(part.name, page, len(part.clips), "clips")
            values, buffers = _clip(part.clips[page])
            return values | {"name": part.name, "pages": len(part.clips), "page": page, "label": f"clip {page + 1}"}, buffers
        case DocumentPart():
            _inside(part.name, page, len(part.pages), "pages")
            shown = part.pages[page]
            picture = shown.image or (shown.pictures[0] if shown.pictures else None)
            values = {
                "kind": "document", "name": part.name, "pages": len(part.pages), "page": page, "label": shown.label or part.name,
                **_cut(shown.text),
            }  # fmt: skip
            if picture is None:
                return values, []
            image, buffers = _image(picture, rule)
            return values | {"rows": image["rows"], "cols": image["cols"], "tokens": image["tokens"]}, buffers
        case ReplyPart():
            return {"kind": "text", "name": part.name, **_cut(text_of(part.token_ids, limit_tokens=1_000))}, []
        case WrittenReplyPart():
            return {"kind": "text", "name": part.name, **_cut("\n\n".join(filter(None, (part.reasoning, part.text))))}, []
        case _:
            return {"kind": "text", "name": part.name, **_cut(part.text)}, []


def _image(part: ImagePart, rule: ImageRule) -> tuple[dict[str, Any], list[bytes]]:
    grid = rule.grid(part.width_px, part.height_px)
    values = {
        "kind": "image", "name": part.name, "rows": grid.rows, "cols": grid.cols, "tokens": grid.tokens, "width_px": part.width_px,
        "height_px": part.height_px,
    }  # fmt: skip
    return values, [thumbnail(part.blob)]


def _clip(part: AudioPart) -> tuple[dict[str, Any], list[bytes]]:
    values = {"kind": "audio", "name": part.name, "tokens": part.tokens, "start_s": part.start_s, "seconds": part.duration_s}
    return values, [np.ascontiguousarray(peaks(part.blob, COLUMNS)).tobytes()]


def _cut(text: str) -> dict[str, Any]:
    return {"text": text[:TEXT_CHARACTERS], "characters": len(text), "cut": len(text) > TEXT_CHARACTERS}


def _inside(name: str, page: int, count: int, what: str) -> None:
    if not 0 <= page < count:
        raise SelectionError(f"{name} has no page {page}: it has {count} {what}, counted from 0")
