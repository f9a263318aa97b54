"""The parent application: login wall, widget modules, blobs and the mounted page; and the server that runs it.

Routes: ``/`` goes to the page at ``/ui/``; ``/widgets/<name>.js`` and ``.css`` are the widgets' own files, read and inlined as in
a notebook; ``/blobs/<sha256>`` are the bytes behind a picture; ``/desk/run.inkling`` is the browser's own run as one file. The wall
stands in front of all of them. Loopback unless told otherwise.
"""

from __future__ import annotations

import logging
import secrets
import shutil
import socket
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import gradio as gr
import gradio.routes
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, RedirectResponse, Response
from starlette.background import BackgroundTask
from starlette.routing import Mount

from workbench import Context
from workbench.errors import AppStartError
from workbench.esm import EsmError, inline, style, widget_folder

from . import page
from .desk import Desk
from .desks import Desks, desks_folder
from .hosted import Blobs
from .link import Link
from .login import LoginWall, browser_of

PAGE = "/ui"
DEFAULT_PORT = 7860
IMMUTABLE = {"cache-control": "private, max-age=86400, immutable"}


@dataclass(frozen=True, slots=True)
class Application:
    """The whole application behind its login, and how to end what its pages hold open."""

    asgi: LoginWall
    close: Callable[[], None]


def make_app(link: Link, *, token: str, prefix: str = "", folder: Path | None = None) -> Application:
    """Put everything together.

    Parameters
    ----------
    link : Link
    token : str
        What a visitor must know.
    prefix : str
        Path under which a proxy shows the application (``/user/x/proxy/7860``), without a trailing slash.
    folder : Path, optional
        Where desks are kept; ``app/`` in the user's cache by default.
    """
    # The tokenizer takes seconds to load: not while the first visitor waits.
    Context().render()
    blobs, desks = Blobs(), Desks(folder or desks_folder())
    app = FastAPI(title=page.TITLE, openapi_url=None, docs_url=None, redoc_url=None)

    @app.get("/")
    def home() -> RedirectResponse:
        # Relative: a proxy that writes its path into addresses from the root would write it twice.
        return RedirectResponse(f"{PAGE.removeprefix('/')}/")

    @app.get("/widgets/{name}")
    def widget_file(name: str) -> Response:
        found = widget_text(name)
        if found is None:
            raise HTTPException(404)
        return Response(found[0], media_type=found[1])

    @app.get("/blobs/{name}")
    def blob(name: str) -> Response:
        data = blobs.get(name)
        if data is None:
            raise HTTPException(404, "these bytes are no longer kept: make the capture again")
        return Response(data, media_type="application/octet-stream", headers=IMMUTABLE)

    @app.get("/desk/run.inkling")
    def run_file(request: Request) -> Response:
        made = Path(tempfile.mkdtemp()) / "run.inkling"
        desks.of(browser_of(request.cookies)).save(made)
        gone = BackgroundTask(shutil.rmtree, made.parent, ignore_errors=True)
        return FileResponse(made, filename=made.name, media_type="application/octet-stream", background=gone)

    def desk_of(request: gr.Request) -> Desk:
        return desks.of(browser_of(request.cookies))

    gradio.mount_gradio_app(
        app,
        page.build(link, blobs, desk_of, prefix=prefix),
        path=PAGE,
        # Without it the addresses of files in the page miss the mount's path.
        root_path=prefix + PAGE,
        max_file_size=page.MAX_FILE_SIZE,
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        show_error=False,
        theme=page.theme(),
        css=page.style(),
    )
    mounted = next(route.app for route in app.routes if isinstance(route, Mount) and route.path == PAGE)
    assert isinstance(mounted, gradio.routes.App)  # what was mounted above

    def close() -> None:
        desks.close()
        mounted.stop_event.set()

    return Application(LoginWall(_below(prefix, app), token=token, prefix=prefix), close)


def _below(prefix: str, app: Any) -> Any:
    """`app` as it is reached behind a proxy that takes `prefix` off the path: the mounted page looks for its own path below it."""
    if not prefix:
        return app

    async def below(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] in ("http", "websocket"):
            path = scope["path"] if scope["path"].startswith(f"{prefix}/") else prefix + scope["path"]
            scope = {**scope, "path": path, "raw_path": quote(path).encode(), "root_path": prefix}
        await app(scope, receive, send)

    return below


def listen(host: str, port: int | None) -> socket.socket:
    """A socket to serve on: `port`, or when None the default port, or any free one when that is taken.

    Raises
    ------
    AppStartError
        The port that was asked for is taken, or the host is not ours.
    """
    for wanted in (DEFAULT_PORT, 0) if port is None else (port,):
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, wanted))
        except OSError as problem:
            sock.close()
            if wanted == 0 or port is not None:
                raise AppStartError(
                    f"cannot listen on {host} port {wanted}: {problem.strerror}. Choose another --port"
                ) from problem
        else:
            return sock
    raise AssertionError("port 0 binds or raises")


def address(sock: socket.socket, *, token: str = "", prefix: str = "") -> str:
    """The address to open in a browser, with the token when one is given."""
    host, port = sock.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}{prefix}/" + (f"?token={token}" if token else "")


class _LeftStreams(logging.Filter):
    """Keeps out of the log what Gradio raises when a page that was following an answer is reloaded: nobody is there to be told."""

    def filter(self, record: logging.LogRecord) -> bool:
        problem = record.exc_info[1] if record.exc_info else None
        if isinstance(problem, KeyError):
            # Its stream removes its session's queue without looking whether another one did.
            return not any(frame.name == "sse_stream" for frame in traceback.extract_tb(problem.__traceback__))
        return not (isinstance(problem, RuntimeError) and "response already started" in str(problem))


def serve(app: Application, sock: socket.socket, *, ready: Callable[[], None] = lambda: None) -> None:
    """Serve until Ctrl-C or SIGTERM; calls `ready` once requests are answered."""

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # Every open page holds a connection that would never end by itself.
            app.close()
            await super().shutdown(sockets)

    logging.getLogger("uvicorn.error").addFilter(_LeftStreams())
    config = uvicorn.Config(app.asgi, log_level="warning", timeout_graceful_shutdown=2, server_header=False)
    Server(config).run(sockets=[sock])


def new_token() -> str:
    """A fresh login token, 32 characters."""
    return secrets.token_hex(24)


@lru_cache(maxsize=32)
def widget_text(name: str) -> tuple[str, str] | None:
    """Text and media type of ``<widget>.js``, ``<widget>.css`` or ``hosted.js``; None where there is no such widget.

    The widgets' files are found without importing the package: its Python is for notebooks.
    """
    if name == "hosted.js":
        return Path(__file__).with_name(name).read_text(encoding="utf-8"), "text/javascript"
    stem, _, kind = name.rpartition(".")
    if not stem.isidentifier() or kind not in ("js", "css"):
        return None
    try:
        if kind == "css":
            return style(stem), "text/css"
        return inline(widget_folder(stem) / "index.js"), "text/javascript"
    except EsmError:
        return None
