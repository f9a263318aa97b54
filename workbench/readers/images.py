"""Images of any kind Pillow reads, PIL objects and arrays, to canonical RGB.

Turned as EXIF says; transparency laid on white (as vLLM's own loader does); 16-bit values scaled by their full range, where a plain
conversion would clip them to white. What this returns is what the model sees, before the engine's resize.
"""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import MediaTooLarge, SourceError, SourceUnknown
from ..media import decode_png, encode_png
from ..parts import DocumentPart, ImagePart, Page
from .options import Options
from .sources import FOREIGN, REMEDY, Source, load

if TYPE_CHECKING:
    from PIL.Image import Image


def read(source: Any, *, name: str | None = None, frame: int | None = None) -> ImagePart:
    """The image part of a file, bytes, PIL image or array; see :meth:`workbench.Context.add_image`."""
    from PIL import Image

    if isinstance(source, Image.Image):
        return part_of(to_rgb(source), name or "image")
    if isinstance(source, np.ndarray):
        return part_of(_from_array(source, name or "image"), name or "image")
    return from_file(load(source, name=name, default="image"), frame)


def part_of(image: Image, name: str) -> ImagePart:
    """The part of an RGB image."""
    return ImagePart(blob=encode_png(image), width_px=image.width, height_px=image.height, name=name)


def from_file(source: Source, frame: int | None) -> ImagePart:
    """The image part of a file's bytes; `frame` from 0."""
    with _opened(source) as image:
        _seek(image, source, frame)
        image.load()
        return part_of(to_rgb(image), source.name)


def frames(source: Source, options: Options) -> DocumentPart | None:
    """A multi-page TIFF or an animation as a document of one page per frame; None for a single picture."""
    with _opened(source) as image:
        if not _several(image):
            return None
        options.refuse(source, "password", "encoding", "show", "sheets", "cells")
        total = image.n_frames  # pyright: ignore[reportAttributeAccessIssue]
        pages: list[Page] = []
        for number in options.chosen(total, source, "frame"):
            options.tell(f"{source.name}, frame {number}", number - 1, total)
            image.seek(number - 1)
            label = f"frame {number}"
            picture = part_of(to_rgb(image.copy()), f"{source.name}, {label}")
            pages.append(Page(text="", number=number, title=label, image=picture))
    return DocumentPart(name=source.name, pages=tuple(pages))


def resized(part: ImagePart, long_edge_px: int) -> ImagePart:
    """A smaller (or larger) image of the same shape, by Lanczos; see :mod:`workbench.image_costs` for what it saves."""
    from PIL import Image

    if long_edge_px < 1:
        raise SourceError(f"{part.name}: a long edge of {long_edge_px} px: at least 1")
    scale = long_edge_px / max(part.width_px, part.height_px)
    size = max(1, round(part.width_px * scale)), max(1, round(part.height_px * scale))
    return part_of(decode_png(part.blob).resize(size, Image.Resampling.LANCZOS), part.name)


@contextmanager
def _opened(source: Source) -> Iterator[Image]:
    """The image in a file, and one error for everything that can be wrong with it."""
    from PIL import Image, UnidentifiedImageError

    what = FOREIGN.get(source.suffix)
    try:
        with warnings.catch_warnings():
            # Large pictures are counted and noted by the budget; Pillow still refuses the absurd ones.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(source.data)) as image:
                yield image
    except UnidentifiedImageError as problem:
        hint = REMEDY.get(what or "image", REMEDY["image"])
        raise SourceUnknown(
            f"{source.name}: not an image that can be read: {hint}", path=source.path, name=source.name
        ) from problem
    except Image.DecompressionBombError as problem:
        raise MediaTooLarge(f"{source.name}: {problem}: make it smaller", path=source.path, name=source.name) from problem
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error) as problem:
        # Pillow's plugins raise all of these for damaged files.
        raise source.unreadable(f"a damaged image ({problem}): save it again in its program") from problem


def _several(image: Image) -> bool:
    # A phone's MPO is one picture with extras; an icon holds one picture in sizes.
    return getattr(image, "n_frames", 1) > 1 and image.format not in ("MPO", "ICO", "ICNS")


def _seek(image: Image, source: Source, frame: int | None) -> None:
    frames = getattr(image, "n_frames", 1)
    if _several(image) and frame is None:
        why = f"{frames} frames: say which one (frame=0 to {frames - 1}), or add_document (--doc) takes them all"
        raise SourceError(f"{source.name}: {why}", path=source.path, name=source.name, frames=frames)
    if frame is not None and not 0 <= frame < frames:
        raise SourceError(f"{source.name}: no frame {frame}: it has {frames}, from 0", path=source.path, name=source.name)
    if frame:
        image.seek(frame)


def to_rgb(image: Image) -> Image:
    """RGB, upright, transparency on white, 16 bits scaled."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _from_array(np.asarray(image), "image")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        above = image.convert("RGBA")
        ground = Image.new("RGB", above.size, (255, 255, 255))
        ground.paste(above, mask=above.getchannel("A"))
        return ground
    return image.convert("RGB")


def _from_array(values: NDArray, name: str) -> Image:
    from PIL import Image

    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] not in (2, 3, 4)) or 0 in values.shape:
        hint = ": move the channels to the end" if values.ndim == 3 and values.shape[0] in (1, 3, 4) else ""
        raise SourceError(
            f"{name}: an image array has shape (rows, columns) or (rows, columns, 1 to 4), not {values.shape}{hint}"
        )  # fmt: skip
    pixels = _to_bytes(values, name)
    mode = {2: "L"}.get(pixels.ndim) or {2: "LA", 3: "RGB", 4: "RGBA"}[pixels.shape[2]]
    return to_rgb(Image.frombytes(mode, (pixels.shape[1], pixels.shape[0]), np.ascontiguousarray(pixels).tobytes()))


def _to_bytes(values: NDArray, name: str) -> NDArray[np.uint8]:
    if values.dtype == np.uint8:
        return values
    if values.dtype == np.bool_:
        return values.astype(np.uint8) * np.uint8(255)
    low, high = values.min(), values.max()
    if values.dtype.kind in "ui" and low >= 0 and high <= 65_535 and values.dtype.itemsize >= 2:
        # 16-bit range: 65535 is white. 257 = 65535 / 255, so the rounding is exact at both ends.
        return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if values.dtype.kind == "f" and np.isfinite(low) and np.isfinite(high) and low >= 0 and high <= 1:
        return (values.astype(np.float64) * 255 + 0.5).astype(np.uint8)
    raise SourceError(
        f"{name}: {values.dtype} values from {low} to {high} are no pixels: give uint8, uint16 up to 65535, or floats from 0 to 1"
    )
