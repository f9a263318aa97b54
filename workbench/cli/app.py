"""``inkling app``: the Gradio app on a running engine, or on one of its own, until Ctrl-C.

Prints the address with a fresh login token in it; whoever opens it may use the app. Loopback unless ``--host`` says otherwise.
``INKLING_APP_TOKEN`` gives the token instead: for a program that starts the app and signs in for its reader.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.errors import BadRequest

from ..jupyter_launcher import TOKEN_ENV
from .output import Console
from .running import engine_for, uninterrupted

if TYPE_CHECKING:
    from engine import Engine

SUMMARY = "start the Gradio app, engine included"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--recipe", default="demo", help="recipe to start when no engine runs (default: %(default)s)")
    parser.add_argument("--url", help="an engine to attach to (default: the running one, or a new one)")
    parser.add_argument("--token", help="its token")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s, this machine only)")
    parser.add_argument("--port", type=int, help="port (default: 7860, or any free one)")
    parser.add_argument("--root-path", default="", help="path under which a proxy shows the app, such as /user/me/proxy/7860")
    parser.add_argument("--open", action="store_true", help="open the address in a browser")


def run(args: argparse.Namespace, console: Console) -> int:
    """Serve until Ctrl-C, which is the ordinary end: 0."""
    prefix = checked_prefix(args.root_path)
    if args.port is not None and not 0 <= args.port < 65536:
        raise BadRequest(f"--port {args.port}: a port is a number from 0 to 65535")
    try:
        with engine_for(console, recipe=args.recipe, url=args.url, token=args.token) as (eng, started):
            serve(eng, args, prefix, console, started=started)
    except KeyboardInterrupt:
        console.note("stopped")
    return 0


def serve(eng: Engine, args: argparse.Namespace, prefix: str, console: Console, *, started: bool) -> None:
    """Serve the app on `eng` until it is interrupted; `started` for it, one that takes its place goes with it too."""
    import engine
    from engine import discovery

    # Gradio takes seconds to import.
    from ..app import link, server

    def find() -> Engine:
        return engine.attach(args.url, args.token)

    def start(say: Callable[[str], None]) -> Engine:
        return engine.start(eng.info.recipe or args.recipe, say=say)

    token = os.environ.get(TOKEN_ENV) or server.new_token()
    with server.listen(args.host, args.port) as sock:
        # An engine that was named by its address is somebody else's to start.
        named = args.url is not None or discovery.named_by_environment() is not None
        shared = link.Link(eng, find, None if named else start)
        app = server.make_app(shared, token=token, prefix=prefix)
        address = server.address(sock, token=token, prefix=prefix)

        def ready() -> None:
            console.show(f"\nInkling Workbench: {address}\nCtrl-C stops it, and the engine if it was started here.")
            console.result({"url": server.address(sock, prefix=prefix), "token": token, "engine": eng.url})
            if args.open:
                import webbrowser

                webbrowser.open(address)

        try:
            server.serve(app, sock, ready=ready)
        finally:
            if started:
                with uninterrupted():
                    if (later := shared.close()) is not None:
                        later.stop()


def checked_prefix(root_path: str) -> str:
    """A proxy's path as the app uses it: one leading slash, none at the end.

    Raises
    ------
    BadRequest
        Not a path of this host.
    """
    path = root_path.strip("/")
    if "//" in root_path or any(sign in path for sign in " ?#\\"):
        raise BadRequest(f"--root-path {root_path!r}: give the path alone, such as /user/me/proxy/7860")
    return f"/{path}" if path else ""
