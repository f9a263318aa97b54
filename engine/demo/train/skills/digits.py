"""Digit strings drawn as images, in several typefaces and sizes.

Typefaces are those that come with matplotlib, so that they are the same everywhere. Half of the training images have every digit in
a patch column of its own (as fixed-width type of 20 px has after the engine's enlargement); the others stand anywhere.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from engine.demo.train.skills.items import Picture, Scene, Step, Text, it_is
from engine.demo.train.skills.sounds import code
from engine.demo.train.skills.wordings import SHOWN
from engine.protocol.images import DEFAULT_IMAGE_RULE

FACES = (
    "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSerif",
    "DejaVuSerif-Bold", "DejaVuSerif-Italic", "STIXGeneral", "STIXGeneralBol", "cmr10", "cmss10", "cmtt10", "cmb10",
)  # fmt: skip
SLOT_PX = 20
"""Half a patch: one patch wide after the enlargement."""
INKS = ((0, 0, 0), (20, 20, 20), (180, 30, 30), (30, 60, 170), (20, 110, 50), (90, 40, 110))
PAPERS = ((255, 255, 255), (255, 255, 255), (255, 255, 255), (250, 248, 240), (235, 235, 235))


@lru_cache(400)
def face(name: str, size_px: int) -> ImageFont.FreeTypeFont:
    """A typeface at one size."""
    found = find_spec("matplotlib")
    assert found, "matplotlib is a dependency: its typefaces are used"
    return ImageFont.truetype(Path(str(found.origin)).parent / "mpl-data" / "fonts" / "ttf" / f"{name}.ttf", size_px)


def draw(
    digits: str, name: str, size_px: int, *, slotted: bool, origin: tuple[int, int], canvas: tuple[int, int],
    ink: tuple[int, int, int] = (0, 0, 0), paper: tuple[int, int, int] = (255, 255, 255),
) -> Picture:  # fmt: skip
    """Digits on a canvas (width, height), the first at `origin`; each digit's last patch is marked."""
    image = Image.new("RGB", canvas, paper)
    pen, font = ImageDraw.Draw(image), face(name, size_px)
    x, y, marks = float(origin[0]), origin[1], []
    for digit in digits:
        left, top, right, bottom = font.getbbox(digit)
        advance = SLOT_PX if slotted else font.getlength(digit)
        at = x + (SLOT_PX - (right - left)) / 2 - left if slotted else x
        pen.text((round(at), y), digit, font=font, fill=ink)
        marks.append((min(round(at) + right - 1, canvas[0] - 1), min(y + (top + 2 * bottom) / 3, canvas[1] - 1), digit))
        x += advance
    return Picture(np.asarray(image), tuple(marks))


def shown(random: Random, *, held_out: bool, level: float, room: int) -> Scene:
    """A number as an image: every digit in a patch column of its own, or anywhere."""
    most = max(1, min(round(1 + 5 * level), room // 4))
    digits = code(random, held_out, (min(2, most) if held_out else 1, most))
    slotted = random.random() < 0.5
    for _ in range(100):
        size = random.randint(12, 20) if slotted else random.randint(14, round(20 + 28 * level))
        name = random.choice(FACES)
        canvas, origin = place(random, digits, name, size, slotted)
        if max(canvas) <= 1000 and DEFAULT_IMAGE_RULE.grid(*canvas).tokens <= room:
            break
    else:
        raise ValueError(f"no number fits into {room} tokens: give it more")
    ink, paper = (INKS[0], PAPERS[0]) if random.random() < 0.5 else (random.choice(INKS), random.choice(PAPERS))
    picture = draw(digits, name, size, slotted=slotted, origin=origin, canvas=canvas, ink=ink, paper=paper)

    def ask(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        return Text(SHOWN.ask(random, paraphrase)), it_is(digits, "digits shown", spelled=True)

    return Scene((picture,), ((1.0, "digits shown", ask),))


def place(random: Random, digits: str, name: str, size: int, slotted: bool) -> tuple[tuple[int, int], tuple[int, int]]:
    """A canvas (width, height) that holds the digits, and where the first one stands."""
    font = face(name, size)
    _, top, _, bottom = font.getbbox("0123456789")
    if slotted:
        columns, rows = len(digits) + random.choice((0, 0, 1, 2)), random.choice((1, 1, 1, 2))
        first, line = random.randint(0, columns - len(digits)), random.randint(0, rows - 1)
        y = line * SLOT_PX + max(0, (SLOT_PX - (bottom - top)) // 2) - top
        return (columns * SLOT_PX, rows * SLOT_PX), (first * SLOT_PX, round(y))
    width, height = font.getlength(digits) + 2, bottom - top + 2
    left, above = random.randint(2, 24), random.randint(2, 16)
    canvas = (round(width) + left + random.randint(2, 24), round(height) + above + random.randint(2, 16))
    return canvas, (left, round(above - top))
