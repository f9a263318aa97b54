"""Make the bundled samples: ``python -m workbench.samples.make [folder]``. Deterministic; needs the ``dev`` extra (reportlab).

The document is ordinary prose with a few plain facts in it, the image a grid of coloured shapes, the recording a code dialled in
touch tones. Drawn and dialled by the generators of the demo checkpoint's training, which saw files like these, and none of these.
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

GRID = (
    ("blue circle", "", "yellow triangle"),
    ("black square", "purple triangle", "red circle"),
    ("", "green square", ""),
)
"""Rows from the top; shape and colour both differ between neighbours, so no cell is told by colour alone."""

CODE = "31862"


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


def main(folder: Path) -> None:
    """Write the three samples into `folder`."""
    import soundfile
    from PIL import Image

    from engine.demo.train.skills import grids, media, sounds

    folder.mkdir(parents=True, exist_ok=True)
    make_document(folder / "harbour.pdf")
    Image.fromarray(grids.draw(GRID)).save(folder / "chart.png", optimize=True)
    # Samples of a dialled code are whole 32,768ths already: what a 16-bit file holds.
    samples = (sounds.dial(CODE).samples * 32_768).astype(np.int16)
    soundfile.write(folder / "call.wav", samples, media.RATE_HZ, subtype="PCM_16")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
