"""Cleaning a folder that engines have used."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from engine.cleaning import clean, named_blobs
from engine.errors import BadRequest
from engine.protocol import ImageRule, Media, context_id
from engine.protocol.wire import frame_context
from workbench.cli import main

DAY_S = 86_400.0


def aged(path: Path, days: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_bytes(b"x" * 1000)
    then = time.time() - days * DAY_S
    for one in (path, path.parent):
        os.utime(one, (then, then))
    return path


def context(home: Path, blob: str, *, days: float, first_id: int) -> Path:
    media = (Media(kind="image", blob=f"sha256:{blob}", start=2, tokens=2),)
    ids = np.arange(40, dtype=np.uint32) + first_id
    name = context_id(ids, media, ImageRule())
    path = home / "contexts" / f"{name.removeprefix('sha256:')}.iwc"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(frame_context(name, ids, media, ImageRule()))
    return aged(path, days)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INKLING_CACHE", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    return tmp_path / "engine"


def test_old_things_go_and_what_a_kept_context_names_stays(home: Path) -> None:
    used, unused = "a" * 64, "b" * 64
    new, old = context(home, used, days=1, first_id=0), context(home, unused, days=30, first_id=5)
    blobs = [aged(home / "blobs" / name, 30) for name in (used, unused)]
    capture, log = aged(home / "captures" / "one" / "routing.npy", 30), aged(home / "runs" / "two" / "kernel.log", 30)
    assert named_blobs(new) == {used}
    for path in (new, old):
        aged(path, 1 if path == new else 30)  # reading it counted as use
    planned = clean(older_than_s=7 * DAY_S, dry_run=True)
    assert planned.files == 4
    assert all(path.exists() for path in (old, *blobs, capture, log))
    assert clean(older_than_s=7 * DAY_S).files == 4
    assert [path.exists() for path in (new, old, *blobs, capture, log)] == [True, False, True, False, False, False]


def test_an_empty_or_missing_home_is_no_error(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engine", "clean", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == 0


def test_a_file_that_is_no_context_names_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.iwc"
    path.write_bytes(b"no")
    assert named_blobs(path) == set()


def test_a_negative_age_is_refused(home: Path) -> None:
    with pytest.raises(BadRequest, match="age"):
        clean(older_than_s=-1)
