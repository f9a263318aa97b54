"""One-file archives: a JSON manifest, and every blob once, by hash.

A zip file. Written next to its target and moved there, so a file is whole or not there. Every blob's hash is checked when it is
read. The same content gives the same bytes. Knows neither contexts nor conversations.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

from .errors import ContextFileError
from .media import content_id

DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, NotImplementedError, RuntimeError, OSError)
"""What zipfile and our own hash check raise for damaged bytes."""


class Writer:
    """Blobs of an archive to be."""

    def __init__(self) -> None:
        self._blobs: dict[str, tuple[str, bytes]] = {}

    def keep(self, suffix: str, data: bytes) -> str:
        """Put bytes into the archive, once; returns their hash."""
        blob = content_id(data)
        self._blobs[blob] = (suffix, data)
        return blob

    def write(self, path: Path, manifest: str, document: str) -> Path:
        """Write the archive, replacing `path` only when everything is written.

        Parameters
        ----------
        manifest : str
            Name of the manifest, for instance ``context.json``.
        document : str
            Its JSON.

        Raises
        ------
        ContextFileError
            It cannot be written.
        """
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            with open(partial, "wb") as out:
                with zipfile.ZipFile(out, "w") as archive:
                    _put(archive, manifest, document.encode(), compress=True)
                    for blob, (suffix, data) in self._blobs.items():
                        # Floating-point sound hardly gives.
                        _put(archive, _member(blob, suffix), data, compress=suffix in ("txt", "png"))
                out.flush()
                os.fsync(out.fileno())
            os.replace(partial, path)
        except OSError as problem:
            raise ContextFileError(f"{path}: cannot be written ({problem.strerror or problem})", path=str(path)) from problem
        finally:
            partial.unlink(missing_ok=True)
        return path


class Reader:
    """An archive that was opened; everything is read when it is asked for.

    Raises
    ------
    ContextFileError
        No such file, not an archive of this format, damaged in its manifest, or of a newer version.
    """

    def __init__(self, path: Path, manifest: str, format: str, newest: int) -> None:
        try:
            data = path.read_bytes()
        except OSError as problem:
            raise ContextFileError(f"{path}: cannot be read ({problem.strerror or problem})", path=str(path)) from problem
        what = format.removeprefix("inkling-")
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
            found = json.loads(self._archive.read(manifest))
            if not isinstance(found, dict) or found.get("format") != format:
                raise ValueError(f"its contents are not called {format}")
        except DAMAGE as problem:
            raise ContextFileError(
                f"{path}: not a saved {what}, or damaged beyond its list of contents ({problem}): nothing can be opened",
                path=str(path),
            ) from problem
        version = found.get("version")
        if isinstance(version, int) and version > newest:
            raise ContextFileError(
                f"{path}: written by a newer version (format {version}, this one reads up to {newest}): update inkling-workbench",
                path=str(path), version=version,
            )  # fmt: skip
        self.manifest: dict[str, Any] = found

    def blob(self, name: str | None, suffix: str) -> bytes:
        """The bytes of a blob.

        Raises
        ------
        ValueError, and the rest of `DAMAGE`
            They are not there, or not what they were.
        """
        if name is None:
            raise ValueError("its content is not named")
        data = self._archive.read(_member(name, suffix))
        if content_id(data) != name:
            raise ValueError(f"its bytes do not match {name[:19]}…")
        return data


def _put(archive: zipfile.ZipFile, name: str, data: bytes, *, compress: bool) -> None:
    # A fixed date: the same content gives the same file.
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    info.external_attr = 0o644 << 16
    # The fastest level: saving is waited for, and a better one gives little on text.
    archive.writestr(info, data, compresslevel=1 if compress else None)


def _member(blob: str, suffix: str) -> str:
    return f"blobs/{blob.removeprefix('sha256:')}.{suffix}"
