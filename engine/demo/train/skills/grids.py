"""Grids of coloured shapes: what is where, which colour, how many.

Cells of 40 px, drawn as the bundled sample's, most often; larger ones up to a canvas of 1000 px. Rows and columns count from 1 at
the top left. A layout is of one side only, by its spelling.
"""

from __future__ import annotations

from random import Random

import numpy as np
from PIL import Image, ImageDraw

from engine.demo.train.skills.items import Ask, Picture, Scene, Step, Text, drawn_for, it_is
from engine.demo.train.skills.wordings import COLOUR, COUNT, SHAPE, WHAT_AT, WHERE
from engine.protocol.images import DEFAULT_IMAGE_RULE

COLOURS = {
    "red": (220, 40, 40), "green": (40, 160, 60), "blue": (40, 80, 220), "yellow": (240, 200, 40), "black": (20, 20, 20),
    "purple": (140, 60, 170),
}  # fmt: skip
SHAPES = ("circle", "square", "triangle")
CELL_PX, RADIUS_PX = 40, 14
LARGER_PX = (60, 80, 100, 120, 160, 200)
LARGEST_PX = 1000

Grid = tuple[tuple[str, ...], ...]
"""Rows of cells: ``"red circle"``, or nothing."""


def draw(grid: Grid, cell_px: int = CELL_PX, *, jitter: Random | None = None) -> np.ndarray:
    """A grid as an image [h, w, 3] on white; `jitter` varies place, size and hue a little."""
    image = Image.new("RGB", (cell_px * len(grid[0]), cell_px * len(grid)), (255, 255, 255))
    pen = ImageDraw.Draw(image)
    for row, cells in enumerate(grid):
        for column, cell in enumerate(cells):
            if cell:
                _shape(pen, cell, row, column, cell_px, jitter)
    return np.asarray(image)


def _shape(pen: ImageDraw.ImageDraw, cell: str, row: int, column: int, cell_px: int, jitter: Random | None) -> None:
    name, shape = cell.split()
    colour, radius = COLOURS[name], RADIUS_PX * cell_px // CELL_PX
    x, y = column * cell_px + cell_px // 2, row * cell_px + cell_px // 2
    if jitter:
        slack = cell_px // 20
        radius += jitter.randint(-2 * slack, slack)
        x, y = x + jitter.randint(-slack, slack), y + jitter.randint(-slack, slack)
        colour = tuple(min(255, max(0, level + jitter.randint(-18, 18))) for level in colour)
    if shape == "circle":
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
    elif shape == "square":
        pen.rectangle((x - radius, y - radius, x + radius, y + radius), fill=colour)
    else:
        pen.polygon([(x, y - radius), (x - radius, y + radius), (x + radius, y + radius)], fill=colour)


def marks(grid: Grid, cell_px: int) -> tuple[tuple[float, float, str], ...]:
    """The four middle patches of a cell are its colour, its shape, its row and its column; the last of them tells all of it.

    An empty one's first is "empty".
    """
    found: list[tuple[float, float, str]] = []
    near = 10
    for row, cells in enumerate(grid):
        for column, cell in enumerate(cells):
            x, y = (column + 0.5) * cell_px, (row + 0.5) * cell_px
            words = cell.split() if cell else ["empty"]
            found += [(x - near + 2 * near * i, y - near, word) for i, word in enumerate(words)]
            found += [(x - near, y + near, str(row + 1)), (x + near, y + near, str(column + 1))]
            # One place that knows everything of a cell is found by any of it, and gives any of it.
            found += [(x + near, y + near, word) for word in (*words, str(row + 1))]
    return tuple(found)


def layout(random: Random, held_out: bool, rows: int, columns: int) -> Grid:
    """A layout of one side."""
    while True:
        filled = random.uniform(0.3, 0.95)
        grid = tuple(
            tuple(
                f"{random.choice(list(COLOURS))} {random.choice(SHAPES)}" if random.random() < filled else ""
                for _ in range(columns)
            )
            for _ in range(rows)
        )
        if drawn_for(f"grid {grid}", held_out):
            return grid


def scene(random: Random, *, held_out: bool, level: float, room: int, large: bool | None = None) -> Scene:
    """A grid with questions of every kind.

    Parameters
    ----------
    large : bool, optional
        Cells larger than 40 px always, or never; mixed by default.
    """
    rows, columns, cell_px = _size(random, level, room, large)
    grid = layout(random, held_out, rows, columns)
    # Few questions of one image: the layers that slide see it only as far as their window reaches.
    return Scene((picture(grid, random, cell_px),), kinds(grid), questions=4)


def picture(grid: Grid, random: Random, cell_px: int = CELL_PX) -> Picture:
    """A grid drawn exactly as the bundled sample is, or varied a little."""
    plain = cell_px == CELL_PX and random.random() < 0.5
    return Picture(draw(grid, cell_px, jitter=None if plain else random), marks(grid, cell_px))


def _size(random: Random, level: float, room: int, large: bool | None) -> tuple[int, int, int]:
    most = 1 + max(1, round(level * 4))
    for _ in range(60):
        rows, columns = random.randint(1, most), random.randint(1, most)
        if random.random() < 0.25:
            rows = columns = min(3, most)
        wants = random.random() < 0.1 if large is None else large
        cell = random.choice(LARGER_PX) if wants else CELL_PX
        if max(rows, columns) * cell <= LARGEST_PX and DEFAULT_IMAGE_RULE.grid(columns * cell, rows * cell).tokens <= room:
            return rows, columns, cell
    if DEFAULT_IMAGE_RULE.grid(CELL_PX, CELL_PX).tokens > room:
        raise ValueError(f"no grid fits into {room} tokens: give it more")
    return 1, 1, CELL_PX


def kinds(grid: Grid) -> tuple[tuple[float, str, Ask], ...]:
    """Questions about a grid."""
    cells = {(r, c): cell for r, row in enumerate(grid, 1) for c, cell in enumerate(row, 1)}
    filled = [cell for cell in cells.values() if cell]
    once = sorted({cell for cell in filled if filled.count(cell) == 1})
    parts = [part for cell in filled for part in cell.split()]
    single = sorted({part for part in parts if parts.count(part) == 1})

    def what_at(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        row, column = random.choice(list(cells))
        value = f"a {cells[row, column]}" if cells[row, column] else "empty"
        text = WHAT_AT.ask(random, paraphrase, row=row, column=column)
        return Text(text), it_is(value, "what is at")

    def where(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        cell = random.choice(once)
        row, column = next(place for place, found in cells.items() if found == cell)
        # By its shape alone, where that is enough.
        named = random.choice([cell, cell, *(part for part in cell.split() if part in single and part in SHAPES)])
        return Text(WHERE.ask(random, paraphrase, shape=named)), it_is(f"at row {row}, column {column}", "where")

    def attribute(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        part = random.choice(single)
        colour, shape = next(cell for cell in filled if part in cell.split()).split()
        if part == shape:
            return Text(COLOUR.ask(random, paraphrase, shape=shape)), it_is(colour, "colour")
        return Text(SHAPE.ask(random, paraphrase, colour=colour)), it_is(f"a {shape}", "colour")

    def count(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        kind = random.choice(["all", "shape", "colour", "colour"])
        if kind == "all":
            named, number = "shapes", len(filled)
        elif kind == "shape":
            shape = random.choice(SHAPES)
            named, number = f"{shape}s", parts.count(shape)
        else:
            colour = random.choice([*COLOURS, *(part for part in parts if part in COLOURS)])
            named, number = f"{colour} shapes", parts.count(colour)
        answer = it_is(str(number), "count", spelled=True)
        return Text(COUNT.ask(random, paraphrase, shapes=named)), answer

    return (
        (0.36, "what is at", what_at),
        *(((0.27, "where", where),) if once else ()),
        *(((0.15, "colour", attribute),) if single else ()),
        (0.22, "count", count),
    )
