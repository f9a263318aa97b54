"""An engine for the length of one command: the one that runs, or one of our own that goes when the command ends.

Whatever ends the command (its end, an error, Ctrl-C, a terminal that closes) stops an engine started here, and never one that was
found running. Other commands' processes are not this module's business.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import engine
from engine.errors import EngineNotFound

from .output import Console

if TYPE_CHECKING:
    from engine import Engine


@contextmanager
def engine_for(
    console: Console, *, recipe: str = "demo", url: str | None = None, token: str | None = None
) -> Iterator[tuple[Engine, bool]]:
    """Attach to a running engine, or start `recipe`; what was started is stopped on the way out.

    Parameters
    ----------
    console : Console
        Where progress goes.
    recipe : str
        What to start when nothing runs.
    url, token : str or None
        An engine to attach to instead of looking for one.

    Yields
    ------
    Engine, bool
        The engine, and whether it was started here.
    """
    with endings_as_interrupt():
        try:
            found, started = engine.attach(url, token), False
            console.note(f"attached to the engine at {found.url}; it stays when this ends")
        except EngineNotFound:
            if url:
                raise
            console.note(f"starting the engine (recipe {recipe!r}); the first start takes up to a minute")
            begun = time.monotonic()
            found, started = engine.start(recipe), True
            console.note(f"the engine is up after {time.monotonic() - begun:.0f} s")
        try:
            yield found, started
        finally:
            if started:
                with uninterrupted():
                    console.note("stopping the engine")
                    found.stop()


@contextmanager
def endings_as_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, so that its clean-up runs."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Keep an impatient second Ctrl-C from cutting short a clean-up that takes a moment."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
