"""Patches and frames with the words they show: for teaching the towers to speak the text rows before anything else.

Each call draws fresh scenes of the skills and takes their marked places, so that what is aligned is what is read later.
:mod:`engine.demo.train.align` teaches with them.
"""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

from engine.demo.train.chat import Chat
from engine.demo.train.skills.items import Maker
from engine.demo.train.skills.sequences import sequence


def marked(makers: tuple[Maker, ...], random: Random, count: int, *, patches: bool) -> tuple[np.ndarray, NDArray[np.int64]]:
    """`count` features of marked places and the ids that they show.

    Returns
    -------
    ndarray, shape (n, 40, 40, 3) or (n, 80)
    ndarray of int64, shape (n,)
    """
    found: list[np.ndarray] = []
    labels: list[int] = []
    while len(labels) < count:
        maker = random.choice(makers)
        try:
            chat = sequence(maker, random, 512, held_out=False, paraphrase=False, level=1.0)
        except ValueError:
            continue
        _take(chat, found, labels, patches)
    return np.stack(found[:count]), np.array(labels[:count], np.int64)


def _take(chat: Chat, found: list[np.ndarray], labels: list[int], patches: bool) -> None:
    for start, features in chat.media:
        if (features.ndim == 4) == patches:
            for place, token in chat.labels:
                if start <= place < start + len(features):
                    found.append(features[place - start])
                    labels.append(token)
