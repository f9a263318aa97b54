"""Images: what a reader returns is what the model sees."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from PIL import Image

from tests.workbench.samples_of import noise_image
from workbench import Context
from workbench.errors import MediaTooLarge, SourceError, SourceMissing, SourceUnknown, SourceUnreadable
from workbench.media import compressed_png, decode_png, encode_png
from workbench.readers import read_image


def pixels(part) -> np.ndarray:
    return np.asarray(decode_png(part.blob))


@pytest.mark.parametrize("suffix", ["png", "webp", "tif", "bmp", "ppm", "gif"])
def test_lossless_kinds_keep_every_pixel(suffix: str, tmp_path: Path) -> None:
    picture = noise_image(31, 17).quantize(64).convert("RGB") if suffix == "gif" else noise_image(31, 17)
    picture.save(tmp_path / f"a.{suffix}", **({"lossless": True} if suffix == "webp" else {}))
    part = read_image(tmp_path / f"a.{suffix}")
    assert (pixels(part) == np.asarray(picture)).all()
    assert (part.width_px, part.height_px, part.name) == (31, 17, f"a.{suffix}")
    # The same pixels are the same part, whatever file they came in.
    assert part == read_image(picture)


def test_jpeg_is_decoded_once(tmp_path: Path) -> None:
    noise_image(40, 24).save(tmp_path / "a.jpg", quality=90)
    assert (pixels(read_image(tmp_path / "a.jpg")) == np.asarray(Image.open(tmp_path / "a.jpg").convert("RGB"))).all()


def test_exif_orientation_is_applied(tmp_path: Path) -> None:
    picture = noise_image(30, 20)
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.save(tmp_path / "turned.png", exif=exif)
    part = read_image(tmp_path / "turned.png")
    assert (part.width_px, part.height_px) == (20, 30)
    assert (pixels(part) == np.asarray(picture.rotate(-90, expand=True))).all()


def test_transparency_lies_on_white(tmp_path: Path) -> None:
    for mode, colour in (("RGBA", (255, 0, 0, 0)), ("LA", (7, 0))):
        assert (pixels(read_image(Image.new(mode, (4, 4), colour))) == 255).all()
    palette = Image.new("P", (4, 4), 0)
    palette.putpalette([0, 0, 0, 10, 20, 30])
    palette.save(tmp_path / "p.png", transparency=0)
    assert (pixels(read_image(tmp_path / "p.png")) == 255).all()


def test_sixteen_bits_are_scaled_not_clipped(tmp_path: Path) -> None:
    values = np.linspace(0, 65_535, 256, dtype=np.uint16).reshape(16, 16)
    Image.fromarray(values).save(tmp_path / "deep.png")
    expected = np.arange(256, dtype=np.uint8).reshape(16, 16)
    for source in (tmp_path / "deep.png", values):
        assert (pixels(read_image(source))[:, :, 0] == expected).all()


def test_arrays() -> None:
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert (pixels(read_image(grey))[:, :, 2] == grey).all()
    assert (pixels(read_image(np.full((2, 2, 3), 0.5))) == 128).all()
    assert (pixels(read_image(np.eye(3, dtype=bool)))[0, 0] == 255).all()
    for bad, says in ((np.zeros((3, 20, 20), np.uint8), "move the channels"), (np.full((2, 2), 1.5), "no pixels"),
                      (np.full((2, 2), np.nan), "no pixels"), (np.zeros((0, 3), np.uint8), "shape"),
                      (np.full((2, 2), -1), "no pixels")):  # fmt: skip
        with pytest.raises(SourceError, match=says):
            read_image(bad)


def test_animations_ask_for_a_frame(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ((255, 0, 0), (0, 0, 255))]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(SourceError, match=r"2 frames: say which one \(frame=0 to 1\)"):
        read_image(tmp_path / "a.gif")
    assert tuple(pixels(read_image(tmp_path / "a.gif", frame=1))[0, 0]) == (0, 0, 255)
    with pytest.raises(SourceError, match="no frame 2"):
        read_image(tmp_path / "a.gif", frame=2)


@pytest.mark.parametrize(
    ("name", "content", "error", "says"),
    [
        ("missing.png", None, SourceMissing, "no such file"),
        ("empty.png", b"", SourceUnreadable, r"empty \(0 bytes\)"),
        ("text.png", b"hello there", SourceUnknown, "convert it to PNG"),
        ("photo.heic", b"\0\0\0\x18ftypheic", SourceUnknown, "convert it to PNG"),
    ],
)
def test_bad_images(name: str, content: bytes | None, error: type, says: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    context = Context()
    with pytest.raises(error, match=says):
        context.add_image(tmp_path / name)
    assert context.parts == ()


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_a_truncated_image_is_refused(suffix: str, tmp_path: Path) -> None:
    noise_image(200, 200).save(tmp_path / f"a.{suffix}")
    data = (tmp_path / f"a.{suffix}").read_bytes()
    (tmp_path / f"a.{suffix}").write_bytes(data[: len(data) // 2])
    with pytest.raises(SourceUnreadable, match="damaged image"):
        read_image(tmp_path / f"a.{suffix}")


def test_an_absurd_image_is_refused(tmp_path: Path) -> None:
    Image.new("1", (20_000, 20_000)).save(tmp_path / "bomb.png")
    with pytest.raises(MediaTooLarge, match="make it smaller"):
        read_image(tmp_path / "bomb.png")


def test_a_large_image_is_noted_before_it_is_sent() -> None:
    context = Context()
    context.add_image(Image.new("RGB", (8000, 6000), (9, 9, 9)), name="plan.png")
    budget = context.budget()
    assert budget.by_modality()["image"] == 150 * 201
    assert any("plan.png costs 30,150 tokens" in note for note in budget.notes)


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (700, 40), (333, 257)])
def test_canonical_pngs_are_the_pixels_alone_and_read_back_everywhere(size: tuple[int, int]) -> None:
    image = noise_image(*size)
    image.info["dpi"] = (300, 300)
    blob = encode_png(image)
    with Image.open(io.BytesIO(blob)) as again:
        again.load()
        assert (again.mode, again.size, again.info) == ("RGB", size, {})
        assert again.tobytes() == image.tobytes()
    assert matplotlib.image.imread(io.BytesIO(blob), format="png").shape == (size[1], size[0], 3)
    assert encode_png(noise_image(*size)) == blob
    small = compressed_png(blob)
    assert decode_png(small).tobytes() == image.tobytes()
