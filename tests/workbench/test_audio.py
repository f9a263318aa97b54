"""Recordings: one rate, one channel, the right scale and the right length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from tests.workbench.samples_of import recording, tone
from workbench import Context
from workbench.errors import MediaTooLarge, SourceError, SourceMissing, SourceUnknown, SourceUnreadable
from workbench.media import decode_wav, encode_wav
from workbench.readers import read_audio


def peak_hz(samples: np.ndarray) -> float:
    return float(np.abs(np.fft.rfft(samples)).argmax() * 16_000 / len(samples))


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3", "aiff"])
@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 44_100, 48_000])
def test_kinds_and_rates(suffix: str, rate_hz: int, tmp_path: Path) -> None:
    part = read_audio(recording(tmp_path / f"a.{suffix}", tone(1.0, rate_hz), rate_hz))
    samples = decode_wav(part.blob)
    # Lossy coders may pad a frame at the end; every second is 20 tokens, at any rate.
    assert 20 <= part.tokens <= (22 if suffix == "mp3" else 20)
    assert peak_hz(samples) == pytest.approx(440, abs=2)
    # 0.5 sine: RMS 0.354; 5 % for lossy coders and the resampler's edges.
    assert np.sqrt(np.mean(samples[1000:15000] ** 2)) == pytest.approx(0.3536, rel=0.05)


def test_resampling_equals_soxr(tmp_path: Path) -> None:
    samples = np.random.default_rng(1).uniform(-0.9, 0.9, 44_100).astype(np.float32)
    part = read_audio(recording(tmp_path / "a.wav", samples, 44_100, subtype="FLOAT"))
    assert (decode_wav(part.blob) == soxr.resample(samples, 44_100, 16_000)).all()


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "PCM_32", "PCM_U8", "FLOAT", "DOUBLE"])
def test_every_width_has_the_same_scale(subtype: str, tmp_path: Path) -> None:
    part = read_audio(recording(tmp_path / "a.wav", tone(0.5), subtype=subtype))
    # One step of the coarsest format, 8 bits.
    assert np.abs(decode_wav(part.blob) - tone(0.5)).max() <= 1 / 128


def test_stereo_is_averaged_over_channels_never_over_time(tmp_path: Path) -> None:
    left, right = tone(0.1), 0.25 * tone(0.1, hz=880)
    stereo = np.stack([left, right], axis=1)
    expected = stereo.mean(axis=1)
    found = [read_audio(stereo, rate_hz=16_000), read_audio(stereo.T, rate_hz=16_000), read_audio((16_000, stereo)),
             read_audio(recording(tmp_path / "s.wav", stereo, subtype="FLOAT"))]  # fmt: skip
    for part in found:
        # float64 mean here, float32 there.
        assert np.abs(decode_wav(part.blob) - expected).max() < 1e-7
    # Opposite channels cancel; a mean over time would have given one sample per channel.
    silent = read_audio(np.stack([np.ones(1600), -np.ones(1600)]), rate_hz=16_000)
    assert (silent.samples, silent.tokens, np.abs(decode_wav(silent.blob)).max()) == (1600, 2, 0)


def test_integer_arrays_are_scaled_by_their_range() -> None:
    half = {np.int16: 16_384, np.int32: 1 << 30, np.int8: 64, np.uint8: 192}
    for dtype, value in half.items():
        assert (decode_wav(read_audio(np.full(10, value, dtype), rate_hz=16_000).blob) == 0.5).all()


@pytest.mark.parametrize(
    ("values", "rate_hz", "says"),
    [
        (np.zeros(10), None, "needs its rate"),
        (np.zeros(0), 16_000, "at least one frame"),
        (np.zeros((2, 3)), 16_000, "does not tell frames from channels"),
        (np.zeros((100, 100)), 16_000, "does not tell frames from channels"),
        (np.array([0, np.nan]), 16_000, "no numbers"),
        (np.array([1j]), 16_000, "no samples"),
        (np.zeros(1), 96_000, "shorter than one"),
    ],
)
def test_bad_arrays(values: np.ndarray, rate_hz: int | None, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        read_audio(values, rate_hz=rate_hz)


@pytest.mark.parametrize(
    ("name", "content", "error", "says"),
    [
        ("missing.wav", None, SourceMissing, "no such file"),
        ("empty.wav", b"", SourceUnreadable, "empty"),
        ("text.wav", b"hello there, no sound", SourceUnreadable, "convert it to WAV"),
        ("voice.m4a", b"\0\0\0\x1cftypM4A ", SourceUnknown, "convert it to WAV"),
    ],
)
def test_bad_files(name: str, content: bytes | None, error: type, says: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    context = Context()
    with pytest.raises(error, match=says):
        context.add_audio(tmp_path / name)
    assert context.parts == ()


def test_a_wav_without_samples(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match="without samples"):
        read_audio(recording(tmp_path / "none.wav", np.zeros(0, np.float32)))


def test_the_clip_limit_is_exact(tmp_path: Path) -> None:
    part = read_audio(recording(tmp_path / "ok.wav", np.zeros(600 * 16_000, np.int16)))
    assert (part.duration_s, part.tokens) == (600.0, 12_000)
    with pytest.raises(MediaTooLarge, match=r"600\.05 s are 12,001 audio tokens, over the limit of 12,000 tokens \(600 s\)"):
        read_audio(recording(tmp_path / "long.wav", np.zeros(round(600.05 * 16_000), np.int16)))
    with pytest.raises(MediaTooLarge, match="over the limit of 12,000"):
        read_audio(np.zeros(601 * 8_000, np.int16), rate_hz=8_000)


def test_canonical_wavs_read_back_everywhere(tmp_path: Path) -> None:
    (tmp_path / "c.wav").write_bytes(encode_wav(tone(0.2)))
    samples, rate = soundfile.read(tmp_path / "c.wav", dtype="float32")
    assert rate == 16_000
    assert (samples == tone(0.2)).all()
    assert encode_wav(tone(0.2)) == encode_wav(tone(0.2))
