"""The demo Inkling as a trainable model: rows, layers, towers, tied head, structured start.

Vocabulary rows are fixed (drawn from spellings) except for the ids in `trained`. The head is the embedding times one trained vector
per channel, so a word that training never showed can be copied. Logits are given for chosen positions over chosen candidate ids;
export unties the two. Lifetimes: one model per run; frozen rows are shared, never written.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.demo.shape import Shape
from engine.demo.train.layers import Attention, DenseMLP, Layer, Norm, RoutedMLP
from engine.demo.train.towers import AudioTower, ImageTower

HEAD_START = 0.25
"""Head rows start as this share of the embedding rows: the stream's own token then scores about 9 above others, not 37."""

COPY_START = 1.0
"""How strongly the global layer's copy enters the stream at the start."""


class DemoModel(nn.Module):
    """A small Inkling with tied rows.

    Parameters
    ----------
    rows : Tensor
        All vocabulary rows [v, h]; kept, not trained.
    trained : Tensor
        Ids whose rows are trained, sorted [n].
    """

    def __init__(self, shape: Shape, rows: Tensor, trained: Tensor):
        super().__init__()
        self.shape = shape
        self.frozen, self.trained = rows, trained
        self.slot = torch.full((rows.shape[0],), -1, dtype=torch.long)
        self.slot[trained] = torch.arange(len(trained))
        self.rows = nn.Parameter(rows[trained].clone())
        self.head_scale = nn.Parameter(torch.ones(shape.hidden))
        self.embed_norm, self.norm = Norm(shape.hidden), Norm(shape.hidden)
        self.layers = nn.ModuleList(
            Layer(shape, is_global=i not in shape.local_layers, dense=i < shape.dense_layers) for i in range(shape.layers)
        )
        self.image, self.audio = ImageTower(shape), AudioTower(shape)
        _start(self)

    def look_up(self, ids: Tensor) -> Tensor:
        """Rows of `ids`, trained ones with gradient: [..., h]."""
        slot = self.slot[ids]
        fixed = slot < 0
        return torch.where(fixed[..., None], self.frozen[ids], F.embedding(slot.clamp(min=0), self.rows))

    def embed(self, ids: Tensor, media: list[tuple[int, int, Tensor]] | None = None) -> Tensor:
        """Input of the first layer, [b, t, h].

        Parameters
        ----------
        ids : Tensor
            Token ids [b, t].
        media : list of (batch index, start, features), optional
            Patches [n, 40, 40, 3] or audio frames [n, 80] whose embeddings take the places from `start` on.
        """
        x = self.embed_norm(self.look_up(ids))
        for dim, tower in ((4, self.image), (2, self.audio)):
            mine = [item for item in media or [] if item[2].dim() == dim]
            if not mine:
                continue
            features = tower(torch.cat([item[2] for item in mine]))
            at_b = torch.cat([torch.full((len(f),), b) for b, _, f in mine])
            at_t = torch.cat([torch.arange(start, start + len(f)) for _, start, f in mine])
            x = x.index_put((at_b, at_t), features.to(x.dtype))
        return x

    def hidden(self, x: Tensor) -> Tensor:
        """Run the layers over embedded sequences; the stream before the final norm [b, t, h]."""
        return self.streams(x)[1]

    def streams(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the last layer is given, and the stream before the final norm, both [b, t, h]."""
        for layer in self.layers[:-1]:
            x = layer(x)
        return x, self.layers[-1](x)

    def logits(self, stream: Tensor, candidates: Tensor) -> Tensor:
        """Logits [n, c] of chosen positions of the stream [n, h] for candidate ids [c]."""
        head = self.look_up(candidates) * self.head_scale
        return self.norm(stream) @ head.t()

    def balance(self, step: float) -> None:
        """Move the routers' selection biases towards equal load."""
        for layer in self.layers:
            if isinstance(layer.mlp, RoutedMLP):
                layer.mlp.balance(step)


@torch.no_grad()
def _start(model: DemoModel) -> None:
    """Structured start: the first key/value head of every layer begins as an induction head, the global one also copies.

    Its keys are those of the token before (short-conv taps) and its queries equal its keys, so a token attends to what followed
    its earlier occurrences; in a global layer every head does so and the value goes back to the stream. The second head of layers
    1 to 3 matches content without the shift. Everything else is small noise. A plain random start does not find look-up in a
    million tokens.
    """
    shape, h = model.shape, model.shape.hidden
    residual = 0.5 / math.sqrt(2 * shape.layers)
    model.head_scale.fill_(HEAD_START)
    for number, layer in enumerate(model.layers):
        assert isinstance(layer, Layer)
        for conv in (layer.attn_sconv, layer.mlp_sconv, layer.attn.k_sconv, layer.attn.v_sconv):
            conv.weight.normal_(0, 0.02)
        _start_attention(layer.attn, shape, residual, match=number in (1, 2, 3))
        mlp = layer.mlp
        if isinstance(mlp, DenseMLP):
            mlp.gate.weight.normal_(0, h**-0.5)
            mlp.up.weight.normal_(0, h**-0.5)
            mlp.down.weight.normal_(0, residual * shape.dense_width**-0.5)
        elif isinstance(mlp, RoutedMLP):
            mlp.gate.normal_(0, 0.02)
            for into in (mlp.w13, mlp.shared_gate, mlp.shared_up):
                into.normal_(0, h**-0.5)
            for out in (mlp.w2, mlp.shared_down):
                out.normal_(0, residual * shape.expert_width**-0.5)
    width = model.image.first.weight.shape[1]
    model.image.first.weight.normal_(0, width**-0.5)
    model.image.last.weight.normal_(0, model.image.last.weight.shape[1] ** -0.5)
    model.audio.table.normal_(0, shape.mel_bins**-0.5)


def _start_attention(attn: Attention, shape: Shape, residual: float, *, match: bool) -> None:
    h, d = shape.hidden, shape.head_dim
    group = shape.heads // shape.kv_heads
    for linear in (attn.q, attn.k, attn.v, attn.r):
        linear.weight.normal_(0, h**-0.5)
    attn.o.weight.normal_(0, residual * h**-0.5)
    attn.bank.normal_(0, 0.02)
    for norm in (attn.q_norm, attn.k_norm):
        norm.weight.fill_(d**0.25)
    if attn.is_global:
        # Orthogonal values: together the heads carry as much of the copied row as their width can.
        torch.nn.init.orthogonal_(attn.v.weight)
    for kv in range(shape.kv_heads):
        rows = slice(kv * d, (kv + 1) * d)
        shifted = kv == 0 or attn.is_global
        if shifted:
            attn.k_sconv.weight[rows, -1] -= 1.0
            attn.k_sconv.weight[rows, -2] += 1.0
        for head in range(kv * group, (kv + 1) * group):
            mine = slice(head * d, (head + 1) * d)
            if shifted or match:
                attn.q.weight[mine] = attn.k.weight[rows]
            if attn.is_global:
                attn.o.weight[:, mine] = COPY_START * attn.v.weight[rows].t() / group
