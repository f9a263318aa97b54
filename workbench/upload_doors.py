"""Files on their way in from a page: pieces put together, and a door of our own for whole ones over HTTP.

A message to a notebook kernel must stay below some megabytes, and passes through the same socket as everything else. Where the page
can reach this machine's loopback through Jupyter's own proxy, it sends the file there as one request; elsewhere it comes in pieces.
The door listens on loopback, on a port of its own, under a secret that lives as long as it. It knows no notebook and no context.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from engine.errors import InklingError

from .errors import SelectionError

MOST_BYTES = 2 << 30
"""Largest file that is taken: it is held in memory while it is read."""

MOST_AT_ONCE = 8
"""Uploads in pieces that may be under way."""


@dataclass(slots=True)
class _Upload:
    name: str
    size: int
    data: bytearray = field(default_factory=bytearray)


class Incoming:
    """Files that come in pieces, each in order."""

    def __init__(self) -> None:
        self._held: dict[str, _Upload] = {}

    def put(self, key: str, name: str, size: int, offset: int, piece: bytes) -> bytes | None:
        """Take a piece; the whole file once it is complete, else None.

        Raises
        ------
        SelectionError
            Too large, too many at once, or a piece out of its order; the upload is given up.
        """
        if offset == 0:
            if not 0 < size <= MOST_BYTES:
                raise SelectionError(f"{name}: {size:,} bytes; an upload has 1 to {MOST_BYTES:,}")
            if len(self._held) >= MOST_AT_ONCE and key not in self._held:
                raise SelectionError(f"{name}: {MOST_AT_ONCE} uploads are under way: wait for one of them")
            self._held[key] = _Upload(name, size)
        upload = self._held.get(key)
        if upload is None or offset != len(upload.data) or offset + len(piece) > upload.size:
            self.drop(key)
            raise SelectionError(f"{name}: a piece came out of its order: send the file again")
        upload.data += piece
        if len(upload.data) < upload.size:
            return None
        self.drop(key)
        return bytes(upload.data)

    def drop(self, key: str) -> bool:
        """Forget an upload; whether there was one."""
        return self._held.pop(key, None) is not None


class UploadDoor:
    """A loopback server that takes files: ``PUT /<secret>?name=…``.

    Parameters
    ----------
    take : callable
        ``take(name, data)`` is given every file, on the server's thread; an InklingError that it raises is the answer.

    Attributes
    ----------
    port, secret : int, str
    """

    def __init__(self, take: Callable[[str, bytes], object]) -> None:
        self.secret = secrets.token_urlsafe(24)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.secret, take))
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="inkling-uploads", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


def _handler(secret: str, take: Callable[[str, bytes], object]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            parts = urlsplit(self.path)
            if not secrets.compare_digest(parts.path.strip("/").encode(), secret.encode()):
                self._say(404, {"message": "there is nothing here"})
                return
            name = parse_qs(parts.query).get("name", ["file"])[0]
            size = int(self.headers.get("Content-Length") or 0)
            if not 0 < size <= MOST_BYTES:
                self._say(413, {"message": f"{name}: {size:,} bytes; an upload has 1 to {MOST_BYTES:,}"})
                return
            data = self.rfile.read(size)
            if len(data) < size:
                return  # the page gave up
            try:
                take(name, data)
            except InklingError as problem:
                self._say(422, problem.to_json())
                return
            self._say(200, {"received": size})

        def _say(self, status: int, values: dict[str, Any]) -> None:
            body = json.dumps(values).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: this process's output is a notebook's."""

    return Handler
