"""Writing rows as steps bring them, and counting them; the convolution's terms from paged inputs; no engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from engine.kernel.array_files import ArrayFile
from engine.kernel.batch_rows import Rows
from engine.kernel.recording import Selection, TokenRecorder
from engine.kernel.seam_sconv import along_term, convolved, history, summaries, tap_factors
from engine.protocol import TokenRange

ARRAYS = {
    "x.value": (("t", "l", "k"), (7, 2, 3), "<f4"),
    "x.norm": (("t", "l", "site"), (7, 2, 2), "<f4"),
    "x.wide": (("t", "l", "site", "c"), (7, 2, 2, 4), "<f4"),
    "x.fixed": (("l", "c"), (2, 4), "<f4"),
}
SELECTED = Selection((TokenRange(2, 5), TokenRange(8, 12)))


def test_a_selection_finds_its_rows_in_any_step() -> None:
    positions = [2, 3, 4, 8, 9, 10, 11]
    for start in range(13):
        for stop in range(start, 14):
            first, found = SELECTED.locate(start, stop)
            want = [t for t in positions if start <= t < stop]
            assert found.tolist() == want
            assert not want or first == positions.index(want[0])


def record(folder: Path, steps: list[tuple[int, int]], *, drop: int | None = None) -> TokenRecorder:
    """Steps of (first token, tokens), in rows that begin at 5; `drop` leaves a layer out of that step."""
    recorder = TokenRecorder(folder, "x", ARRAYS, SELECTED, [4, 9], parts=2)
    for number, (t, count) in enumerate(steps):
        rows = Rows(0, 5, 5 + count, t)
        recorder.begin(rows)
        step = torch.zeros(5 + count + 3)
        step[5 : 5 + count] = torch.arange(t, t + count)
        for layer in (4, 9, 17):
            for part in (0, 1):
                if not recorder.records(layer) or (drop == number and layer == 9):
                    continue
                mine = recorder.take(step)
                value, wide = torch.stack([mine * layer] * 3, 1), torch.stack([mine] * (3 + part), 1)
                recorder.put(layer, part, value=value, norm=mine + part, wide=wide)
        recorder.end()
    return recorder


def test_rows_land_where_they_belong_whatever_the_steps(tmp_path: Path) -> None:
    for number, steps in enumerate([[(0, 13)], [(0, 3), (3, 1), (4, 5), (9, 4)], [(t, 1) for t in range(13)]]):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert record(folder, steps).finish() == ({"x": (7, 7)}, [])
        positions = np.array([2, 3, 4, 8, 9, 10, 11], np.float32)
        value, norm, wide = (np.load(folder / f"x.{name}.npy") for name in ("value", "norm", "wide"))
        np.testing.assert_array_equal(value[:, 1, 2], positions * 9)
        np.testing.assert_array_equal(norm[:, 0], np.stack([positions, positions + 1], 1))
        np.testing.assert_array_equal(wide[:, 0, 1, 3], positions)
        assert np.isnan(wide[:, 0, 0, 3]).all()
        np.testing.assert_array_equal(np.load(folder / "x.seen.npy"), 1)


@pytest.mark.parametrize(
    ("steps", "drop", "words", "once"),
    [
        ([(0, 9)], None, "3 of 7 tokens were not seen by every layer (first: 9)", 4),
        ([(0, 9), (9, 4)], 0, "4 of 7 tokens were not seen by every layer (first: 2)", 3),
        ([(0, 13), (3, 6)], None, "3 tokens were computed more than once (first: 3)", 4),
    ],
)
def test_what_is_missing_or_came_twice_is_said(tmp_path: Path, steps, drop, words: str, once: int) -> None:
    coverage, problems = record(tmp_path, steps, drop=drop).finish()
    assert coverage == {"x": (once, 7)}
    assert any(words in problem for problem in problems)


def test_pieces_of_an_array_are_written_where_they_belong(tmp_path: Path) -> None:
    path, want = tmp_path / "a.npy", np.zeros((4, 3, 5), np.float32)
    first, other = ArrayFile(path, (4, 3, 5), "<f4", create=True), None
    other = ArrayFile(path, (4, 3, 5), "<f4", create=False)
    for file, at, values in (
        (first, (1,), np.ones((2, 3, 5))),
        (other, (0, 2), np.full(5, 7.0)),
        (other, (3, 1, 2), np.full(3, 9.0)),
    ):
        file.write(at, values)
        want[at + (0,) * (3 - len(at))] = 0
        want.reshape(-1)[np.ravel_multi_index(at + (0,) * (3 - len(at)), want.shape) :][: values.size] = values.reshape(-1)
    first.close()
    other.close()
    np.testing.assert_array_equal(np.load(path), want)


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 7])
def test_convolution_terms_do_not_depend_on_how_a_prompt_is_split(cut: int) -> None:
    """Inputs of earlier steps come from the paged cache, those of this step from its own rows; torch's conv1d is the reference."""
    random, tokens, heads, width, taps, page = torch.Generator().manual_seed(1), 19, 2, 3, 4, 4
    x = torch.randn(tokens, heads * width, generator=random)
    weight = torch.randn(heads * width, taps, generator=random)
    want = torch.nn.functional.conv1d(x.T[None], weight[:, None], padding=taps - 1, groups=heads * width)[0, :, :tokens].T
    blocks = torch.tensor([3, 0, 4, 1, 2])
    cache = torch.full((5, heads, page, 8), torch.nan)
    found = []
    for t in range(0, tokens, cut):
        part = x[t : t + cut]
        rows = Rows(0, 2, 2 + len(part), t)
        step = torch.cat([torch.full((2, heads * width), torch.nan), part])
        for first in (2, 2 + len(part) // 2):
            past = history(step, first, rows, taps, cache, blocks, (2, width))
            term = convolved(torch.cat([past, step[first:]]), weight.T)
            torch.testing.assert_close(term, want[t + first - 2 : t + len(part)])
        found.append(convolved(torch.cat([history(step, 2, rows, taps, cache, blocks, (2, width)), part]), weight.T))
        for offset, row in enumerate(part):
            position = t + offset
            cache[blocks[position // page], :, position % page, 2 : 2 + width] = row.view(heads, width)
    torch.testing.assert_close(torch.cat(found), want)


def test_taps_sum_to_the_term_and_changed_ones_are_scaled() -> None:
    random = torch.Generator().manual_seed(2)
    inputs, weight = torch.randn(9 + 3, 5, generator=random).double(), torch.randn(4, 5, generator=random).double()
    # Rows 2 and 7: without the tap that looks back furthest, the token itself twice; row 4: nothing.
    factors = tap_factors({(2.0, 1.0, 1.0, 0.0): [2, 7], (0.0, 0.0, 0.0, 0.0): [4]}, 9, 4, inputs.device)
    for given in (None, factors):
        scale = torch.ones(9, 4) if given is None else given
        taps = torch.stack([scale[:, tap, None] * inputs[tap : tap + 9] * weight[tap] for tap in range(4)])
        term = convolved(inputs, weight, given)
        torch.testing.assert_close(term, taps.sum(0))
        along = along_term(inputs, weight, term, given)
        torch.testing.assert_close(torch.stack(along), (taps * taps.sum(0)).sum(-1))
        torch.testing.assert_close(sum(along), (term * term).sum(-1))
    assert factors is not None
    assert factors[2].tolist() == [0, 1, 1, 2]
    assert tap_factors({}, 9, 4, inputs.device) is None


def test_summaries_of_nothing_are_zero() -> None:
    found = summaries(torch.zeros(2, 7))
    assert all(bool((value == 0).all()) for value in found.values())
