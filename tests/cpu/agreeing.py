"""A checkpoint whose drafts are often right: random weights alone would accept almost none, and test little of accepting.

The layers' contributions to the stream are scaled down, so that the next token is mostly a function of the present one; each
drafting block passes the embedding through, with a little of everything else. The final norm, which the drafting blocks lack, and
the rest of the layers make some of the drafts wrong.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.demo.checkpoint import write_checkpoint
from engine.demo.random_weights import random_tensors

from .conftest import TINY

if TYPE_CHECKING:
    import torch

SHAPE = replace(TINY, draft_layers=8)


def write(folder: Path) -> Path:
    """Write the checkpoint."""
    return write_checkpoint(folder, SHAPE, weights, revision="agreeing", random_weights=True)


def weights() -> dict[str, torch.Tensor]:
    """Its tensors by their original names."""
    import torch

    tensors = random_tensors(SHAPE, 3)
    for name, values in tensors.items():
        if name.endswith(("attn.wo_ud.weight", "w2_md.weight", "w2_weight")):
            values.mul_(0.12)
        elif name.endswith("input_proj.weight"):
            values[:, : SHAPE.hidden].mul_(0.1)
            values[:, SHAPE.hidden :].copy_(torch.eye(SHAPE.hidden))
    return tensors
