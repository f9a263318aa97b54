"""Digits spoken aloud: which are said. Training varies voice, pace, loudness, colour and noise of the clips."""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

from engine.demo.train.skills.items import Scene, Sound, Step, Text, it_is
from engine.demo.train.skills.media import RATE_HZ
from engine.demo.train.skills.sounds import code, finished, silence
from engine.demo.train.skills.speech import Speaker, held_out_speakers, training_speakers
from engine.demo.train.skills.wordings import SPOKEN

LONGEST_S = 30.0


def say(digits: str, speaker: Speaker, random: Random, *, varied: bool, room_s: float = LONGEST_S) -> Sound:
    """`digits` by one speaker with pauses; each digit's end is marked.

    Parameters
    ----------
    varied : bool
        Bend pace and colour of the clips, as training does.
    room_s : float
        Longest recording; pauses shrink to fit.
    """
    clips = [speaker.digits[int(digit)] for digit in digits]
    if varied:
        rate, tilt = random.uniform(0.87, 1.15), random.uniform(-0.5, 0.7)
        clips = [_bent(clip, rate, tilt) for clip in clips]
    spoken_s = sum(map(len, clips)) / RATE_HZ
    spare = max(0.0, room_s - spoken_s) / (len(clips) + 1)
    longest = 3.0 if random.random() < 0.05 else 0.35
    pauses = [min(random.uniform(0.02, longest), spare) for _ in range(len(clips) + 1)]
    pieces, marks, at = [silence(pauses[0])], [], pauses[0]
    for digit, clip, pause in zip(digits, clips, pauses[1:], strict=True):
        at += len(clip) / RATE_HZ
        marks.append((at - 0.01, digit))
        pieces += [clip.astype(np.float64), silence(pause)]
        at += len(pieces[-1]) / RATE_HZ
    return Sound(_leveled(np.concatenate(pieces), random), tuple(marks))


def breath(clip: NDArray[np.float32], random: Random, *, varied: bool) -> Sound:
    """A string spoken in one breath, with a pause before and after."""
    if varied:
        clip = _bent(clip, random.uniform(0.87, 1.15), random.uniform(-0.5, 0.7))
    pieces = [silence(random.uniform(0, 0.3)), clip.astype(np.float64), silence(random.uniform(0, 0.3))]
    return Sound(_leveled(np.concatenate(pieces), random))


def _bent(clip: NDArray[np.float32], rate: float, tilt: float) -> NDArray[np.float32]:
    at = np.arange(0, len(clip) - 1, rate)
    bent = np.interp(at, np.arange(len(clip)), clip)
    bent[1:] += tilt * bent[:-1]
    return (bent * (0.5 / max(1e-3, float(np.abs(bent).max())))).astype(np.float32)


def _leveled(samples: NDArray[np.float64], random: Random) -> NDArray[np.float32]:
    return finished(samples * 10 ** random.uniform(-0.7, 0.2), 10 ** random.uniform(-4.5, -2.6), random)


def spoken(random: Random, *, held_out: bool, level: float, room: int) -> Scene:
    """A spoken number of one to five digits, at most about 30 s."""
    most = max(1, min(round(1 + 4 * level), (room - 4) // 13))
    speaker = random.choice(held_out_speakers() if held_out else training_speakers())
    fitting = [one for one in speaker.breaths if len(one[0]) <= most]
    if not held_out and fitting and random.random() < 0.3:
        digits, clip = random.choice(fitting)
        sound = breath(clip, random, varied=True)
    else:
        digits = code(random, held_out, (min(2, most) if held_out else 1, most))
        sound = say(digits, speaker, random, varied=not held_out, room_s=min(LONGEST_S, room / 20))

    def ask(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        return Text(SPOKEN.ask(random, paraphrase)), it_is(digits, "spoken", spelled=True)

    return Scene((sound,), ((1.0, "spoken", ask),))


def in_one_breath(random: Random, *, held_out: bool, level: float, room: int) -> Scene:
    """A held-out string exactly as espeak-ng spoke it."""
    del held_out, level, room
    digits, clip = random.choice([one for speaker in held_out_speakers() for one in speaker.breaths])
    sound = breath(clip, random, varied=False)

    def ask(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        return Text(SPOKEN.ask(random, paraphrase)), it_is(digits, "spoken in one breath", spelled=True)

    return Scene((sound,), ((1.0, "spoken in one breath", ask),))
