"""Folders and zip archives: every file that can be read, in the order of paths, and a list of what was left out and why.

``.gitignore`` files are respected where they lie, as git does. Binary files without a reader, files that cannot be read, links out
of the folder and archives inside archives are left out and listed; nothing is left out silently. An archive is read in place and
never unpacked to disk.
"""

from __future__ import annotations

import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pathspec

from ..errors import InklingError, ReadingCancelled, SourceError, SourceMissing
from ..parts import AudioPart, DocumentPart, ImagePart, RecordingPart
from .options import Options, Progress, tell
from .sources import Source, kind_of, may_have_frames

Readable = DocumentPart | ImagePart | AudioPart | RecordingPart
ARCHIVE_BYTES = 4 << 30
"""Unpacked size above which an archive is refused: it could not be held in memory, and is likely a bomb."""
_ARCHIVES = frozenset({".zip", ".tar", ".gz", ".bz2", ".xz", ".7z", ".rar", ".zst", ".tgz", ".whl", ".jar"})


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder (ending in ``/``) that was left out, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a folder became.

    Attributes
    ----------
    parts : tuple of parts
        In the order of their paths, which are their names.
    skipped : tuple of Skipped
    """

    parts: tuple[Readable, ...]
    skipped: tuple[Skipped, ...] = ()

    def __str__(self) -> str:
        lines = [f"{len(self.parts)} files read, {len(self.skipped)} left out"]
        return "\n".join([*lines, *(f"  {item.path}: {item.reason}" for item in self.skipped)])


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    load: Callable[[], bytes] = field(repr=False)


class _Ignores:
    """The ``.gitignore`` files met so far, by folder."""

    def __init__(self) -> None:
        self._specs: dict[str, pathspec.GitIgnoreSpec] = {}

    def add(self, folder: str, text: str) -> None:
        self._specs[folder] = pathspec.GitIgnoreSpec.from_lines(text.splitlines())

    def ignored(self, path: str) -> str | None:
        """The folder whose ``.gitignore`` leaves `path` out (the nearest one that says anything decides), or None."""
        parents = [str(parent) for parent in PurePosixPath(path.rstrip("/")).parents]
        for folder in parents:
            spec = self._specs.get("" if folder == "." else folder)
            if spec is not None:
                below = path if folder == "." else path[len(folder) + 1 :]
                decided = spec.check_file(below).include
                if decided is not None:
                    return ("" if folder == "." else f"{folder}/") + ".gitignore" if decided else None
        return None


def part_of(source: Source, options: Options | None = None) -> Readable:
    """The part that a file's kind (its name, then its first bytes) asks for."""
    from . import audio, documents, images

    match kind_of(source):
        case "image":
            several = images.frames(source, options or Options()) if may_have_frames(source.data) else None
            return several or images.from_file(source, None)
        case "audio":
            return audio.from_file(source)
        case _:
            return documents.read(source, options or Options())


def read(
    source: str | os.PathLike[str], *, only: tuple[str, ...] = (), skip: tuple[str, ...] = (), hidden: bool = False,
    progress: Progress | None = None,
) -> Gathered:  # fmt: skip
    """Everything in a folder or archive; see :meth:`workbench.Context.add_folder`."""
    path = Path(source).expanduser()
    left_out: list[Skipped] = []
    if path.is_dir():
        files = list(_walk(path, left_out, only, skip, hidden))
    elif path.is_file() and zipfile.is_zipfile(path):
        return _read_archive(path, only, skip, hidden, progress)
    elif path.exists():
        raise SourceError(f"{source}: neither a folder nor a zip archive: use add_file", path=str(source))
    else:
        raise SourceMissing(f"{source}: no such folder (looked in {Path.cwd()})", path=str(source))
    return _gather(path.resolve().name or str(path), files, left_out, progress, str(source))


def _gather(root: str, files: list[_File], left_out: list[Skipped], progress: Progress | None, shown: str) -> Gathered:
    parts: list[Readable] = []
    for done, file in enumerate(files):
        tell(progress, file.path, done, len(files))
        name = f"{root}/{file.path}"
        try:
            data = file.load()
            if not data:
                left_out.append(Skipped(file.path, "empty"))
            elif PurePosixPath(file.path).suffix.lower() in _ARCHIVES:
                left_out.append(Skipped(file.path, "an archive: unpack it, or add it by itself"))
            else:
                parts.append(part_of(Source(data, name, name)))
        except ReadingCancelled:
            raise
        except InklingError as problem:
            left_out.append(Skipped(file.path, problem.message.removeprefix(f"{name}: ")))
        except (OSError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError) as problem:
            # RuntimeError and NotImplementedError are zipfile's for passwords and foreign compression.
            left_out.append(Skipped(file.path, f"cannot be read ({getattr(problem, 'strerror', None) or problem})"))
    if not parts:
        why = "; ".join(f"{item.path}: {item.reason}" for item in left_out[:5]) or "it is empty"
        raise SourceError(
            f"{shown}: nothing in it that can be read ({why}{'; …' if len(left_out) > 5 else ''})", path=shown,
            skipped=[(item.path, item.reason) for item in left_out],
        )  # fmt: skip
    tell(progress, root, len(files), len(files))
    return Gathered(tuple(parts), tuple(sorted(left_out, key=lambda item: item.path)))


class _Filter:
    """What to take: by the caller's patterns, by dots, by ``.gitignore``."""

    def __init__(self, only: tuple[str, ...], skip: tuple[str, ...], hidden: bool, left_out: list[Skipped]) -> None:
        self.ignores, self._left_out, self._hidden = _Ignores(), left_out, hidden
        self._only = pathspec.GitIgnoreSpec.from_lines(only) if only else None
        self._skip = pathspec.GitIgnoreSpec.from_lines(skip)

    def takes(self, path: str, *, folder: bool = False) -> bool:
        """Whether to take a file, or to look into a folder; what is left out for a reason is listed."""
        named = path + "/" if folder else path
        last = PurePosixPath(path).name
        if folder and last == ".git":
            return False
        if not self._hidden and last.startswith("."):
            if last != ".gitignore":
                self._left_out.append(Skipped(named, "hidden (hidden=True takes it)"))
            return False
        if self._skip.match_file(named):
            self._left_out.append(Skipped(named, "left out, as asked"))
            return False
        if source := self.ignores.ignored(named):
            self._left_out.append(Skipped(named, f"ignored by {source}"))
            return False
        # Not being among those asked for needs no mention.
        return folder or self._only is None or self._only.match_file(path)


def _walk(
    root: Path, left_out: list[Skipped], only: tuple[str, ...], skip: tuple[str, ...], hidden: bool
) -> Iterator[_File]:  # fmt: skip
    wanted, inside = _Filter(only, skip, hidden, left_out), root.resolve()

    def below(folder: str) -> Iterator[_File]:
        here = root / folder if folder else root
        try:
            found = sorted(os.scandir(here), key=lambda item: item.name)
        except OSError as problem:
            left_out.append(Skipped(folder + "/", f"cannot be read ({problem.strerror})"))
            return
        ignore = next((item for item in found if item.name == ".gitignore" and item.is_file()), None)
        if ignore is not None:
            wanted.ignores.add(folder, Path(ignore.path).read_text("utf-8", errors="replace"))
        for item in found:
            path = f"{folder}/{item.name}" if folder else item.name
            if item.is_dir(follow_symlinks=False):
                if wanted.takes(path, folder=True):
                    yield from below(path)
            elif wanted.takes(path):
                if why := _unfit(item, inside):
                    left_out.append(Skipped(path, why))
                else:
                    yield _File(path, Path(item.path).read_bytes)

    yield from below("")


def _unfit(item: os.DirEntry[str], inside: Path) -> str | None:
    """Why a file's bytes are not to be read."""
    if item.is_symlink():
        target = Path(item.path).resolve()
        if not target.exists():
            return "a link to nothing"
        if target.is_dir():
            return "a link to a folder"
        if not target.is_relative_to(inside):
            return "a link out of the folder"
    try:
        mode = item.stat().st_mode
    except OSError as problem:
        return f"cannot be read ({problem.strerror})"
    return None if stat.S_ISREG(mode) else "not a regular file (a device, pipe or socket)"


def _read_archive(
    path: Path, only: tuple[str, ...], skip: tuple[str, ...], hidden: bool, progress: Progress | None
) -> Gathered:  # fmt: skip
    left_out: list[Skipped] = []
    wanted = _Filter(only, skip, hidden, left_out)
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: info for info in archive.infolist() if not info.is_dir()}
        unpacked = sum(info.file_size for info in members.values())
        if unpacked > ARCHIVE_BYTES:
            raise SourceError(
                f"{path.name}: {unpacked:,} bytes unpacked are more than {ARCHIVE_BYTES:,}: unpack it and add folders of it",
                path=str(path), bytes=unpacked,
            )  # fmt: skip
        for name in members:
            if PurePosixPath(name).name == ".gitignore":
                folder = str(PurePosixPath(name).parent)
                wanted.ignores.add("" if folder == "." else folder, archive.read(name).decode("utf-8", errors="replace"))
        closed: set[str] = set()
        opened: set[str] = set()
        files: list[_File] = []
        for name in sorted(members):
            folders = [str(parent) for parent in reversed(PurePosixPath(name).parents) if str(parent) not in (".", "/")]
            if any(not _open(folder, wanted, opened, closed) for folder in folders) or not wanted.takes(name):
                continue
            if members[name].flag_bits & 1:
                left_out.append(Skipped(name, "protected by a password: unpack it"))
            else:
                files.append(_File(name, lambda name=name: archive.read(name)))
        return _gather(path.stem, files, left_out, progress, str(path))


def _open(folder: str, wanted: _Filter, opened: set[str], closed: set[str]) -> bool:
    """Whether an archive's folder is taken; asked once for each, so that it is listed once."""
    if any(folder == other or folder.startswith(other + "/") for other in closed):
        return False
    if folder not in opened:
        (opened if wanted.takes(folder, folder=True) else closed).add(folder)
    return folder in opened
