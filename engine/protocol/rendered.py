"""A rendered context: exactly what the model is given.

Immutable. The token ids hold one placeholder per image patch and audio frame; `media` says which blob fills which placeholders.
This module does not know how ids are made (``workbench.rendering``) or run (``engine.kernel``).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .images import DEFAULT_IMAGE_RULE, ImageRule
from .spans import Span, check_partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """One image or recording inside a rendered context.

    Attributes
    ----------
    kind : {"image", "audio"}
    blob : str
        ``sha256:`` of the bytes the engine is given: a PNG (RGB, 8 bit) or a WAV (float32, 16 kHz, mono).
    start, tokens : int
        First placeholder (absolute) and their number.
    """

    kind: Literal["image", "audio"]
    blob: str
    start: int
    tokens: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Rendered:
    """Token ids of a whole context with their spans and media.

    Attributes
    ----------
    token_ids : ndarray of uint32, shape (t,)
        Read-only.
    spans : tuple of Span
        Partition of the token ids.
    media : tuple of Media
        In order of their placeholders.
    image_rule : ImageRule
        Rule by which the image placeholders were counted.
    blobs : dict of str to bytes
        Bytes of each distinct blob that `media` names. They travel once, by hash.
    """

    token_ids: NDArray[np.uint32]
    spans: tuple[Span, ...]
    media: tuple[Media, ...] = ()
    image_rule: ImageRule = DEFAULT_IMAGE_RULE
    blobs: dict[str, bytes] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        ids = np.ascontiguousarray(self.token_ids, dtype=np.uint32)
        ids.setflags(write=False)
        object.__setattr__(self, "token_ids", ids)
        check_partition(self.spans, len(ids))
        for item in self.media:
            if item.start < 0 or item.start + item.tokens > len(ids):
                raise ValueError(f"media outside the {len(ids)} tokens: {item}")

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def id(self) -> str:
        """``sha256:`` over ids, media and image rule: equal contexts have equal ids on every machine."""
        return context_id(self.token_ids, self.media, self.image_rule)

    def __repr__(self) -> str:
        return f"Rendered({len(self):,} tokens, {len(self.spans)} spans, {len(self.media)} media, {self.id[:19]}…)"


def context_id(token_ids: NDArray[np.uint32], media: tuple[Media, ...], image_rule: ImageRule) -> str:
    """Content address of a rendered context (see :attr:`Rendered.id`)."""
    digest = hashlib.sha256(np.ascontiguousarray(token_ids, dtype="<u4").tobytes())
    items = [[item.kind, item.blob, item.start, item.tokens] for item in media]
    digest.update(json.dumps([items, image_rule.id], separators=(",", ":")).encode())
    return f"sha256:{digest.hexdigest()}"
