"""Multi-token-prediction blocks: each guesses one token further ahead from the stream and the next token's embedding.

Block i reads the stream of block i-1 (the backbone's for the first) and the embedding of the token that came after; its output
goes through the shared head. Trained last, with the backbone held still. Source: vLLM 0.32 ``models/inkling/nvidia/mtp.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.demo.shape import Shape
from engine.demo.train.layers import Layer, Norm


class Draft(nn.Module):
    """One block: norm both inputs, fuse 2h to h, one local layer with a dense MLP."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.hidden_norm, self.embed_norm = Norm(shape.hidden), Norm(shape.hidden)
        self.input = nn.Linear(2 * shape.hidden, shape.hidden, bias=False)
        self.layer = Layer(shape, is_global=False, dense=True)

    def forward(self, stream: Tensor, embedded: Tensor) -> Tensor:
        """Stream [b, t, h] at each position and the embedding [b, t, h] of the token after it; gives the next stream."""
        return self.layer(self.input(torch.cat([self.hidden_norm(stream), self.embed_norm(embedded)], dim=-1)))
