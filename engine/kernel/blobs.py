"""Blobs on disk: bytes under the hash of their content.

Uploads stream to a temporary file and appear under their name only when complete and when the bytes have the hash they came
with, so a reader never meets half a blob and a name never lies. Files are shared by every kernel of this user and outlive them.
Knows nothing of what the bytes are.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import AsyncIterable
from pathlib import Path

from ..errors import BadRequest, BlobMissing
from .quotas import Quota, used_now

_NAME = re.compile(r"sha256:[0-9a-f]{64}")


def checked_hash(name: str) -> str:
    """`name` if it is a hash in our spelling.

    Raises
    ------
    BadRequest
        It is something else, a path for instance.
    """
    if not _NAME.fullmatch(name):
        raise BadRequest(f"not a content hash: {name[:80]!r} (wanted: 'sha256:' and 64 hexadecimal digits)")
    return name


class BlobStore:
    """Blobs of one folder.

    Parameters
    ----------
    folder : Path
        Made if missing, 0700.
    limit_bytes, total_bytes : int
        Largest blob accepted, and what all of them may have.
    """

    def __init__(self, folder: Path, *, limit_bytes: int = 1 << 30, total_bytes: int = 64 << 30) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder, self.limit_bytes = folder, limit_bytes
        self._quota = Quota(folder, total_bytes, limit="limits.blobs_bytes")

    def path(self, name: str) -> Path:
        """Where the blob called `name` lies, or would."""
        return self.folder / checked_hash(name).removeprefix("sha256:")

    def has(self, name: str) -> bool:
        return self.path(name).is_file()

    def use(self, name: str) -> Path:
        """Note that a blob is needed, so that it does not give way to others; where it lies.

        Raises
        ------
        BlobMissing
            It was never uploaded, or was cleaned away.
        """
        used_now(path := self.path(name))
        if not path.is_file():
            raise _missing(name)
        return path

    def read(self, name: str) -> bytes:
        """The bytes of a blob; as :meth:`use`."""
        try:
            return self.use(name).read_bytes()
        except FileNotFoundError:
            raise _missing(name) from None

    async def put(self, name: str, chunks: AsyncIterable[bytes], *, announced_bytes: int | None = None) -> bool:
        """Store a blob; False when it was there already (then `chunks` are not read).

        Raises
        ------
        BadRequest, QuotaFull
            Over the limit of one, or of all.
        BlobMissing
            The bytes do not have the hash `name`.
        """
        path = self.path(name)
        if path.is_file():
            used_now(path)
            return False
        self._check_size(announced_bytes or 0)
        partial = self.folder / f".{path.name}.{secrets.token_hex(4)}"
        digest, size = hashlib.sha256(), 0
        try:
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                async for chunk in chunks:
                    size += len(chunk)
                    self._check_size(size)
                    digest.update(chunk)
                    file.write(chunk)
            if digest.hexdigest() != path.name:
                raise BlobMissing(f"the {size:,} bytes sent as {name[:19]}… do not have that hash: nothing was kept", blob=name)
            self._quota.make_room(size)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
        return True

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self.limit_bytes:
            raise BadRequest(f"a blob may have {self.limit_bytes:,} bytes, this one has more", limit_bytes=self.limit_bytes)


def _missing(name: str) -> BlobMissing:
    return BlobMissing(f"the engine does not hold {name[:19]}…: upload it first", blob=name)
