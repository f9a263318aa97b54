"""The skills' generators: features as the engine computes them, labels that another method reads back, sides that share nothing."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pytest
import soundfile
from PIL import Image

from engine.demo.train.skills import MAKERS, SKILLS, bars, digits, grids, sounds, speech, spoken, tools
from engine.demo.train.skills.items import Answer, Picture, Sound, Text
from engine.demo.train.skills.media import HOP, RATE_HZ, frames_of, patches_of
from engine.demo.train.skills.sequences import case, chat_of, label
from engine.demo.train.skills.wordings import ALL
from engine.demo.train.tokens import decode, framing, is_held_out
from workbench.samples import make, paths

NEEDS_ESPEAK = {"spoken", "together"}
"""Their training side renders speech; evaluation reads it from files."""


@pytest.mark.parametrize(("width", "height"), [(120, 120), (41, 77), (1200, 30), (1000, 1000)])
def test_patches_are_those_of_vllm(width: int, height: int):
    from vllm.transformers_utils.processors.inkling import IMAGE_MEAN, IMAGE_STD, InklingImageProcessor

    pixels = np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8)
    theirs = InklingImageProcessor()._encode_one(Image.fromarray(pixels))[:, 0].float()
    mine = (patches_of(pixels).astype(np.float32) / np.float32(255) - IMAGE_MEAN) / IMAGE_STD
    # Theirs are rounded to bfloat16, which keeps 8 bits: 2^-8 of values up to 2.7.
    assert np.abs(mine - theirs.numpy()).max() <= 2.7 / 256


@pytest.mark.parametrize("samples", [1, 799, 800, 801, 16_000, 50_001])
def test_frames_are_those_of_vllm(samples: int):
    from vllm.transformers_utils.processors.inkling import InklingAudioFeatureExtractor

    loudness = 10.0 ** -(samples % 4)
    heard = (loudness * np.random.default_rng(samples).standard_normal(samples)).astype(np.float32)
    theirs = InklingAudioFeatureExtractor()._encode_one(heard).numpy()
    mine = frames_of(heard)
    assert mine.shape == theirs.shape
    # A level lies on an edge between two for one bin in ten thousand at most: summation order decides there.
    assert (mine != theirs).mean() <= 1e-4


def test_the_bundled_samples_are_drawn_alike():
    files = paths()
    assert np.array_equal(grids.draw(make.GRID), np.asarray(Image.open(files["image"]).convert("RGB")))
    assert np.array_equal(sounds.dial(make.CODE).samples, soundfile.read(files["audio"], dtype="float32")[0])


@pytest.mark.parametrize("name", [name for name in SKILLS if name not in NEEDS_ESPEAK])
@pytest.mark.parametrize("held_out", [False, True])
def test_sequences_are_deterministic_fit_and_end_every_turn(name: str, held_out: bool):
    ends = [framing().end_message, framing().content_model_end_sampling]
    for tokens in (160, 512):
        chat, again = (SKILLS[name](Random(f"{name}{tokens}"), tokens, held_out=held_out) for _ in range(2))
        assert chat.ids == again.ids
        # Look-up is laid out by estimate: its last question may run over by some words.
        assert len(chat.ids) <= (tokens + 20 if name == "lookup" else tokens)
        assert chat.answers
        for answer in chat.answers:
            assert chat.ids[answer.stop - 2 : answer.stop] == ends
            assert answer.start <= answer.payload[0] < answer.payload[1] == answer.stop - 2
        for start, features in chat.media:
            slot = framing().image_slot if features.ndim == 4 else framing().audio_slot
            assert set(chat.ids[start : start + len(features)]) == {slot}
        slots = {p for start, features in chat.media for p in range(start, start + len(features))}
        written = {p - 1 for answer in chat.answers for p in range(*answer.payload)}
        assert {place for place, _ in chat.labels} <= slots | written
        assert all(chat.ids[place + 1] == token for place, token in chat.labels if place in written)


def test_speech_is_deterministic_and_together_fits():
    for name in NEEDS_ESPEAK:
        chat, again = (SKILLS[name](Random(name), 300, held_out=True) for _ in range(2))
        assert chat.ids == again.ids
        assert len(chat.ids) <= 300


def test_thinking_comes_first_at_the_efforts_that_ask_for_it():
    for effort, thinks in (("0.0", False), ("0.2", False), ("0.5", True), ("0.9", True)):
        item = case(grids.scene, "what is at", Random(1), paraphrase=False, effort=effort)
        chat = chat_of(item)
        written = decode(chat.ids[chat.answers[-1].start :])
        assert written.startswith("<|content_thinking|>Asked: ") == thinks
        assert written.endswith(f"{item.wanted.text}<|end_message|><|content_model_end_sampling|>")


def test_training_and_evaluation_share_no_values():
    """Layouts, codes and heights of many draws of each side: none is on both."""
    seen: dict[bool, set] = {}
    for held_out in (False, True):
        found = seen.setdefault(held_out, set())
        for number in range(150):
            random = Random(f"{held_out}/{number}")
            found.add(("grid", grids.layout(random, held_out, 2, 2)))
            found.add(("code", sounds.code(random, held_out, (2, 4))))
            scene = bars.chart(random, held_out=held_out, level=1.0, room=4000)
            picture = scene.steps[0]
            assert isinstance(picture, Picture)
            found.add(("bars", picture.pixels.tobytes()))
    assert not seen[False] & seen[True]
    assert all(is_held_out(f"digits {code}") for kind, code in seen[True] if kind == "code")


def test_training_and_evaluation_share_no_wordings_voices_or_tools():
    known, unseen = {t for w in ALL for t in w.known}, {t for w in ALL for t in w.unseen}
    assert not known & unseen
    assert not set(speech.VOICES) & set(speech.HELD_OUT_VOICES)
    assert not {t[0] for t in tools.WRITTEN} & {t[0] for t in tools.HELD_OUT}


def _cells(pixels: np.ndarray, cell_px: int) -> list[list[str]]:
    """A grid read back from its pixels: colour by the middle, shape by how much of the drawn box is filled."""
    rows = []
    for y in range(0, pixels.shape[0], cell_px):
        row = []
        for x in range(0, pixels.shape[1], cell_px):
            cell = pixels[y : y + cell_px, x : x + cell_px].astype(int)
            drawn = np.abs(cell - 255).sum(-1) > 60
            if not drawn.any():
                row.append("")
                continue
            middle = np.median(cell[drawn], axis=0)
            colour = min(grids.COLOURS, key=lambda name: np.abs(middle - grids.COLOURS[name]).sum())
            height, width = np.ptp(np.argwhere(drawn), axis=0) + 1
            filled = drawn.sum() / (height * width)
            row.append(f"{colour} {'square' if filled > 0.9 else 'circle' if filled > 0.65 else 'triangle'}")
        rows.append(row)
    return rows


def test_answers_about_grids_are_what_the_pixels_show():
    for number in range(60):
        random = Random(number)
        item = case(grids.scene, random.choice(["what is at", "where", "count"]), random, paraphrase=False)
        picture, question = item.steps[0], item.steps[1]
        assert isinstance(picture, Picture)
        assert isinstance(question, Text)
        # Every cell has its row twice and its column once among its marks.
        count = sum(word.isdigit() for _, _, word in picture.marks) // 3
        cell_px = round((picture.pixels.shape[0] * picture.pixels.shape[1] / count) ** 0.5)
        cells = _cells(picture.pixels, cell_px)
        text, answer = question.text, item.wanted.text
        if numbers := re.findall(r"row (\d), column (\d)", text.lower()):
            row, column = map(int, numbers[0])
            assert answer == (f"It is a {cells[row - 1][column - 1]}." if cells[row - 1][column - 1] else "It is empty.")
        elif numbers := re.findall(r"row (\d), column (\d)", answer):
            row, column = map(int, numbers[0])
            assert cells[row - 1][column - 1]
            assert cells[row - 1][column - 1].split()[1] in text
        else:
            flat = [part for row in cells for cell in row for part in cell.split()]
            named = next((part for part in (*grids.COLOURS, *grids.SHAPES) if part in text), None)
            assert answer == f"It is {flat.count(named) if named else len(flat) // 2}."


def test_dialled_keys_are_in_the_spectrum():
    """Detected by an FFT of each key's stretch, knowing nothing but Q.23's frequencies."""
    for number in range(30):
        item = case(sounds.dialled, "dtmf", Random(number), paraphrase=False)
        sound = item.steps[0]
        assert isinstance(sound, Sound)
        heard = ""
        for end_s, _ in sound.marks:
            stretch = sound.samples[int((end_s - 0.09) * RATE_HZ) : int(end_s * RATE_HZ)]
            power = np.abs(np.fft.rfft(stretch * np.hanning(len(stretch)), 16_000))
            low, high = (max(tones, key=lambda hz: power[hz - 5 : hz + 6].max()) for tones in (sounds.ROWS_HZ, sounds.COLUMNS_HZ))
            heard += sounds.KEYS[sounds.ROWS_HZ.index(low)][sounds.COLUMNS_HZ.index(high)]
        assert item.wanted.text == f"It is {heard}."


def test_the_highest_tone_is_the_highest():
    for number in range(40):
        item = case(sounds.tones, "pitch", Random(number), paraphrase=False)
        sound, question = item.steps[0], item.steps[1]
        assert isinstance(sound, Sound)
        assert isinstance(question, Text)
        pitches = []
        for end_s, _ in sound.marks:
            stretch = sound.samples[int((end_s - 0.15) * RATE_HZ) : int(end_s * RATE_HZ)]
            pitches.append(int(np.abs(np.fft.rfft(stretch, 16_000)).argmax()))
        best = max(pitches) if "highest" in question.text else min(pitches)
        assert item.wanted.text == f"It is the {sounds.ORDINALS[pitches.index(best)]}."


def test_the_tallest_bar_is_the_tallest():
    for number in range(40):
        item = case(bars.chart, "bars", Random(number), paraphrase=False)
        picture, question = item.steps[0], item.steps[1]
        assert isinstance(picture, Picture)
        assert isinstance(question, Text)
        heights = {}
        for name, colour in grids.COLOURS.items():
            rows = np.flatnonzero((picture.pixels == colour).all(-1).any(1))
            if len(rows):
                heights[name] = picture.pixels.shape[0] - rows[0]
        if "tallest" in question.text:
            assert item.wanted.text == f"It is the {max(heights, key=heights.__getitem__)} bar."
        elif "shortest" in question.text:
            assert item.wanted.text == f"It is the {min(heights, key=heights.__getitem__)} bar."
        else:
            assert item.wanted.text == f"It is {len(heights)}."


def test_a_number_reads_as_it_is_drawn():
    """Every digit's ink, cut out at its mark, is nearest to that digit's own picture in the same type."""
    for slotted in (True, False):
        digits_drawn, name, size = "40718", "DejaVuSans-Bold", 20
        canvas, origin = digits.place(Random(2), digits_drawn, name, size, slotted)
        picture = digits.draw(digits_drawn, name, size, slotted=slotted, origin=origin, canvas=canvas)
        ink = (picture.pixels.sum(-1) < 380).astype(int)
        filled = np.flatnonzero(ink.any(0))
        pieces = np.split(filled, np.flatnonzero(np.diff(filled) > 1) + 1)
        assert len(pieces) == len(digits_drawn) == len(picture.marks)
        for piece, digit, (x, _, word) in zip(pieces, digits_drawn, picture.marks, strict=True):
            assert word == digit
            # The type's box is up to two pixels wider than the ink that is darker than half.
            assert piece[0] <= x <= piece[-1] + 2
            alone = digits.draw(digit, name, size, slotted=False, origin=(3, 0), canvas=(40, 40))
            shape = (alone.pixels.sum(-1) < 380).astype(int)
            columns = np.flatnonzero(shape.any(0))
            assert abs(int(ink[:, piece].sum()) - int(shape[:, columns].sum())) <= 12


def test_held_out_speech_is_whole_and_small():
    speakers = speech.held_out_speakers()
    assert {s.setting.voice for s in speakers} == set(speech.HELD_OUT_VOICES)
    assert all(len(s.digits) == 10 and all(0.1 < len(clip) / RATE_HZ < 1.5 for clip in s.digits) for s in speakers)
    assert all(is_held_out(f"digits {text}") for s in speakers for text, _ in s.breaths)
    assert sum(path.stat().st_size for path in speech.HELD_OUT.iterdir()) < 1_600_000


def test_a_damaged_speech_file_is_refused(tmp_path):
    from engine.errors import EngineError

    for path in speech.HELD_OUT.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "m4.flac").write_bytes(b"fLaC")
    with pytest.raises(EngineError, match=r"m4\.flac"):
        speech.held_out_speakers(tmp_path)


def test_spoken_digits_are_within_their_limits():
    for number in range(40):
        item = case(spoken.spoken, "spoken", Random(number), paraphrase=True, room=600)
        sound = item.steps[0]
        assert isinstance(sound, Sound)
        assert 0.3 <= len(sound.samples) / RATE_HZ <= 30.5
        assert np.abs(sound.samples).max() <= 1
        assert item.wanted.text == f"It is {''.join(word for _, word in sound.marks)}."
        assert all(0 <= int(at * RATE_HZ / HOP) < -(-len(sound.samples) // HOP) for at, _ in sound.marks)


def test_calls_are_json_of_a_declared_tool():
    import json

    for number in range(40):
        item = case(tools.scene, "tools", Random(number), paraphrase=True)
        assert item.wanted.call is not None
        name, arguments = item.wanted.call
        declared = {tool["name"]: tool["parameters"] for tool in item.tools}
        assert set(arguments) == set(declared[name]["required"])
        chat = chat_of(item)
        written = decode(chat.ids[slice(*chat.answers[-1].payload)])
        spelled, _, call = written.partition("<|content_invoke_tool_json|>")
        assert spelled == name
        assert json.loads(call) == {"name": name, "args": dict(arguments)}
        question = next(step.text for step in item.steps if isinstance(step, Text))
        assert all(value in question for value in arguments.values())


def test_every_mark_is_one_token():
    words = [*grids.COLOURS, *grids.SHAPES, "empty", *"0123456789*#"]
    assert len({label(word) for word in words}) == len(words)
    with pytest.raises(ValueError, match="single"):
        label("harbourmaster")


def test_a_scene_that_cannot_fit_is_refused():
    with pytest.raises(ValueError, match="give it more"):
        SKILLS["grids"](Random(0), 20)


def test_every_maker_has_a_skill():
    assert set(MAKERS) < set(SKILLS)
    assert isinstance(case(MAKERS["grids"], "where", Random(3), paraphrase=True).wanted, Answer)
