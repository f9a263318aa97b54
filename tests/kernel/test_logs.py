"""Lines of a log that is being written, as a terminal and as Python see them."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pytest

import engine
from engine.errors import FeatureUnsupported
from engine.logs import lines_of


def test_following_gives_every_line_once_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "kernel.log"
    path.write_bytes(b"one\ntwo\nthree\nhalf a l")
    assert list(lines_of(path, 2)) == ["three", "half a l"]
    assert list(lines_of(path, 0)) == []
    following = lines_of(path, 2, follow=True)
    assert [next(following), next(following)] == ["two", "three"]

    def write() -> None:
        with path.open("ab", buffering=0) as file:
            for piece in (b"ine\nnext", b"\n\xff\n"):
                file.write(piece)
                threading.Event().wait(0.4)

    threading.Thread(target=write).start()
    assert list(itertools.islice(following, 3)) == ["half a line", "next", "\ufffd"]


@pytest.mark.engine
def test_an_engines_log_from_python(eng, monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(found.url == eng.url for found in engine.list()):
        pytest.skip("this engine was not started here")
    found = engine.attach(eng.url)
    assert len(list(found.logs(5))) == 5
    assert next(found.logs(5, follow=True)) == next(found.logs(5))
    monkeypatch.setattr(found, "log", None)  # as of an engine on another machine
    with pytest.raises(FeatureUnsupported, match="not on this machine"):
        found.logs()
