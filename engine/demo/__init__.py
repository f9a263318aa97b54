"""The demo checkpoint: a small Inkling with the real tokenizer and token ids, unpacked into the user's cache on first use.

Same architecture and layout as Inkling, 10⁵ times smaller: a context composed against it is token for token the one a large engine
gets. Its log scaling begins at 128 tokens (strength 0.2) instead of 128,000, so that short demonstrations show it.
It is trained (:mod:`engine.demo.train`, MODEL_CARD.md): it looks facts up in documents, reads plain images and hears dialled keys.
This module decides which weights and where; :mod:`.checkpoint` writes, :mod:`.trained` and :mod:`.tokenizer` make contents. In a
tree without the weights' file, :mod:`.random_weights` stand in for them and every answer says so.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import EngineError
from ..protocol import places
from . import trained
from .checkpoint import MARKER, write_checkpoint
from .shape import FewWords, Shape

if TYPE_CHECKING:
    import torch

__all__ = ["Shape", "is_random", "revision", "shape_named", "unpack", "unpack_random"]

_LAYOUT = 2
"""Raise it whenever the same shape and weights would give another folder."""

_SEED = 0


def unpack(*, cache: Path | None = None) -> Path:
    """Folder of the demo checkpoint, made on first use.

    Parameters
    ----------
    cache : Path, optional
        Where checkpoints are kept; default: ``INKLING_CACHE``, or the user's cache folder.

    Returns
    -------
    Path
        A checkpoint in the original layout: config, processor config, tokenizer, weights, marker. Named by its revision, so
        that a newer version never meets an older one's files. Some seconds the first time, 120 MB.

    Raises
    ------
    EngineError
        The cache cannot be written.
    """
    name, released = revision(), trained.digest()
    return write_checkpoint(
        (cache or places.cache_folder()) / f"demo-{name}", Shape(), _tensors, revision=name, random_weights=released is None
    )


def _tensors() -> dict[str, torch.Tensor]:
    if trained.digest() is not None:
        return trained.trained_tensors()
    from .random_weights import random_tensors

    return random_tensors(Shape(), _SEED)


def shape_named(name: str) -> Shape:
    """Sizes of a checkpoint that comes along.

    ``demo``; ``demo-tp4``: as many key/value heads as tensor-parallel ranks; ``demo-few``: with 4,096 ids, for the benches.

    Raises
    ------
    EngineError
        No such checkpoint comes along.
    """
    shapes = {
        "demo": Shape(),
        "demo-tp4": Shape(kv_heads=4, local_kv_heads=4),
        "demo-few": FewWords(log_floor=1024, draft_layers=0),
    }
    if name not in shapes:
        raise EngineError(f"no checkpoint {name!r} comes along: there is {', '.join(shapes)}")
    return shapes[name]


def unpack_random(name: str, *, cache: Path | None = None) -> Path:
    """Folder of another checkpoint that comes along (see :func:`shape_named`), with random weights; made on first use."""
    from .random_weights import random_tensors

    shape = shape_named(name)
    content = json.dumps([_LAYOUT, _SEED, asdict(shape)], sort_keys=True)
    mark = hashlib.sha256(content.encode()).hexdigest()[:12]
    folder = (cache or places.cache_folder()) / f"{name}-{mark}"
    return write_checkpoint(folder, shape, lambda: random_tensors(shape, _SEED), revision=mark, random_weights=True)


def revision() -> str:
    """Identity of the weights that :func:`unpack` gives: 12 hexadecimal digits."""
    content = json.dumps([_LAYOUT, trained.digest() or _SEED, asdict(Shape())], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def is_random(folder: Path) -> bool:
    """Whether the checkpoint in `folder` says that its weights were never trained; a folder without our marker does not.

    Raises
    ------
    EngineError
        The marker is there but unreadable.
    """
    path = Path(folder) / MARKER
    try:
        return bool(json.loads(path.read_text(encoding="utf-8")).get("random_weights", False))
    except FileNotFoundError:
        return False
    except (OSError, ValueError, AttributeError) as problem:
        raise EngineError(
            f"{path} is not readable as a checkpoint's marker: {problem}. Delete the folder to unpack it again."
        ) from problem
