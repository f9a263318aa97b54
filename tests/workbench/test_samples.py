"""The bundled samples: made by their script, small, and readable as what they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
from PIL import Image

from engine.demo.train.skills import sounds
from workbench import Context, samples
from workbench.samples import make


def test_the_script_makes_the_committed_files(tmp_path: Path) -> None:
    make.main(tmp_path)
    for path in samples.paths().values():
        made = tmp_path / path.name
        if path.suffix == ".png":
            assert (np.asarray(Image.open(made)) == np.asarray(Image.open(path))).all()
        elif path.suffix == ".wav":
            assert made.read_bytes() == path.read_bytes()
        else:
            assert Context().add_document(made) == Context().add_document(path)
    assert sum(path.stat().st_size for path in samples.paths().values()) < 300_000


def test_every_fact_is_on_one_line() -> None:
    text = "\n".join(page.text for page in Context().add_document(samples.paths()["document"]).pages)
    for fact in ("The harbour master of Lisbon is Ana Duarte.", "The code of the north gate is 48213.",
                 "The code of the south gate is 70956.", "The mooring fee for yachts is 35 euros.", "The fuel dock is at pier 7.",
                 "The ferry to Cacilhas leaves at 09:40.", "The keeper of the power boxes is Marta Nunes."):  # fmt: skip
        assert fact in text


def test_the_call_holds_its_code() -> None:
    samples_, rate = soundfile.read(samples.paths()["audio"])
    step, tone_n = round((sounds.TONE_S + sounds.GAP_S) * rate), round(sounds.TONE_S * rate)
    heard = ""
    for start in range(round(sounds.LEAD_S * rate), len(samples_), step):
        power = np.abs(np.fft.rfft(samples_[start : start + tone_n], rate))
        row, column = (int(np.argmax([power[hz] for hz in group])) for group in (sounds.ROWS_HZ, sounds.COLUMNS_HZ))
        heard += sounds.KEYS[row][column]
    assert heard == make.CODE


def test_the_chart_costs_what_it_should() -> None:
    context = Context()
    part = context.add_image(samples.paths()["image"])
    assert (part.width_px % 40, part.height_px % 40) == (0, 0)
    assert context.budget().by_modality()["image"] == 42
