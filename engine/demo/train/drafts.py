"""Multi-token-prediction blocks: each guesses one token further ahead from the stream and the next token's embedding.

Block 0 reads the backbone's normed output and the embedding of the token that came after; block i reads block i-1's output, which
goes through the shared head as it is. Trained last, with the backbone held still. Source: vLLM 0.32
``models/inkling/nvidia/mtp.py``, without a chain norm.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.demo.shape import Shape
from engine.demo.train.batches import Batch
from engine.demo.train.layers import Layer, Norm
from engine.demo.train.model import DemoModel

RATE = 2e-3


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


def new_drafts(shape: Shape, model: DemoModel) -> nn.ModuleList:
    """Fresh blocks whose layers begin as the backbone's local layers do."""
    drafts = nn.ModuleList(Draft(shape) for _ in range(shape.draft_layers))
    with torch.no_grad():
        for block in drafts:
            assert isinstance(block, Draft)
            block.layer.load_state_dict(model.layers[0].state_dict())
            # The stream passes through, and the embedding beside it.
            block.input.weight.normal_(0, 0.02)
            block.input.weight[:, : shape.hidden] += torch.eye(shape.hidden)
            block.input.weight[:, shape.hidden :] += 0.5 * torch.eye(shape.hidden)
    return drafts


def guesses(model: DemoModel, drafts: nn.ModuleList, batch: Batch) -> list[tuple[Tensor, Tensor]]:
    """For each block its stream [n, h] at the places whose answer it can know, and the index of the right candidate [n]."""
    b, t = batch.ids.shape
    with torch.no_grad():
        embedded = model.embed(batch.ids, batch.media)
        stream = model.norm(model.hidden(embedded))
    right = torch.full((b * t,), -1)
    right[batch.at] = batch.target
    found = []
    for depth, block in enumerate(drafts):
        # Place t of block i knows token t + 1 + i and guesses the one after.
        ahead = torch.cat([embedded[:, depth + 1 :], embedded[:, : depth + 1]], dim=1)
        stream = block(stream, ahead)
        wanted = right.view(b, t).roll(-(depth + 1), 1)
        wanted[:, t - depth - 1 :] = -1
        # The token before the guessed one must be the model's own too.
        own = (right.view(b, t) >= 0) & (wanted >= 0)
        found.append((stream[own], wanted[own]))
    return found


def train_drafts(model: DemoModel, drafts: nn.ModuleList, batches: Iterable[Batch], steps: int) -> list[float]:
    """Train the blocks for `steps` of `batches`; gives each block's share of right guesses in the last fifty."""
    model.eval()
    optimiser = torch.optim.AdamW(drafts.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    recent: list[list[float]] = [[] for _ in drafts]
    for step, batch in zip(range(steps), batches, strict=False):
        with torch.autocast("cpu", torch.bfloat16):
            with torch.no_grad():
                head = model.look_up(batch.candidates) * model.head_scale
            loss = torch.zeros(())
            for depth, (stream, wanted) in enumerate(guesses(model, drafts, batch)):
                logits = (stream @ head.t()).float() + batch.offset
                loss = loss + F.cross_entropy(logits, wanted)
                recent[depth].append(float((logits.argmax(-1) == wanted).float().mean()))
        loss.backward()
        nn.utils.clip_grad_norm_(drafts.parameters(), 1.0)
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / 20) * (1 - step / steps)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    return [sum(r[-50:]) / len(r[-50:]) for r in recent]
