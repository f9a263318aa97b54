"""Simple bar charts: which bar is tallest, which shortest, how many there are. Bars are told apart by their colours."""

from __future__ import annotations

from random import Random

import numpy as np
from PIL import Image, ImageDraw

from engine.demo.train.skills.grids import COLOURS
from engine.demo.train.skills.items import Picture, Scene, Step, Text, drawn_for, it_is
from engine.demo.train.skills.wordings import BARS, SHORTEST, TALLEST
from engine.protocol.images import DEFAULT_IMAGE_RULE

SLOT_PX = 40
SCALES = (1, 1, 1, 1, 1.5, 2, 3, 4)


def draw(bars: tuple[tuple[str, int], ...], height_px: int, scale: float = 1, *, axis: bool = True) -> np.ndarray:
    """Bars of (colour, height in px) on a white canvas of `height_px`, everything times `scale`."""
    slot, height = round(SLOT_PX * scale), round(height_px * scale)
    image = Image.new("RGB", (slot * len(bars), height), (255, 255, 255))
    pen = ImageDraw.Draw(image)
    for index, (colour, tall) in enumerate(bars):
        left, margin = index * slot, round(6 * scale)
        pen.rectangle((left + margin, height - round(tall * scale), left + slot - margin - 1, height - 1), fill=COLOURS[colour])
    if axis:
        pen.line((0, height - 1, slot * len(bars), height - 1), fill=(60, 60, 60))
    return np.asarray(image)


def chart(random: Random, *, held_out: bool, level: float, room: int) -> Scene:
    """A chart of two to six bars, heights at least 8 px apart before scaling."""
    most = 2 + round(4 * level)
    for _ in range(200):
        count, height = random.randint(2, most), random.choice((80, 80, 120, 160))
        scale = random.choice(SCALES)
        if max(count * SLOT_PX, height) * scale > 1000:
            continue
        size = round(SLOT_PX * scale) * count, round(height * scale)
        if DEFAULT_IMAGE_RULE.grid(*size).tokens > room:
            continue
        steps = random.sample(range(1, (height - 10) // 10 + 1), min(count, (height - 10) // 10))
        bars = tuple(zip(random.sample(list(COLOURS), count), (10 * s + random.randint(-1, 1) for s in steps), strict=False))
        if drawn_for(f"bars {bars}", held_out):
            break
    else:
        raise ValueError(f"no chart fits into {room} tokens: give it more")
    tallest, shortest = max(bars, key=lambda bar: bar[1])[0], min(bars, key=lambda bar: bar[1])[0]
    marks = [
        ((i + 0.5) * SLOT_PX * scale, height * scale - max(4, min(tall, 10) * scale), colour)
        for i, (colour, tall) in enumerate(bars)
    ]
    picture = Picture(draw(bars, height, scale, axis=random.random() < 0.7), tuple(marks))

    def highest(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        return Text(TALLEST.ask(random, paraphrase)), it_is(f"the {tallest} bar", "bars")

    def lowest(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        return Text(SHORTEST.ask(random, paraphrase)), it_is(f"the {shortest} bar", "bars")

    def number(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        return Text(BARS.ask(random, paraphrase)), it_is(str(len(bars)), "bars", spelled=True)

    return Scene((picture,), ((0.45, "bars", highest), (0.35, "bars", lowest), (0.2, "bars", number)), questions=3)
