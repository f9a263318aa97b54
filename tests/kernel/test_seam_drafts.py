"""Verdicts over proposals, without an engine: accepted up to the first wrong one, unknown behind the end."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.kernel.seam_drafts import verdicts


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.data())
def test_a_step_accepts_up_to_the_first_wrong_proposal(ids: list[int], data: st.DataObject) -> None:
    heads = 3
    proposed = data.draw(
        st.lists(st.lists(st.integers(0, 2), min_size=heads, max_size=heads), min_size=len(ids), max_size=len(ids))
    )
    held, found = np.ones(len(ids), np.int8), []
    for depth in range(1, heads + 1):
        token = np.array([row[depth - 1] for row in proposed])
        held = verdicts(held, token, np.arange(len(ids)) + 1 + depth, np.array(ids))
        found.append(held)
    for t in range(len(ids)):
        expected = []
        for depth in range(1, heads + 1):
            if expected and expected[-1] != 1:
                expected.append(expected[-1])
            elif t + 1 + depth >= len(ids):
                expected.append(-1)
            else:
                expected.append(int(proposed[t][depth - 1] == ids[t + 1 + depth]))
        assert [int(part[t]) for part in found] == expected
