"""The notebook side of the engine's status: one thread that looks once a second, and sets traits when something changed.

Traits may be set from a thread, and survive a page reload; the thread ends with the widget, with ``close()``, or when the widget
is garbage.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import traitlets

import engine as engines
from engine import Engine
from workbench import engine_views
from workbench.engine_views import EngineWatch

from .._esm import css, esm
from .._twinned import TwinnedWidget


class EngineStatus(TwinnedWidget):
    """An engine's requests, speed, cache and log, live.

    Parameters
    ----------
    engine : Engine, optional
        The one to watch; without it, the one that runs (``engine.attach()``).
    period_s : float
        Seconds between two looks, at least 0.2.

    Raises
    ------
    NoEngine
        Nothing runs here, and none was given.

    Examples
    --------
    >>> status = EngineStatus(eng)                                     # doctest: +SKIP
    >>> status                                                         # doctest: +SKIP
    EngineStatus(inkling-demo at http://..., running)
    >>> status.close()                                                 # doctest: +SKIP
    """

    _esm = esm("engine_status")
    _css = css("engine_status")

    info = traitlets.Dict().tag(sync=True)
    """Who and what the engine is."""
    status = traitlets.Dict().tag(sync=True)
    """The last snapshot, with rates."""
    problem = traitlets.Dict().tag(sync=True)
    """Why it does not answer; empty while it does."""
    history = traitlets.Bytes().tag(sync=True)
    """float32 (samples,4): seconds before now, KV cache use, tokens read and written per second."""

    def __init__(self, engine: Engine | None = None, *, period_s: float = engine_views.PERIOD_S) -> None:
        self.watch = EngineWatch(engine if engine is not None else engines.attach())
        self.watch.look()
        super().__init__(**self.watch.traits())
        self._ended = threading.Event()
        threading.Thread(
            target=_follow, args=(weakref.ref(self), self._ended, max(0.2, period_s)), name="inkling-engine-status", daemon=True
        ).start()

    def close(self) -> None:
        """Stop watching and remove the widget from pages."""
        self._ended.set()
        super().close()

    def refresh(self) -> None:
        """Look now."""
        self.watch.look()
        with self.hold_sync():
            for name, value in self.watch.traits().items():
                setattr(self, name, value)

    def _engine(self) -> Engine:
        return self.watch.engine

    def _reconnected(self) -> None:
        self.refresh()

    def twin_html(self) -> str:
        return engine_views.twin_html(self.watch)

    def _answer(self, request: Any) -> tuple[dict[str, Any], list[bytes]]:
        answer = engine_views.answer(self.watch, request)
        self.refresh()
        return answer

    def __repr__(self) -> str:
        state = "does not answer" if self.problem else "running"
        return f"EngineStatus({self.info.get('model')} at {self.info.get('url')}, {state})"


def _follow(of: weakref.ref[EngineStatus], ended: threading.Event, period_s: float) -> None:
    while not ended.wait(period_s):
        widget = of()
        if widget is None or widget.comm is None:
            return
        widget.refresh()
        del widget
