"""Touch tones and plain tones: which keys, how many tones, which is highest.

Half of the touch-tone recordings are made as the bundled sample is (150 ms of tone, 100 ms of gap, 100 ms before); the others vary
lengths, loudness and noise. Source of the frequencies: ITU-T Q.23.
"""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

from engine.demo.train.skills.items import Scene, Sound, Step, Text, drawn_for, it_is
from engine.demo.train.skills.media import RATE_HZ
from engine.demo.train.skills.wordings import DIALLED, HIGHEST, LOWEST, TONES

ROWS_HZ, COLUMNS_HZ, KEYS = (697, 770, 852, 941), (1209, 1336, 1477), ("123", "456", "789", "*0#")
TONE_S, GAP_S, LEAD_S, AMPLITUDE = 0.15, 0.10, 0.10, 0.25
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")


def code(random: Random, held_out: bool, lengths: tuple[int, int], alphabet: str = "0123456789") -> str:
    """A string of digits or keys of one side; those of one sign belong to both."""
    while True:
        text = "".join(random.choice(alphabet) for _ in range(random.randint(*lengths)))
        if len(text) == 1 or drawn_for(f"digits {text}", held_out):
            return text


def tone(hertz: tuple[float, ...], seconds: float, amplitude: float) -> NDArray[np.float64]:
    """A sum of sines [n]."""
    time_s = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    return sum((amplitude * np.sin(2 * np.pi * hz * time_s) for hz in hertz), np.zeros(len(time_s)))


def key_hertz(key: str) -> tuple[int, int]:
    """The two frequencies of a key."""
    row = next(index for index, keys in enumerate(KEYS) if key in keys)
    return ROWS_HZ[row], COLUMNS_HZ[KEYS[row].index(key)]


def silence(seconds: float) -> NDArray[np.float64]:
    """Samples of nothing [n]."""
    return np.zeros(round(seconds * RATE_HZ))


def dial(keys: str, random: Random | None = None) -> Sound:
    """Touch tones of `keys`, varied by `random` or exactly as the bundled sample is made; each key's last frame is marked."""
    tone_s, gap_s, lead_s, amplitude, noise = TONE_S, GAP_S, LEAD_S, AMPLITUDE, 0.0
    if random:
        tone_s, gap_s = random.uniform(0.1, 0.3), random.uniform(0.08, 0.25)
        lead_s, amplitude, noise = random.uniform(0.0, 0.5), 10 ** random.uniform(-1.3, -0.35), 10 ** random.uniform(-4.5, -2.3)
    pieces, marks, at = [silence(lead_s)], [], lead_s
    for key in keys:
        pieces += [tone(key_hertz(key), tone_s, amplitude), silence(gap_s)]
        marks.append((at + tone_s - 1 / RATE_HZ, key))
        at += tone_s + gap_s
    return Sound(finished(np.concatenate(pieces), noise, random), tuple(marks))


def finished(samples: NDArray[np.float64], noise: float, random: Random | None) -> NDArray[np.float32]:
    """Samples with white noise, within [-1, 1], rounded to 16 bits as a file would hold them."""
    if random and noise:
        samples = samples + noise * np.random.default_rng(random.getrandbits(32)).standard_normal(len(samples))
    return ((np.clip(samples, -1, 1) * 32_767).round() / 32_768).astype(np.float32)


def dialled(random: Random, *, held_out: bool, level: float, room: int) -> Scene:
    """A dialled code of one to eight keys."""
    most = max(1, min(round(1 + 7 * level), (room - 10) // 8))
    least = 1 if random.random() < 0.2 or most < 3 else 3
    keys = code(random, held_out, (least if not held_out else min(2, most), most), "0123456789" * 6 + "*#")
    return dialled_scene(keys, random)


def dialled_scene(keys: str, random: Random) -> Scene:
    """A recording of `keys` and the question for them."""
    sound = dial(keys, None if random.random() < 0.5 else random)

    def ask(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        return Text(DIALLED.ask(random, paraphrase)), it_is(keys, "dtmf", spelled=True)

    return Scene((sound,), ((1.0, "dtmf", ask),))


def tones(random: Random, *, held_out: bool, level: float, room: int) -> Scene:
    """One to six tones a fourth or more apart: how many, which is highest, which lowest."""
    most = max(1, min(round(2 + 4 * level), (room - 10) // 8))
    while True:
        count = random.randint(1, most)
        ladder = [220 * 2 ** (step * 5 / 12) for step in range(7)]
        pitches = random.sample(range(len(ladder)), count)
        if count < 3 or drawn_for(f"tones {pitches}", held_out):
            break
    tune = 2 ** random.uniform(-0.15, 0.15)
    pieces, marks, at = [silence(lead := random.uniform(0, 0.4))], [], lead
    for number, step in enumerate(pitches, 1):
        tone_s, gap_s = random.uniform(0.2, 0.5), random.uniform(0.15, 0.4)
        pieces += [tone((ladder[step] * tune,), tone_s, 10 ** random.uniform(-1.0, -0.3)), silence(gap_s)]
        marks.append((at + tone_s - 1 / RATE_HZ, str(number)))
        at += tone_s + gap_s
    sound = Sound(finished(np.concatenate(pieces), 10 ** random.uniform(-4.5, -2.5), random), tuple(marks))
    high, low = ORDINALS[pitches.index(max(pitches))], ORDINALS[pitches.index(min(pitches))]

    def counted(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        return Text(TONES.ask(random, paraphrase)), it_is(str(count), "tones", spelled=True)

    def highest(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        return Text(HIGHEST.ask(random, paraphrase)), it_is(f"the {high}", "pitch")

    def lowest(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        return Text(LOWEST.ask(random, paraphrase)), it_is(f"the {low}", "pitch")

    order = ((0.3, "pitch", highest), (0.3, "pitch", lowest)) if count > 1 else ()
    return Scene((sound,), ((0.4, "tones", counted), *order), questions=2)
