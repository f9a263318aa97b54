"""Sequences as tensors: ids padded to one length, targets, media, and the candidate ids of the loss.

Only what the model must write is a target. Candidates are the trained rows, the ids in the batch, the targets' rivals of the same
spelling and random others, so that a few thousand rows stand for the whole vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np
import torch
from torch import Tensor

from engine.demo.shape import VOCABULARY
from engine.demo.train.chat import Chat
from engine.demo.train.tokens import siblings

FORMAT_WEIGHT = 0.15
"""Weight of targets that are framing: few, and learned at once."""


@dataclass(slots=True)
class Batch:
    """Tensors of one step.

    Attributes
    ----------
    ids : Tensor
        [b, t].
    at : Tensor
        Positions whose next id is a target, as flat indices into b·t [n].
    target : Tensor
        Index of the right candidate [n].
    weight : Tensor
        Weight of each target [n], summing to one.
    candidates : Tensor
        Ids that compete [c].
    offset : Tensor
        What is added to their logits in the loss [c].
    media : list of (batch index, start, features)
    label_at, label_words, label : Tensor
        Positions whose stream below the last layer should tell something [m], the ids that compete there [w], the right ones [m].
    """

    ids: Tensor
    at: Tensor
    target: Tensor
    weight: Tensor
    candidates: Tensor
    offset: Tensor
    media: list[tuple[int, int, Tensor]]
    label_at: Tensor
    label_words: Tensor
    label: Tensor


def fit(make: Callable[[], Chat], size: int) -> Chat:
    """Call `make` until the sequence fits into `size` tokens."""
    for _ in range(200):
        chat = make()
        if len(chat.ids) <= size:
            return chat
    raise ValueError(f"no sequence of at most {size} tokens came in 200 tries: ask the generator for shorter ones")


def collate(chats: list[Chat], size: int, always: Tensor, random: Random, negatives: int = 2500) -> Batch:
    """Tensors of `chats`, each at most `size` long; `always` are candidates in every batch (sorted ids)."""
    ids = np.zeros((len(chats), size), np.int64)
    at: list[int] = []
    target: list[int] = []
    weight: list[float] = []
    label_at: list[int] = []
    label: list[int] = []
    media: list[tuple[int, int, Tensor]] = []
    for b, chat in enumerate(chats):
        ids[b, : len(chat.ids)] = chat.ids
        for answer in chat.answers:
            for p in range(answer.start, answer.stop):
                at.append(b * size + p - 1)
                target.append(chat.ids[p])
                weight.append(1.0 if answer.payload[0] <= p < answer.payload[1] else FORMAT_WEIGHT)
        label_at += [b * size + p for p, _ in chat.labels]
        label += [token for _, token in chat.labels]
        media += [(b, start, torch.from_numpy(np.ascontiguousarray(array))) for start, array in chat.media]
    rivals = {s for t in set(target) for s in siblings(t)}
    drawn = [random.randrange(VOCABULARY) for _ in range(negatives)]
    ids_tensor = torch.from_numpy(ids)
    named = torch.cat([always, ids_tensor.unique(), torch.tensor(sorted({*target, *rivals}))]).unique()
    candidates = torch.cat([named, torch.tensor(drawn, dtype=torch.long)]).unique()
    # The drawn ids stand for all that are not named: each weighs as many as it stands for.
    stand_for = (VOCABULARY - len(named)) / max(1, len(candidates) - len(named))
    offset = torch.full((len(candidates),), math.log(max(1.0, stand_for)))
    offset[torch.searchsorted(candidates, named)] = 0.0
    wanted = torch.tensor(target)
    weights = torch.tensor(weight)
    where = torch.searchsorted(candidates, wanted)
    words, labels = torch.tensor(label, dtype=torch.long).unique(return_inverse=True)
    places = torch.tensor(label_at, dtype=torch.long)
    return Batch(ids_tensor, torch.tensor(at), where, weights / weights.sum(), candidates, offset, media, places, words, labels)
