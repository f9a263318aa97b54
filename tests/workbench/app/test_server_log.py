"""What the app's log leaves out: what Gradio raises when a reader has left, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from workbench.app.server import _LeftStreams


def sse_stream() -> None:
    del {}["a session"]


def elsewhere() -> None:
    del {}["a session"]


def begun() -> None:
    raise RuntimeError("Caught handled exception, but response already started.")


def broken() -> None:
    raise RuntimeError("the engine is gone")


@pytest.mark.parametrize(("fails", "logged"), [(sse_stream, False), (elsewhere, True), (begun, False), (broken, True)])
def test_only_what_a_left_page_causes_is_left_out(fails: Callable[[], None], logged: bool) -> None:
    with pytest.raises((KeyError, RuntimeError)) as caught:
        fails()
    info = (caught.type, caught.value, caught.tb)
    record = logging.LogRecord("uvicorn.error", logging.ERROR, __file__, 1, "Exception in ASGI application", None, info)
    assert _LeftStreams().filter(record) is logged
