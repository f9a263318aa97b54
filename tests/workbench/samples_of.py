"""Small real files for the tests of composing, each written by a real writer of its format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray
from PIL import Image, ImageDraw


def noise_image(width_px: int, height_px: int, mode: str = "RGB", seed: int = 0) -> Image.Image:
    """Random pixels: nothing a resize or a conversion could hide in."""
    bands = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode]
    values = np.random.default_rng(seed).integers(0, 256, (height_px, width_px, bands), dtype=np.uint8)
    return Image.frombytes(mode, (width_px, height_px), values.tobytes())


def tone(seconds: float, rate_hz: int = 16_000, hz: float = 440.0) -> NDArray[np.float32]:
    """A sine at half of full scale, shape (n,)."""
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate_hz)) / rate_hz)).astype(np.float32)


def pdf(path: Path, pages: list[str | Image.Image | None], *, password: str | None = None) -> Path:
    """A PDF of text pages, full-page pictures and blank pages (None), by reportlab."""
    from reportlab.lib.pagesizes import A5
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.lib.utils import ImageReader
    from reportlab.pdfgen.canvas import Canvas

    lock = StandardEncryption(password, ownerPassword="owner") if password else None
    canvas = Canvas(str(path), pagesize=A5, encrypt=lock)
    for page in pages:
        if isinstance(page, Image.Image):
            canvas.drawImage(ImageReader(page), 20, 20, width=380, height=540)
        elif page is not None:
            text = canvas.beginText(40, 500)
            text.textLines(page)
            canvas.drawText(text)
        canvas.showPage()
    canvas.save()
    return path


def scan(text: str) -> Image.Image:
    """A picture of a text, as a scanner gives it."""
    image = Image.new("RGB", (380, 540), (250, 250, 245))
    ImageDraw.Draw(image).text((30, 60), text, fill=(20, 20, 20))
    return image


def docx(path: Path, *, picture: Image.Image | None = None) -> Path:
    """A Word file with a heading, a paragraph and a table."""
    import docx as writer

    document = writer.Document()
    document.add_heading("Quarterly report", level=1)
    document.add_paragraph("Revenue rose by eleven percent.")
    table = document.add_table(rows=2, cols=2)
    for row, cells in zip(table.rows, (("city", "berths"), ("Lisbon", "412")), strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    if picture is not None:
        picture.save(path.with_suffix(".png"))
        document.add_picture(str(path.with_suffix(".png")))
    document.save(str(path))
    return path


def pptx(path: Path, slides: list[str]) -> Path:
    """Slides with a title each."""
    from pptx import Presentation

    deck = Presentation()
    for title in slides:
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = title
    deck.save(str(path))
    return path


def xlsx(path: Path) -> Path:
    """Two sheets, by openpyxl."""
    from openpyxl import Workbook

    book = Workbook()
    book.active.title = "Fees"
    book.active.append(["boat", "euros"])
    book.active.append(["yacht", 35])
    book.create_sheet("Piers").append(["fuel", 7])
    book.save(path)
    return path


def recording(path: Path, samples: NDArray, rate_hz: int = 16_000, **options: str) -> Path:
    """A sound file of the kind its suffix says, by libsndfile."""
    soundfile.write(path, samples, rate_hz, **options)
    return path
