"""The files that the bench of composing reads: real text as PDF, photographs as JPEG, speech-like sound as FLAC. Made once per run.

Everything follows from the seed. reportlab writes the PDF, Pillow the pictures, libsndfile the sound: real writers, so the readers
meet what they meet in use.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np

from ..errors import BenchError
from .real_text import texts

PAGE_CHARACTERS = 2_800
PICTURE_PX = (1024, 768)
RATE_HZ = 44_100


def pdf(path: Path, pages: int, *, seed: int) -> Path:
    """A PDF of real text."""
    try:
        from reportlab.lib.pagesizes import A4
        from reportlab.pdfgen.canvas import Canvas
    except ImportError as problem:
        raise BenchError("this bench writes its PDF with reportlab: pip install 'inkling-workbench[dev]'") from problem
    words = "".join(texts(pages * PAGE_CHARACTERS * 2, seed=seed)).encode("latin-1", errors="replace").decode("latin-1")
    lines = [line for paragraph in words.split("\n") for line in (textwrap.wrap(paragraph, 95) or [""])]
    canvas, at = Canvas(str(path), pagesize=A4), 0
    for _ in range(pages):
        text = canvas.beginText(40, 800)
        text.setFont("Helvetica", 9)
        for line in lines[at : at + 60]:
            text.textLine(line)
        at = (at + 60) % max(len(lines) - 60, 1)
        canvas.drawText(text)
        canvas.showPage()
    canvas.save()
    return path


def pictures(folder: Path, count: int, *, seed: int) -> list[Path]:
    """Photograph-like JPEGs: broad shapes and a little grain."""
    from PIL import Image

    draw, found = np.random.default_rng(seed), []
    width, height = PICTURE_PX
    for index in range(count):
        shapes = Image.fromarray(draw.integers(0, 256, (24, 32, 3), dtype=np.uint8)).resize(PICTURE_PX, Image.Resampling.BICUBIC)
        grain = draw.normal(0, 4, (height, width, 1))
        image = Image.fromarray((np.asarray(shapes) + grain).clip(0, 255).astype(np.uint8))
        found.append(folder / f"photo{index:03}.jpg")
        image.save(found[-1], quality=90)
    return found


def recording(path: Path, seconds: int, *, seed: int) -> Path:
    """Stereo sound with words and pauses, in the rhythm of speech."""
    import soundfile

    draw = np.random.default_rng(seed)
    with soundfile.SoundFile(path, "w", RATE_HZ, 2, subtype="PCM_16") as file:
        for start in range(0, seconds, 10):
            count = min(10, seconds - start) * RATE_HZ
            noise = np.convolve(draw.normal(0, 0.2, count), np.ones(8) / 8, mode="same")
            words = np.repeat(draw.random(count // 4410 + 1) > 0.25, 4410)[:count]
            voice = noise * words
            file.write(np.stack([voice, 0.8 * voice], axis=1))
    return path


def text_files(folder: Path, characters: int, *, seed: int) -> list[Path]:
    """Prose and code, one file each."""
    found = []
    for index, text in enumerate(texts(characters, seed=seed)):
        found.append(folder / f"text{index:04}.txt")
        found[-1].write_text(text, "utf-8")
    return found
