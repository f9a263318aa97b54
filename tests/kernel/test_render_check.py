"""The last look before anything runs: vLLM's ids against the ones that were shown."""

import numpy as np
import pytest

from engine.errors import RenderMismatch
from engine.kernel.contexts import StoredContext
from engine.kernel.generation import check_ids
from engine.protocol import ImageRule


def stored(ids: list[int]) -> StoredContext:
    return StoredContext(id="sha256:x", token_ids=np.asarray(ids, dtype=np.uint32), media=(), image_rule=ImageRule())


def test_equal_ids_pass() -> None:
    check_ids(stored([1, 2, 3]), [1, 2, 3])


@pytest.mark.parametrize(("ids", "t"), [([1, 2, 4], 2), ([1, 2], 2), ([1, 2, 3, 4], 3), ([], 0), ([9, 2, 3], 0)])
def test_the_first_difference_is_named(ids: list[int], t: int) -> None:
    with pytest.raises(RenderMismatch, match=f"{len(ids)} instead of 3") as caught:
        check_ids(stored([1, 2, 3]), ids)
    assert caught.value.detail["t"] == t
