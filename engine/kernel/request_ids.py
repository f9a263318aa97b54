"""The ids that requests run under: vLLM appends a dash and eight random characters to the one it is given.

Without vLLM's API process in front ids stay as they are, so both forms are the request's. This module knows
no request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def is_of(running: str, given: str) -> bool:
    """Whether the id `running` is that of the request called `given`.

    Examples
    --------
    >>> is_of("left-0f3a99c1", "left"), is_of("left", "left"), is_of("left-most-0f3a99c1", "left")
    (True, True, False)
    """
    return given in (running, running.rpartition("-")[0])


def entry_of(table: Mapping[str, T], running: str) -> T | None:
    """What `table` holds under the given name of the request that runs as `running`; None where it has none."""
    found = table.get(running)
    return table.get(running.rpartition("-")[0]) if found is None else found
