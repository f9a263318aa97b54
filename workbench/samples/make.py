"""Make the bundled samples: ``python -m workbench.samples.make [folder]``. Deterministic; needs the ``dev`` extra (reportlab).

The document is ordinary prose with a few plain facts in it, the image a grid of coloured shapes, the recording a code dialled in
touch tones (ITU-T Q.23 frequencies). The demo checkpoint is trained on files like these, and on none of these.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

PAGES = (
    (
        "Harbour handbook: Lisbon",
        "This handbook is for skippers who call at the harbour for the first time. It says who is in charge, where to moor, what "
        "it costs and when the ferries run. Please keep a copy on board and read it before you pass the bridge.",
        "The harbour master of Lisbon is Ana Duarte. The deputy of the harbour master is Rui Teixeira. The office is open on "
        "every working day and answers on channel 12.",
        "The code of the north gate is 48213. The code of the south gate is 70956. The visitors' berths lie behind the long mole, "
        "out of the swell. A launch meets arriving yachts at the entrance and leads them in.",
        "Anchoring in the fairway is not allowed. A vessel that waits for the tide may lie alongside the grey pontoon.",
    ),
    (
        "Fees and services",
        "The mooring fee for yachts is 35 euros. The mooring fee for barges is 120 euros. The fee covers water and waste for one "
        "night and is paid at the office, by card or in cash.",
        "The fuel dock is at pier 7. The sail loft is at pier 2. The chandler opens early in summer and closes at noon in winter.",
        "The keeper of the power boxes is Marta Nunes. Every berth has a grey box with two sockets, and power is metered. Lost "
        "keys are replaced on the same day.",
    ),
    (
        "Ferries and tides",
        "The ferry to Cacilhas leaves at 09:40. The ferry to Barreiro leaves at 11:15. Both go from the square in front of the "
        "station, and both carry bicycles.",
        "The pilot of the river is Jorge Almeida. High water falls about one hour later each day, and the tide table hangs beside "
        "the door of the office.",
        "In fog the bell on the mole rings every minute. Small craft then keep to the south side until the light is seen again.",
    ),
)

CELL_PX = 40
RADIUS_PX = 14
COLOURS = {
    "red": (220, 40, 40), "green": (40, 160, 60), "blue": (40, 80, 220), "yellow": (240, 200, 40), "black": (20, 20, 20),
    "purple": (140, 60, 170),
}  # fmt: skip
GRID = (
    ("blue circle", "", "yellow triangle"),
    ("black square", "purple triangle", "red circle"),
    ("", "green square", ""),
)
"""Rows from the top; shape and colour both differ between neighbours, so no cell is told by colour alone."""

CODE = "31862"
RATE_HZ = 16_000
TONE_S, GAP_S, LEAD_S, AMPLITUDE = 0.15, 0.10, 0.10, 0.25
ROWS_HZ, COLUMNS_HZ, KEYS = (697, 770, 852, 941), (1209, 1336, 1477), ("123", "456", "789", "*0#")


def make_document(path: Path) -> None:
    """Three pages of prose as PDF."""
    from reportlab.lib.pagesizes import A4
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Spacer

    styles = getSampleStyleSheet()
    story: list = []
    for title, *paragraphs in PAGES:
        story += [PageBreak()] if story else []
        story.append(Paragraph(title, styles["Heading1"]))
        for text in paragraphs:
            story += [Paragraph(text, styles["BodyText"]), Spacer(1, 6)]
    # invariant: no time of day in the file, so the same script makes the same bytes.
    SimpleDocTemplate(str(path), pagesize=A4, title="Harbour handbook", author="Inkling Workbench", invariant=1).build(story)


def draw_grid(grid: tuple[tuple[str, ...], ...], cell_px: int = CELL_PX):
    """A grid of coloured shapes on white, as a PIL image."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (cell_px * len(grid[0]), cell_px * len(grid)), (255, 255, 255))
    draw = ImageDraw.Draw(image)
    radius = RADIUS_PX * cell_px // CELL_PX
    for row, names in enumerate(grid):
        for column, name in enumerate(names):
            if not name:
                continue
            colour, shape = name.split()
            x, y = column * cell_px + cell_px // 2, row * cell_px + cell_px // 2
            box = (x - radius, y - radius, x + radius, y + radius)
            if shape == "circle":
                draw.ellipse(box, fill=COLOURS[colour])
            elif shape == "square":
                draw.rectangle(box, fill=COLOURS[colour])
            else:
                draw.polygon([(x, y - radius), (x - radius, y + radius), (x + radius, y + radius)], fill=COLOURS[colour])
    return image


def dial(code: str) -> np.ndarray:
    """Touch tones of `code`: float64 samples, shape (n,), at 16 kHz."""
    time_s = np.arange(round(TONE_S * RATE_HZ)) / RATE_HZ
    pieces = [np.zeros(round(LEAD_S * RATE_HZ))]
    for key in code:
        row = next(index for index, keys in enumerate(KEYS) if key in keys)
        tones = (ROWS_HZ[row], COLUMNS_HZ[KEYS[row].index(key)])
        pieces += [sum(AMPLITUDE * np.sin(2 * np.pi * hz * time_s) for hz in tones), np.zeros(round(GAP_S * RATE_HZ))]
    return np.concatenate(pieces)


def main(folder: Path) -> None:
    """Write the three samples into `folder`."""
    import soundfile

    folder.mkdir(parents=True, exist_ok=True)
    make_document(folder / "harbour.pdf")
    draw_grid(GRID).save(folder / "chart.png", optimize=True)
    soundfile.write(folder / "call.wav", (dial(CODE) * 32_767).round().astype(np.int16), RATE_HZ, subtype="PCM_16")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
