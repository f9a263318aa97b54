"""What draft heads proposed, in one line each, against plain loops over the arrays."""

from __future__ import annotations

import numpy as np
import pytest

from engine.protocol import CapturePlan, DraftsPlan, Span
from tests.fabricated_capture import rendered
from tests.fabricated_insides import capture, plan_of
from workbench.captures import Capture
from workbench.errors import SelectionError
from workbench.figures import png
from workbench.routing import group_tokens


@pytest.fixture(scope="module")
def cap() -> Capture:
    return capture(plan_of(drafts=True))[0]


def test_dimensions_are_token_and_depth(cap: Capture) -> None:
    assert cap.drafts["token"].dims == ("t", "depth")
    assert cap.drafts["depth"].values.tolist() == [1, 2, 3]
    assert "3 draft heads" in cap._repr_html_()


def test_shares_are_of_the_proposed_tokens_group(cap: Capture) -> None:
    found, ids = cap.drafts_by("modality"), cap.token_ids
    names, groups = group_tokens(cap.spans, "modality")
    token, accepted, logprob = (cap.drafts[name].values for name in ("token", "accepted", "logprob"))
    for number, name in enumerate(names):
        for depth in (1, 2, 3):
            rows = [t for t in range(len(cap)) if t + 1 + depth < len(cap) and groups[t + 1 + depth] == number]
            at = {"group": name, "depth": depth}
            assert found["tokens"].sel(at).item() == len(rows)
            right = np.mean([token[t, depth - 1] == ids[t + 1 + depth] for t in rows])
            assert found["right"].sel(at).item() == pytest.approx(right)
            assert found["accepted"].sel(at).item() == pytest.approx(np.mean([accepted[t, depth - 1] == 1 for t in rows]))
            assert found["logprob"].sel(at).item() == pytest.approx(np.mean([logprob[t, depth - 1] for t in rows]), rel=1e-5)
    everything = cap.drafts_by()
    assert (everything["accepted"].values[0, :-1] >= everything["accepted"].values[0, 1:]).all()


def test_steps_write_every_token_once(cap: Capture) -> None:
    for first in (None, 1, len(cap) // 2, len(cap) - 1):
        found = cap.draft_steps(first)
        begin = 1 if first is None else first
        written, token = found["written"].values, found["token"].values
        # Each step begins where the one before it ended; the last may accept more than there is room for.
        assert (np.diff(token) == written[:-1]).all()
        assert begin + written.sum() >= len(cap) - 1
        assert (begin + written[:-1].sum() < len(cap) - 1) or not len(written)
        for at, accepted in zip(token, found["accepted"].values, strict=True):
            verdicts = cap.drafts["accepted"].sel(t=at - 2).values
            assert accepted == (verdicts == 1).sum()
            assert (verdicts[:accepted] == 1).all()
        assert found.data.attrs["steps"] == len(written)


def test_a_replys_steps_begin_with_it() -> None:
    context = rendered()
    last = context.spans[-1]
    reply = Span(start=last.start, stop=last.stop, part=None, label="reply", modality="text", message=9)
    spans = (*context.spans[:-1], reply)
    cap, _ = capture(plan_of(drafts=True), type(context)(
        token_ids=context.token_ids, spans=spans, media=context.media, image_rule=context.image_rule
    ))  # fmt: skip
    assert cap.draft_steps().data.attrs["first"] == reply.start


def test_a_gap_or_a_late_beginning_is_refused() -> None:
    cap, _ = capture(CapturePlan(drafts=DraftsPlan(tokens=(range(10, 20), range(30, 40)))))
    with pytest.raises(SelectionError, match=r"capture with DraftsPlan\(tokens=range\(10, "):
        cap.draft_steps()
    tail, _ = capture(CapturePlan(drafts=DraftsPlan(tokens=(range(50, len(cap)),))))
    assert tail.draft_steps().data.attrs["first"] == 51
    with pytest.raises(SelectionError, match="not recorded behind every token from 39 on"):
        tail.draft_steps(40)


def test_figures_and_files(cap: Capture, tmp_path) -> None:
    for result in (cap.drafts_by("part"), cap.drafts_by(), cap.draft_steps(), cap.draft_steps(len(cap) - 1)):
        assert png(result.plot()).startswith(b"\x89PNG")
        assert any("random weights" in note for note in result.notes)
    again = Capture.load(cap.save(tmp_path / "run.zarr"))
    assert again.drafts.identical(cap.drafts)
