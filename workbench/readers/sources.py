"""Where bytes come from: paths, bytes and open files, with the errors a person can act on; and what kind they are.

Knows names and first bytes, not formats.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal

from ..errors import SourceError, SourceMissing, SourceUnknown, SourceUnreadable

Kind = Literal["document", "image", "audio"]

IMAGE_SUFFIXES = frozenset(
    ".png .apng .jpg .jpeg .jpe .jfif .webp .gif .tif .tiff .bmp .dib .avif .ppm .pgm .pbm .pnm .tga .ico .jp2".split()  # noqa: SIM905
)
AUDIO_SUFFIXES = frozenset(".wav .wave .flac .ogg .oga .opus .mp3 .aif .aiff .aifc .au .caf .w64 .rf64".split())  # noqa: SIM905
# Read by nobody here: named, so that the error can say what to do.
FOREIGN = {
    ".m4a": "audio", ".aac": "audio", ".wma": "audio", ".mp4": "video", ".mov": "video", ".mkv": "video", ".webm": "video",
    ".heic": "image", ".heif": "image", ".svg": "image", ".psd": "image",
    ".doc": "document", ".ppt": "document", ".xls": "document", ".odt": "document", ".rtf": "document",
}  # fmt: skip
REMEDY = {
    "audio": "convert it to WAV, FLAC, OGG or MP3",
    "video": "no engine takes video today: give frames as images and the sound as WAV, FLAC, OGG or MP3",
    "image": "convert it to PNG, JPEG or WebP",
    "document": "save it as PDF, DOCX, PPTX, XLSX, HTML or plain text",
}


@dataclass(frozen=True, slots=True)
class Source:
    """Bytes with a name; `path` for messages."""

    data: bytes = field(repr=False)
    name: str
    path: str | None = None

    @property
    def suffix(self) -> str:
        """Lower-case suffix of the name, with its dot."""
        return PurePath(self.name).suffix.lower()

    def unreadable(self, why: str) -> SourceUnreadable:
        """The error for content that is not what it should be."""
        return SourceUnreadable(f"{self.name}: {why}", path=self.path, name=self.name)


def load(source: Any, *, name: str | None = None, default: str = "file") -> Source:
    """Read everything `source` holds.

    Raises
    ------
    SourceMissing, SourceUnreadable
        No such file, a folder, no permission, or nothing in it.
    """
    if isinstance(source, str | os.PathLike):
        return _load_path(source, name)
    if isinstance(source, bytes | bytearray | memoryview):
        data, given = bytes(source), default
    elif hasattr(source, "read"):
        data, given = source.read(), PurePath(str(getattr(source, "name", default))).name
        if not isinstance(data, bytes):
            raise SourceError(f"{given} is open as text: open it in binary mode", name=given)
    else:
        raise SourceError(f"cannot read a {type(source).__name__}: give a path, bytes or a binary file")
    found = Source(data, name or given)
    if not data:
        raise found.unreadable("it is empty (0 bytes)")
    return found


def _load_path(source: str | os.PathLike[str], name: str | None) -> Source:
    shown = os.fspath(source)
    path = Path(shown).expanduser()
    try:
        if not path.exists():
            raise SourceMissing(f"{shown}: no such file (looked in {Path.cwd()})", path=shown)
        if path.is_dir():
            raise SourceMissing(f"{shown}: a folder, not a file: name a file in it", path=shown)
        if not path.is_file():
            raise SourceMissing(f"{shown}: not a regular file (a device or pipe): copy its content to a file first", path=shown)
        data = path.read_bytes()
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        raise SourceUnreadable(f"{shown}: cannot be read ({why}): check its permissions", path=shown) from problem
    found = Source(data, name or path.name, shown)
    if not data:
        raise found.unreadable("the file is empty (0 bytes)")
    return found


def kind_of(source: Source) -> Kind:
    """Kind by name, then by first bytes; anything else is a document.

    Raises
    ------
    SourceUnknown
        A kind that is known to have no reader.
    """
    suffix = source.suffix
    if suffix in FOREIGN:
        what = FOREIGN[suffix]
        raise SourceUnknown(f"{source.name}: no reader for {suffix} ({what}): {REMEDY[what]}", path=source.path, name=source.name)
    if suffix in IMAGE_SUFFIXES:
        return "image"
    if suffix in AUDIO_SUFFIXES:
        return "audio"
    return "document" if suffix == ".pdf" else sniff(source.data) or "document"


def sniff(data: bytes) -> Kind | None:
    """Kind by first bytes, or None."""
    head = data[:16]
    if head.startswith((b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*")) or (head[:4], head[8:12]) == (
        b"RIFF",
        b"WEBP",
    ):
        return "image"
    if head.startswith((b"fLaC", b"OggS", b"ID3")) or (head[:4], head[8:12]) in ((b"RIFF", b"WAVE"), (b"FORM", b"AIFF")):
        return "audio"
    return "document" if b"%PDF-" in data[:1024] else None


def may_have_frames(data: bytes) -> bool:
    """Whether an image's first bytes allow several frames: TIFF, GIF, animated PNG or WebP."""
    if data.startswith((b"GIF8", b"II*\x00", b"MM\x00*")):
        return True
    head = data[:4096]
    return (data.startswith(b"\x89PNG") and b"acTL" in head) or (head[8:12] == b"WEBP" and b"ANIM" in head)
