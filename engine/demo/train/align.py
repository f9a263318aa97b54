"""Teach the towers to speak the text rows, before anything is learned jointly.

A patch or a frame that shows something shall come out of its tower near the row of the word for it: cross-entropy over the
words in play, with rows and layers held still. Takes a minute; without it, joint training reads neither images nor tones for a
million tokens.
"""

from __future__ import annotations

from random import Random

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.demo.train.model import DemoModel
from engine.demo.train.skills import grids
from engine.demo.train.skills.align import marked
from engine.demo.train.tokens import encode

DIGITS = [encode(d)[0] for d in "0123456789"]
POOL, BATCH, RATE = 5000, 256, 1e-3


def align(model: DemoModel, makers: dict[str, tuple], steps: int, seed: str) -> dict[str, float]:
    """Train both towers for `steps` steps on what `makers` show; gives the share of a last batch that is right.

    Parameters
    ----------
    makers : dict
        Makers of scenes for ``"patches"`` and ``"frames"``.
    """
    right: dict[str, float] = {}
    for name, tower in (("patches", model.image), ("frames", model.audio)):
        if makers[name]:
            features, labels = _pool(makers[name], Random(f"{seed}/{name}"), patches=name == "patches")
            right[name] = _train(model, tower, features, labels, steps, Random(f"{seed}/{name}/order"))
    return right


def _pool(makers: tuple, random: Random, *, patches: bool) -> tuple[Tensor, Tensor]:
    features, labels = [], []
    for maker in makers:
        # An equal share of each maker, or the one that marks most would be all there is.
        x, y = (torch.from_numpy(part) for part in marked((maker,), random, POOL // len(makers), patches=patches))
        # Where a cell of a grid stands cannot be seen in its pixels.
        seen = ~torch.isin(y, torch.tensor(DIGITS)) if maker is grids.scene else torch.ones(len(y), dtype=torch.bool)
        features.append(x[seen])
        labels.append(y[seen])
    return torch.cat(features), torch.cat(labels)


def _train(model: DemoModel, tower: nn.Module, features: Tensor, labels: Tensor, steps: int, random: Random) -> float:
    words, target = labels.unique(return_inverse=True)
    with torch.no_grad():
        rows = model.embed_norm(model.look_up(words)) / model.shape.hidden**0.5
    optimiser = torch.optim.AdamW(tower.parameters(), lr=RATE, weight_decay=0.0, fused=True)
    right = 0.0
    for step in range(steps):
        at = torch.tensor(random.sample(range(len(labels)), min(BATCH, len(labels))))
        logits = tower(features[at]) @ rows.t()
        F.cross_entropy(logits, target[at]).backward()
        for group in optimiser.param_groups:
            group["lr"] = RATE * (1 - step / steps)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        right = float((logits.argmax(-1) == target[at]).float().mean())
    return right
