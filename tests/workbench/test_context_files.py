"""Saved contexts: round trips, atomic writes, damage."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workbench.mixed_contexts import builders
from tests.workbench.samples_of import noise_image, tone
from tests.workbench.test_rendering import reply_of
from workbench import Context
from workbench.errors import ContextFileError
from workbench.media import encode_png, encode_wav
from workbench.parts import AudioPart, DocumentPart, ImagePart, Page, RecordingPart
from workbench.tokens import encode

BUILDERS = builders()


@pytest.mark.parametrize(
    "name", ["everything", "scanned pdf", "same image twice", "nothing", "tool call and result", "docx and xlsx"]
)
def test_round_trip(name: str, tmp_path: Path) -> None:
    context = BUILDERS[name](tmp_path)
    context.add_reply(reply_of(encode("an answer").tolist()))
    loaded = Context.load(context.save(tmp_path / "c.inkling"))
    one, two = context.render(), loaded.render()
    assert one.id == two.id
    assert one.spans == two.spans
    assert one.blobs == two.blobs
    assert context.budget() == loaded.budget()
    first = (tmp_path / "c.inkling").read_bytes()
    assert loaded.save(tmp_path / "d.inkling").read_bytes() == first


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=60), max_size=5), st.floats(0, 0.99))
@settings(deadline=None, max_examples=30)
def test_any_text_round_trips(tmp_path_factory: pytest.TempPathFactory, texts: list[str], effort: float) -> None:
    context = Context(effort=effort)
    for text in texts:
        context.add_text(text, name=text[:5])
    path = tmp_path_factory.mktemp("files") / "c.inkling"
    loaded = Context.load(context.save(path))
    assert [(part.text, part.name) for part in loaded.parts] == [(text, text[:5]) for text in texts]
    assert loaded.effort == context.effort


def test_blobs_are_kept_once(tmp_path: Path) -> None:
    context = BUILDERS["same image twice"](tmp_path)
    names = zipfile.ZipFile(context.save(tmp_path / "c.inkling")).namelist()
    assert len([name for name in names if name.endswith(".png")]) == 1


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context()
    context.ask("first")
    path = context.save(tmp_path / "c.inkling")
    before = path.read_bytes()
    context.ask("second")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("workbench.archives.os.fsync", full)
    with pytest.raises(ContextFileError, match="No space left"):
        context.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ContextFileError, match="cannot be written"):
        Context().save(tmp_path / "no" / "where.inkling")


def damaged(path: Path, member: str) -> None:
    """Flip one byte in the middle of a member's data."""
    with zipfile.ZipFile(path) as archive:
        info = next(item for item in archive.infolist() if item.filename.endswith(member))
    data = bytearray(path.read_bytes())
    data[info.header_offset + 30 + len(info.filename) + info.compress_size // 2] ^= 0x55
    path.write_bytes(data)


def test_a_damaged_file_names_what_is_lost_and_keeps_the_rest(tmp_path: Path) -> None:
    context = Context(system="kept")
    context.add_image(noise_image(50, 40), name="chart.png")
    context.add_audio(tone(0.2), rate_hz=16_000, name="call.wav")
    context.ask("kept too")
    path = context.save(tmp_path / "c.inkling")
    damaged(path, ".png")
    with pytest.raises(ContextFileError, match=r"lost: entry 0 \(image 'chart.png'\).*other 2 of 3") as caught:
        Context.load(path)
    assert len(caught.value.detail["losses"]) == 1
    rest = Context.load(path, salvage=True)
    assert [part.name for part in rest.parts] == ["call.wav", "question"]
    assert len(rest.losses) == 1


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_a_flipped_byte_is_found_or_harmless(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("flip")
    context = Context()
    context.add_image(noise_image(20, 20))
    context.ask("What is it?")
    path = context.save(folder / "c.inkling")
    raw = bytearray(path.read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)
    try:
        loaded = Context.load(path)
    except ContextFileError:
        return
    assert loaded.render().id == context.render().id


@pytest.mark.parametrize("cut", [0, 10, 200, -30])
def test_a_truncated_file_is_refused(cut: int, tmp_path: Path) -> None:
    context = Context()
    context.ask("x")
    path = context.save(tmp_path / "c.inkling")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ContextFileError, match="not a saved context"):
        Context.load(path)


def test_versions_and_strangers(tmp_path: Path) -> None:
    path = Context().save(tmp_path / "c.inkling")
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("context.json"))
    changes = (
        ({"version": 3}, "newer version"),
        ({"format": "other"}, "not a saved context"),
        ({"effort": "x"}, "not a saved context"),
    )
    for change, says in changes:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("context.json", json.dumps(manifest | change))
        with pytest.raises(ContextFileError, match=says):
            Context.load(path)
    with pytest.raises(ContextFileError, match="cannot be read"):
        Context.load(tmp_path / "none.inkling")


def test_pins_switches_recordings_and_pictures_are_kept(tmp_path: Path) -> None:
    clips = tuple(AudioPart(blob=encode_wav(tone(0.2, hz=300 + n)), name="call", start_s=n * 0.2) for n in range(2))
    picture = ImagePart(blob=encode_png(noise_image(20, 20)), width_px=20, height_px=20)
    context = Context()
    context.add(RecordingPart(name="call", clips=clips, notes=("cut",)))
    context.add(DocumentPart(name="n.ipynb", pages=(Page(text="[image 1]", number=2, title="cell 2", pictures=(picture,)),)))
    context.add_audio(tone(1.0), rate_hz=16_000, start_s=0.5)
    context.pin(1)
    context.disable(2)
    loaded = Context.load(context.save(tmp_path / "c.inkling"))
    assert loaded.items == context.items
    assert [entry.part.name for entry in loaded.items] == [entry.part.name for entry in context.items]
    assert loaded.render().spans == context.render().spans


def test_a_file_of_the_first_version_opens(tmp_path: Path) -> None:
    context = Context()
    context.add_text("hello", name="greeting")
    path = context.save(tmp_path / "c.inkling")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["context.json"])
    entry = {key: value for key, value in manifest["entries"][0].items() if key not in ("pinned", "disabled", "start_s", "clips")}
    old = manifest | {"version": 1, "entries": [entry | {"id": "sha256:" + "0" * 64}]}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (members | {"context.json": json.dumps(old).encode()}).items():
            archive.writestr(name, data)
    assert Context.load(path).parts == context.parts
