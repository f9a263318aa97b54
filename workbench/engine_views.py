"""What an engine is doing, for any host: one state of JSON values, a short history, and the answers to what is asked.

Numbers are the engine's own counters; rates are differences of two of its snapshots. Requests as in
:mod:`workbench.view_requests`:

    verb    args     result
    log     lines    text, path (null when the engine runs on another host)
    stop    –        stopped

This module keeps at most :data:`HISTORY_S` of history and no connection of its own.
"""

from __future__ import annotations

import html
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.errors import InklingError

from .view_requests import answered

if TYPE_CHECKING:
    from engine import Engine

PERIOD_S = 1.0
HISTORY_S = 120
LOG_LINES = 60
LOG_TAIL_BYTES = 64 * 1024


@dataclass(slots=True)
class EngineWatch:
    """Looks at one engine now and then; holds what the last looks found.

    Attributes
    ----------
    engine : Engine
    status : dict
        The last snapshot, as ``engine.status()`` gave it.
    problem : dict or None
        Why the engine does not answer, as ``{"message", "code"}``.
    samples : deque
        (seconds, KV cache use 0 to 1, tokens read per second, tokens written per second), newest last.
    """

    engine: Engine
    status: dict[str, Any] = field(default_factory=dict)
    problem: dict[str, Any] | None = None
    samples: deque[tuple[float, float, float, float]] = field(default_factory=lambda: deque(maxlen=int(HISTORY_S / PERIOD_S)))
    _last: tuple[float, float, float] | None = None

    def look(self) -> None:
        """Ask once; an engine that is gone is a state, not an exception."""
        try:
            self.status, self.problem = self.engine.status(), None
        except InklingError as gone:
            self.problem, self._last = gone.to_json(), None
            return
        now = time.monotonic()
        read, written = (float(self.status.get(name, 0.0)) for name in ("prompt_tokens", "generated_tokens"))
        rates = (0.0, 0.0)
        if self._last is not None:
            passed = max(now - self._last[0], 1e-3)
            rates = (max(read - self._last[1], 0) / passed, max(written - self._last[2], 0) / passed)
        self._last = (now, read, written)
        self.samples.append((now, float(self.status.get("kv_cache_used", 0.0)), *rates))

    def traits(self) -> dict[str, Any]:
        """The state as widgets and the app show it.

        Returns
        -------
        dict
            ``info`` (who and what the engine is), ``status`` (the last snapshot with rates), ``problem`` (``{}`` while it answers),
            ``history`` (float32 (samples,4): seconds before now, KV use, tokens read and written per second).
        """
        return {"info": facts(self.engine), "status": self._status(), "problem": self.problem or {}, "history": self._history()}

    def _status(self) -> dict[str, Any]:
        newest = self.samples[-1] if self.samples else (0.0, 0.0, 0.0, 0.0)
        queried = float(self.status.get("prefix_queried_tokens", 0.0))
        drafted = float(self.status.get("drafted_tokens", 0.0))
        return self.status | {
            "read_tokens_per_s": round(newest[2], 1), "written_tokens_per_s": round(newest[3], 1),
            "prefix_hit_share": round(float(self.status["prefix_hit_tokens"]) / queried, 4) if queried else None,
            "accepted_share": round(float(self.status["accepted_tokens"]) / drafted, 4) if drafted else None,
        }  # fmt: skip

    def _history(self) -> bytes:
        if not self.samples:
            return b""
        values = np.array(self.samples, dtype=np.float64)
        values[:, 0] -= values[-1, 0]
        return values.astype("<f4").tobytes()


def facts(engine: Engine) -> dict[str, Any]:
    """Who and what an engine is, in the words a reader needs."""
    info = engine.info
    silent = [{"name": seam.name, "reason": seam.reason} for seam in info.seams if not seam.fires]
    return {
        "model": info.model, "recipe": info.recipe, "url": engine.url, "kind": info.kind, "revision": info.revision,
        "context_tokens": info.limits.context_tokens, "started_by": info.started_by, "started_at": info.started_at,
        "random_weights": info.random_weights, "versions": info.versions, "engine_args": info.engine_args,
        "firing": [seam.name for seam in info.seams if seam.fires], "silent": silent, "log": engine.log,
    }  # fmt: skip


def answer(watch: EngineWatch, request: Any) -> tuple[dict[str, Any], list[bytes]]:
    """Answer one request; one that cannot be answered becomes an error answer."""

    def log(lines: int = LOG_LINES) -> dict[str, Any]:
        return {"text": log_tail(watch.engine.log, int(lines)), "path": watch.engine.log}

    def stop() -> dict[str, Any]:
        watch.engine.stop()
        watch.look()
        return {"stopped": True}

    return answered(request, {"log": log, "stop": stop})


def log_tail(path: str | None, lines: int) -> str:
    """The last lines of an engine's log; says so where it is not on this machine."""
    if path is None:
        return "The log is on the engine's host: run `inkling engine logs` there."
    try:
        with Path(path).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as problem:
        return f"The log cannot be read: {problem}"
    return "\n".join(text.splitlines()[-max(1, lines) :])


def twin_html(watch: EngineWatch) -> str:
    """The state as a plain table; a saved notebook shows what was true when it was saved."""
    known, status = facts(watch.engine), watch._status()
    rows = [
        ("Model", f"{known['model']}, {known['context_tokens']:,} tokens of context"), ("Address", known["url"]),
        ("Started", f"{known['started_at']} by {known['started_by']}"),
    ]  # fmt: skip
    if watch.problem:
        rows.append(("State", f"does not answer: {watch.problem.get('message', '')}"))
    elif status.get("alive") is not None:
        rows.append(("Requests", f"{status['running']:.0f} running, {status['waiting']:.0f} waiting"))
        rows.append(("KV cache in use", f"{status['kv_cache_used']:.1%}"))
    body = "".join(f'<tr><th scope="row">{head}</th><td>{html.escape(str(text))}</td></tr>' for head, text in rows)
    return (
        '<figure class="inkling-twin" style="margin:0"><table><caption style="text-align:left">Engine, when this was saved'
        f"</caption><tbody>{body}</tbody></table></figure>"
    )
