"""What gives way when a folder is full, and what is refused."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine import recipes
from engine.errors import BadRequest, QuotaFull
from engine.kernel.blobs import BlobStore
from engine.kernel.quotas import KEPT_S, Quota, used_now


def put(folder: Path, name: str, size: int, age_s: float) -> Path:
    path = folder / name
    path.write_bytes(b"x" * size)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_what_nobody_used_for_longest_gives_way(tmp_path: Path) -> None:
    oldest, old, new = (put(tmp_path, name, 100, age * KEPT_S) for name, age in (("c", 9), ("a", 5), ("b", 2)))
    quota = Quota(tmp_path, 350, limit="limits.x")
    quota.make_room(50)
    assert oldest.exists()
    quota.make_room(80)
    assert not oldest.exists()
    assert old.exists()
    assert new.exists()
    used_now(old)
    put(tmp_path, "d", 130, 0)
    quota.make_room(100)
    assert old.exists(), "it was used just now"
    assert not new.exists()


def test_what_was_used_lately_stays_and_the_new_one_is_refused_by_name(tmp_path: Path) -> None:
    kept = put(tmp_path, "a", 300, 1)
    quota = Quota(tmp_path, 350, limit="limits.x")
    with pytest.raises(QuotaFull, match=r"300 of 350 \(limits\.x\)") as caught:
        quota.make_room(51)
    assert caught.value.detail["limit"] == "limits.x"
    assert kept.exists()
    quota.make_room(50)


def test_another_kernels_files_are_seen_when_it_looks_full(tmp_path: Path) -> None:
    quota = Quota(tmp_path, 1000, limit="limits.x")
    quota.make_room(600)
    put(tmp_path, "ours", 600, 0).unlink()  # cleaned away by someone
    quota.make_room(600)
    put(tmp_path, "theirs", 700, 0)
    with pytest.raises(QuotaFull):
        quota.make_room(600)


def test_a_blob_that_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, limit_bytes=1000, total_bytes=1500)

    async def chunks(content: bytes) -> AsyncIterator[bytes]:
        yield content

    def send(content: bytes) -> str:
        name = f"sha256:{hashlib.sha256(content).hexdigest()}"
        asyncio.run(store.put(name, chunks(content)))
        return name

    first = send(b"a" * 800)
    with pytest.raises(QuotaFull, match="blobs_bytes"):
        send(b"b" * 800)
    assert len(list(tmp_path.iterdir())) == 1
    os.utime(store.path(first), (time.time() - 2 * KEPT_S,) * 2)
    assert store.has(send(b"b" * 800))
    assert not store.has(first)


def test_a_recipe_may_set_the_kernels_limits_and_no_others(tmp_path: Path) -> None:
    def recipe(limits: str) -> recipes.Recipe:
        path = tmp_path / "mine.toml"
        path.write_text(f"title = 't'\nmodel = 'demo'\n[limits]\n{limits}\n", "utf-8")
        return recipes.load(path)

    assert recipe("requests = 3").limits == {"requests": 3}
    for bad in ("context_tokens = 5", "requests = 0", "requests = true", "requests = 'many'"):
        with pytest.raises(BadRequest, match="limit"):
            recipe(bad)
