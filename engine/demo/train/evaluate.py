"""Exact match on held-out cases, from the trainer: the whole vocabulary competes, greedy decoding is judged.

A case counts when every id of the model's turn, framing included, is the argmax given the ones before: then greedy decoding writes
exactly that turn. Intervals are Wilson's at 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import torch

from engine.demo.shape import VOCABULARY
from engine.demo.train.batches import collate, fit
from engine.demo.train.chat import Chat
from engine.demo.train.model import DemoModel


@dataclass(frozen=True, slots=True)
class Score:
    """Right answers of all cases of a skill."""

    right: int
    cases: int

    @property
    def share(self) -> float:
        """Exact-match rate."""
        return self.right / self.cases if self.cases else math.nan

    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval."""
        n, p, z = self.cases, self.share, 1.96
        if not n:
            return 0.0, 1.0
        centre, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, (centre - half) / (1 + z * z / n)), min(1.0, (centre + half) / (1 + z * z / n))


@torch.no_grad()
def score(
    model: DemoModel, make: Callable[[Random], Chat], *, size: int, sequences: int, seed: str, head: torch.Tensor
) -> dict[str, Score]:
    """Scores by skill of `sequences` held-out sequences of at most `size` tokens.

    Parameters
    ----------
    make : callable
        Gives a sequence from a generator; `seed` and the sequence's number seed it.
    head : Tensor
        All head rows [v, h], see :func:`full_head`.
    """
    model.eval()
    right: dict[str, int] = {}
    cases: dict[str, int] = {}
    per = max(1, 4096 // size)
    for first in range(0, sequences, per):
        chats = []
        for number in range(first, min(first + per, sequences)):
            random = Random(f"{seed}/{number}")
            chats.append(fit(lambda r=random: make(r), size))
        batch = collate(chats, size, model.trained, Random(0), negatives=0)
        stream = model.hidden(model.embed(batch.ids, batch.media)).flatten(0, 1)
        best = (model.norm(stream[batch.at]) @ head.t()).argmax(-1)
        hit = (best == batch.candidates[batch.target]).tolist()
        at = 0
        for chat in chats:
            for answer in chat.answers:
                length = answer.stop - answer.start
                cases[answer.skill] = cases.get(answer.skill, 0) + 1
                right[answer.skill] = right.get(answer.skill, 0) + all(hit[at : at + length])
                at += length
    return {name: Score(right[name], cases[name]) for name in sorted(cases)}


@torch.no_grad()
def full_head(model: DemoModel) -> torch.Tensor:
    """Head rows of every real id [v, h]."""
    rows = model.frozen[:VOCABULARY].clone()
    rows[model.trained[model.trained < VOCABULARY]] = model.rows.detach()[: int((model.trained < VOCABULARY).sum())]
    return rows * model.head_scale.detach()
