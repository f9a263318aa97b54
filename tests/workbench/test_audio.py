"""Recordings: one rate, one channel, the right scale and the right length."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workbench.samples_of import recording, tone
from workbench import Context
from workbench.errors import MediaTooLarge, SourceError, SourceMissing, SourceUnknown, SourceUnreadable
from workbench.media import audio_tokens, decode_wav, encode_wav
from workbench.parts import RecordingPart
from workbench.place_tokens import tokens_of_time
from workbench.readers import read_audio
from workbench.readers.silences import cuts
from workbench.token_places import places_of


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
        read_audio(recording(tmp_path / "long.wav", np.zeros(round(600.05 * 16_000), np.int16)), split=False)
    with pytest.raises(MediaTooLarge, match="over the limit of 12,000"):
        read_audio(np.zeros(601 * 8_000, np.int16), rate_hz=8_000, split=False)


def test_canonical_wavs_read_back_everywhere(tmp_path: Path) -> None:
    (tmp_path / "c.wav").write_bytes(encode_wav(tone(0.2)))
    samples, rate = soundfile.read(tmp_path / "c.wav", dtype="float32")
    assert rate == 16_000
    assert (samples == tone(0.2)).all()
    assert encode_wav(tone(0.2)) == encode_wav(tone(0.2))


def talk(seconds: float, pauses_s: list[float], rate_hz: int = 16_000) -> np.ndarray:
    """Noise with pauses of half a second at the given moments, as int16."""
    noise = np.random.default_rng(0).normal(0, 0.1, round(seconds * rate_hz)).clip(-1, 1)
    for pause in pauses_s:
        noise[round(pause * rate_hz) : round((pause + 0.5) * rate_hz)] *= 1e-4
    return (noise * 32767).astype(np.int16)


def test_a_long_recording_is_cut_in_its_pauses_and_time_goes_on(tmp_path: Path) -> None:
    samples = talk(1_300, [300, 570.2, 580, 1_150, 1_280])
    part = read_audio(recording(tmp_path / "long.flac", samples))
    assert isinstance(part, RecordingPart)
    assert part.notes == ()
    edges = [clip.start_s for clip in part.clips[1:]]
    # The last pause within the last tenth of each clip's 600 s: 580 s, then one at most 600 s later.
    assert 580 < edges[0] < 580.5
    assert 1_150 < edges[1] < 1_150.5
    assert all(round(edge * 20, 6).is_integer() for edge in edges)
    assert [clip.stop_s for clip in part.clips[:-1]] == pytest.approx(edges)
    assert all(clip.tokens <= 12_000 for clip in part.clips)
    assert part.tokens == audio_tokens(len(samples))
    joined = np.concatenate([decode_wav(clip.blob) for clip in part.clips])
    assert (joined == samples.astype(np.float32) / 32768).all()
    context = Context()
    context.add(part)
    rendered = context.render()
    times = places_of(rendered).seconds
    times = times[~np.isnan(times[:, 0])]
    assert np.allclose(times[:, 0], np.arange(26_000) / 20)
    first, last = tokens_of_time(rendered, part.id, [edges[0] - 0.1], [edges[0] + 0.1])[0]
    assert {span.message for span in rendered.spans if span.start < last and span.stop > first} == {2, 3}


def test_a_cut_without_a_pause_is_made_and_said() -> None:
    part = read_audio(talk(610, []), rate_hz=16_000)
    assert isinstance(part, RecordingPart)
    assert "no silence to cut in at" in part.notes[0]
    assert sum(clip.samples for clip in part.clips) == 610 * 16_000
    # No stub at the end: a tenth of a clip at least.
    assert min(clip.tokens for clip in part.clips) >= 1_200


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3"])
def test_a_stretch_of_a_recording_keeps_its_time(suffix: str, tmp_path: Path) -> None:
    whole = np.concatenate([tone(1.0, 44_100), np.zeros(44_100, np.float32), tone(1.0, 44_100, hz=880)])
    part = read_audio(recording(tmp_path / f"a.{suffix}", whole, 44_100), start_s=2.1, stop_s=2.6)
    assert (part.start_s, part.duration_s) == (pytest.approx(2.1), pytest.approx(0.5))
    spectrum = np.abs(np.fft.rfft(decode_wav(part.blob)))
    assert spectrum.argmax() / part.duration_s == pytest.approx(880, abs=4)
    context = Context()
    context.add(part)
    seconds = [span.locator for span in context.render().spans if span.modality == "audio"]
    assert (seconds[0].start_s, seconds[0].stop_s) == (pytest.approx(2.1), pytest.approx(2.6))


@pytest.mark.parametrize(
    ("stretch", "says"),
    [({"start_s": 2.0}, "no stretch from 2 s"), ({"start_s": 0.5, "stop_s": 0.5}, "no stretch"), ({"start_s": -1.0}, "no stretch"),
     ({"stop_s": 1.5}, r"ends at 1\.00 s, before 1\.5 s")],
)  # fmt: skip
def test_a_stretch_outside_the_recording(stretch: dict[str, float], says: str) -> None:
    with pytest.raises(SourceError, match=says):
        read_audio(tone(1.0), rate_hz=16_000, **stretch)


def test_a_recording_longer_than_any_context_is_refused_before_any_work() -> None:
    hours = np.broadcast_to(np.float32(0), (16 * 3600 * 16_000,))
    with pytest.raises(MediaTooLarge, match=r"1,152,000 audio tokens.*more than any context holds: take a stretch"):
        read_audio(hours, rate_hz=16_000)
    assert read_audio(hours, rate_hz=16_000, start_s=3600, stop_s=3601).tokens == 20


@given(st.integers(1, 40), st.integers(6, 12), st.integers(0, 799), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_cuts_keep_every_clip_within_the_limit(hops: int, clip_tokens: int, rest: int, seed: int) -> None:
    samples = np.random.default_rng(seed).normal(0, 1, hops * 800 + rest).astype(np.float32)
    found, _ = cuts(samples, clip_tokens)
    edges = [0, *found, len(samples)]
    assert all(edge % 800 == 0 for edge in found)
    assert all(0 < audio_tokens(last - first) <= clip_tokens for first, last in pairwise(edges))
