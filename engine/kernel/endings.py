"""Endings that happen whatever becomes of those who wait for them: a web server cancels a stream, a client cancels a job.

Knows neither captures nor interventions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

_UNDER_WAY: set[asyncio.Task[None]] = set()
"""The event loop itself holds tasks weakly."""


async def finish(work: Coroutine[Any, Any, None]) -> None:
    """Wait for `work`, which goes on as a task of its own when the waiting is cancelled."""
    task = asyncio.create_task(work)
    _UNDER_WAY.add(task)
    task.add_done_callback(_UNDER_WAY.discard)
    await asyncio.shield(task)
