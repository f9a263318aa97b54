"""Spoken digits: clips by Debian's espeak-ng for training, and those that ship for evaluation, in voices that training never hears.

Training clips are made once (about two minutes) and kept in the user's cache. The held-out ones lie as FLAC files beside a manifest
in ``engine/demo/heldout``, because users have no espeak-ng; ``python -m engine.demo.train.skills.speech`` makes them again.
Every clip is 16 kHz, trimmed to where it sounds.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from engine.demo.train.skills.media import RATE_HZ
from engine.demo.train.skills.sounds import code
from engine.errors import EngineError
from engine.protocol.places import cache_folder

Clip = NDArray[np.float32]
"""Samples at 16 kHz, shape (n,)."""

HELD_OUT = Path(__file__).parents[2] / "heldout"
ACCENTS = ("en-gb", "en-us", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-rp", "en-gb-x-gbcwmd", "en-029", "en-us-nyc")
VOICES = (
    "m1", "m2", "m3", "m5", "m6", "m8", "f1", "f3", "f5", "Alex", "Alicia", "Andrea", "Andy", "Denis", "Diogo", "Gene", "Henrique",
    "Hugo", "Jacky", "Lee", "Marco", "Mario", "Mike", "adam", "anika", "antonio", "aunty", "belinda", "benjamin", "boris", "caleb",
    "david", "ed", "grandma", "grandpa", "gustave", "iven", "iven3", "john", "kaukovalta", "linda", "marcelo", "max", "michel",
    "miguel", "norbert", "pablo", "paul", "pedro", "quincy", "rob", "sandro", "shelby", "steph2", "travis", "victor", "zac",
)  # fmt: skip
HELD_OUT_VOICES = ("m4", "m7", "f2", "f4", "Annie", "Michael", "edward", "robert", "steph3", "iven2")
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SETTINGS_PER_VOICE, BREATHS = 4, 4


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to speak: accent, voice, words a minute, pitch 0 to 99."""

    accent: str
    voice: str
    speed: int
    pitch: int


@dataclass(frozen=True, slots=True, eq=False)
class Speaker:
    """Clips of one setting: the ten digits alone, and some strings spoken in one breath.

    Attributes
    ----------
    digits : tuple of ndarray of float32
        Zero to nine.
    breaths : tuple of (str, ndarray of float32)
    """

    setting: Setting
    digits: tuple[Clip, ...]
    breaths: tuple[tuple[str, Clip], ...]


def settings(voices: tuple[str, ...], each: int, seed: str) -> list[Setting]:
    """`each` settings of every voice."""
    random = Random(seed)
    return [
        Setting(random.choice(ACCENTS), voice, random.randint(115, 200), random.randint(25, 75))
        for voice in voices
        for _ in range(each)
    ]


def speak(setting: Setting, text: str) -> Clip:
    """One utterance by espeak-ng.

    Raises
    ------
    EngineError
        espeak-ng is not installed, or refuses.
    """
    import soundfile
    import soxr

    program = shutil.which("espeak-ng")
    if not program:
        raise EngineError("espeak-ng is needed to make speech for training: apt-get install espeak-ng")
    with TemporaryDirectory() as folder:
        path = f"{folder}/clip.wav"
        voice = ["-v", f"{setting.accent}+{setting.voice}", "-s", str(setting.speed), "-p", str(setting.pitch)]
        done = subprocess.run([program, *voice, "-w", path, text], capture_output=True, text=True, check=False)
        if done.returncode or not os.path.exists(path):
            raise EngineError(f"espeak-ng does not speak as {setting}: {done.stderr.strip()}")
        samples, rate = soundfile.read(path, dtype="float32")
    return _trimmed(soxr.resample(samples, rate, RATE_HZ).astype(np.float32))


def _trimmed(samples: Clip) -> Clip:
    loud = np.flatnonzero(np.abs(samples) > 0.02 * np.abs(samples).max())
    first, last = max(0, loud[0] - 160), min(len(samples), loud[-1] + 400)
    return samples[first:last] * (0.5 / np.abs(samples).max())


def _speaker(setting: Setting, breaths: list[str]) -> Speaker:
    digits = tuple(speak(setting, word) for word in WORDS)
    spoken = tuple((text, speak(setting, " ".join(WORDS[int(d)] for d in text))) for text in breaths)
    return Speaker(setting, digits, spoken)


def _speakers(chosen: list[Setting], breaths: list[list[str]]) -> list[Speaker]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(_speaker, chosen, breaths))


@lru_cache(1)
def training_speakers() -> tuple[Speaker, ...]:
    """All training speakers, from the cache or made now."""
    chosen = settings(VOICES, SETTINGS_PER_VOICE, "speech for training")
    name = hashlib.sha256(repr([chosen, BREATHS, 1]).encode()).hexdigest()[:12]
    path = cache_folder() / f"speech-{name}.npz"
    if not path.exists():
        random = Random("breaths for training")
        breaths = [[code(random, False, (2, 5)) for _ in range(BREATHS)] for _ in chosen]
        _keep(path, _speakers(chosen, breaths))
    return _kept(path, chosen)


def _keep(path: Path, speakers: list[Speaker]) -> None:
    clips = [clip for s in speakers for clip in (*s.digits, *(clip for _, clip in s.breaths))]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial.npz")
    np.savez(
        partial,
        samples=np.concatenate([(clip * 32_767).round().astype(np.int16) for clip in clips]),
        lengths=np.array([len(clip) for clip in clips]),
        breaths=np.array([text for s in speakers for text, _ in s.breaths]),
    )
    os.replace(partial, path)


def _kept(path: Path, chosen: list[Setting]) -> tuple[Speaker, ...]:
    with np.load(path) as kept:
        samples, lengths, breaths = kept["samples"], kept["lengths"], [str(text) for text in kept["breaths"]]
    clips: list[Clip] = [(clip / 32_768).astype(np.float32) for clip in np.split(samples, np.cumsum(lengths)[:-1])]
    each = 10 + BREATHS
    return tuple(
        Speaker(
            setting,
            tuple(clips[i * each : i * each + 10]),
            tuple(zip(breaths[i * BREATHS : (i + 1) * BREATHS], clips[i * each + 10 : (i + 1) * each], strict=True)),
        )
        for i, setting in enumerate(chosen)
    )


@lru_cache(1)
def held_out_speakers(folder: Path = HELD_OUT) -> tuple[Speaker, ...]:
    """The speakers that ship for evaluation.

    Raises
    ------
    EngineError
        A file is missing or is not what the manifest says.
    """
    import soundfile

    speakers = []
    for entry in json.loads((folder / "manifest.json").read_text("utf-8"))["speakers"]:
        content = (folder / entry["file"]).read_bytes() if (folder / entry["file"]).exists() else b""
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise EngineError(f"{folder / entry['file']} is missing or damaged: install the package again", path=entry["file"])
        samples, _ = soundfile.read(folder / entry["file"], dtype="float32")
        clips: list[Clip] = [clip.astype(np.float32) for clip in np.split(samples, np.cumsum(entry["lengths"])[:-1])]
        setting = Setting(entry["accent"], entry["voice"], entry["speed"], entry["pitch"])
        speakers.append(Speaker(setting, tuple(clips[:10]), tuple(zip(entry["breaths"], clips[10:], strict=True))))
    return tuple(speakers)


def write_held_out() -> None:
    """Make the held-out files with espeak-ng."""
    import soundfile

    random, entries = Random("breaths held out"), []
    chosen = settings(HELD_OUT_VOICES, 1, "speech held out")
    breaths = [[code(random, True, (3, 5)) for _ in range(2)] for _ in chosen]
    HELD_OUT.mkdir(parents=True, exist_ok=True)
    for speaker in _speakers(chosen, breaths):
        clips = [*speaker.digits, *(clip for _, clip in speaker.breaths)]
        name = f"{speaker.setting.voice.lower()}.flac"
        soundfile.write(HELD_OUT / name, np.concatenate(clips), RATE_HZ, subtype="PCM_16", format="FLAC")
        entries.append({
            "file": name, "sha256": hashlib.sha256((HELD_OUT / name).read_bytes()).hexdigest(),
            "accent": speaker.setting.accent, "voice": speaker.setting.voice, "speed": speaker.setting.speed,
            "pitch": speaker.setting.pitch, "lengths": [len(clip) for clip in clips],
            "breaths": [text for text, _ in speaker.breaths],
        })  # fmt: skip
    made = {"made_by": "espeak-ng", "rate_hz": RATE_HZ, "order": "digits zero to nine, then the strings", "speakers": entries}
    (HELD_OUT / "manifest.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_held_out()
