"""The trained weights that ship, and how they become a whole checkpoint.

The compact file holds what training made: all modules, the rows of a few thousand ids, and one vector that turns embedding rows
into head rows. Every other row is drawn again from its token's spelling (:mod:`engine.demo.rows`). Knows no cache and no config.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import EngineError
from .rows import spelled_rows

if TYPE_CHECKING:
    import torch

COMPACT = Path(__file__).parent / "weights" / "demo.safetensors"


def digest(path: Path = COMPACT) -> str | None:
    """SHA-256 of the compact file as it was released, or None when no trained weights ship."""
    if not path.exists():
        return None
    return path.with_suffix(".sha256").read_text(encoding="ascii").split()[0]


def trained_tensors(path: Path = COMPACT) -> dict[str, torch.Tensor]:
    """All tensors of the checkpoint by their original names. About 4 s and 110 MB.

    Raises
    ------
    EngineError
        The compact file does not match its checksum.
    """
    import torch
    from safetensors.torch import load

    content = path.read_bytes()
    found, wanted = hashlib.sha256(content).hexdigest(), digest(path)
    if found != wanted:
        raise EngineError(
            f"{path} is damaged: its SHA-256 is {found}, {wanted} was released. Install the package again.", path=str(path)
        )
    tensors = load(content)
    ids, rows, scale = (tensors.pop(f"rows.{name}") for name in ("ids", "trained", "head_scale"))
    embed = torch.from_numpy(spelled_rows(rows.shape[1]))
    embed[ids.long()] = rows.float()
    tensors["model.llm.embed.weight"] = embed.to(torch.bfloat16)
    tensors["model.llm.unembed.weight"] = (embed * scale.float()).to(torch.bfloat16)
    return tensors
