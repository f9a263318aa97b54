"""Skills by name: generators of training sequences, all called alike."""

from __future__ import annotations

from collections.abc import Callable

from engine.demo.train.chat import Chat
from engine.demo.train.lookup import lookup
from engine.demo.train.skills import bars, digits, grids, reading, sounds, spoken, talk, together, tools
from engine.demo.train.skills.items import Maker
from engine.demo.train.skills.sequences import Skill

MAKERS: dict[str, Maker] = {
    "grids": grids.scene,
    "digits": digits.shown,
    "bars": bars.chart,
    "dtmf": sounds.dialled,
    "tones": sounds.tones,
    "spoken": spoken.spoken,
    "together": together.scene,
    "numbers": together.told_numbers,
    "reading": reading.scene,
    "talk": talk.told,
    "tools": tools.scene,
}
"""Scenes with their questions, see :mod:`.items`."""

SKILLS: dict[str, Callable[..., Chat]] = {"lookup": lookup} | {name: Skill(maker) for name, maker in MAKERS.items()}
"""Called as ``skill(random, tokens, held_out=False, paraphrase=False)``: at most `tokens` ids, of look-up about so many."""

ALIGNED: dict[str, tuple[Maker, ...]] = {
    "patches": (grids.scene, digits.shown),
    "frames": (sounds.dialled, spoken.spoken),
}
"""What the towers are taught to name before anything is learned jointly, see :mod:`engine.demo.train.align`."""
