"""The one-line analyses of routing against plain loops over the arrays, with structure that a reader would look for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.protocol import RoutingPlan, Span
from tests.fabricated_capture import capture, rendered
from tests.fabricated_insides import capture as fabricated
from tests.fabricated_insides import plan_of
from workbench.errors import SelectionError
from workbench.expert_views import best_windows
from workbench.figures import png
from workbench.routing import group_tokens
from workbench.routing_windows import RoutingWindows


@pytest.fixture(scope="module")
def cap():
    return capture(rendered(repeat=3), experts=12, top_k=3)


def tokens_of(cap, by: str, name: str) -> list[int]:
    names, groups = group_tokens(cap.spans, by)
    return np.flatnonzero(groups == names.index(name)).tolist()


def test_routing_by_modality_is_what_a_loop_counts(cap) -> None:
    found = cap.routing_by("modality")
    expert, weight, sink = (cap.routing[name].values for name in ("expert", "weight", "sink"))
    for name in ("text", "image", "audio", "framing"):
        mine = tokens_of(cap, "modality", name)
        for column, layer in enumerate(cap.routing["l"].values):
            share, mass, bits, count = np.zeros(12), [], [], np.zeros(12)
            for t in mine:
                total = weight[t, column].sum(dtype=np.float64) + sink[t, column].sum(dtype=np.float64)
                p = weight[t, column] / weight[t, column].sum(dtype=np.float64)
                bits.append(-(p * np.log2(p)).sum())
                mass.append(sink[t, column].sum() / total)
                for k in range(3):
                    share[expert[t, column, k]] += weight[t, column, k] / total
                    count[expert[t, column, k]] += 1
            at = {"modality": name, "l": layer}
            np.testing.assert_allclose(found["share"].sel(at), share / len(mine), rtol=1e-5, atol=1e-8)
            np.testing.assert_array_equal(found["count"].sel(at), count)
            assert found["sink_mass"].sel(at).item() == pytest.approx(np.mean(mass), rel=1e-5)
            assert found["entropy_bits"].sel(at).item() == pytest.approx(np.mean(bits), rel=1e-5)
            p = count[count > 0] / count.sum()
            assert found["balance"].sel(at).item() == pytest.approx(-(p * np.log2(p)).sum() / np.log2(12))
    assert found["sink_mass"].sel(modality="framing").mean() > found["sink_mass"].sel(modality="text").mean() + 0.05
    assert "intervention" in found.notes[-1]


def test_routing_of_some_tokens_is_grouped_by_where_they_are() -> None:
    """Tokens 120 to 140 of a context lie in a picture and behind it, whatever row of the arrays they are."""
    tokens = range(120, 140)
    some, arrays = fabricated(plan_of(routing=RoutingPlan(tokens=(tokens,), logits=True)))
    names, groups = group_tokens(some.spans, "modality")
    want = np.bincount(groups[120:140], minlength=len(names))
    for result in (some.routing_by("modality"), some.margin("modality"), some.routing_entropy("modality")):
        np.testing.assert_array_equal(result["tokens"].isel(l=0), want)
    used = some.expert(2, 3).by("modality")
    np.testing.assert_array_equal(used["tokens"], want)
    share = some.expert(2, 3).share()
    assert np.isnan(share[:120]).all()
    assert np.isnan(share[140:]).all()
    chosen = (arrays["routing.expert"][:, 1] == 3).any(-1)
    np.testing.assert_array_equal(share[120:140] > 0, chosen)
    best = some.expert(2, int(arrays["routing.expert"][0, 1, 0])).patches(30)
    assert set(best["start"].values.tolist()) <= set(tokens)
    assert best.data.sizes["rank"] > 0
    with pytest.raises(SelectionError, match="routing of 20 of 205 tokens, a map shows all"):
        RoutingWindows.of(some)


def test_coactivation_counts_pairs(cap) -> None:
    found = cap.coactivation(2)
    expert = cap.routing["expert"].sel(l=2).values
    count = np.zeros((12, 12), int)
    for chosen in expert:
        for one in chosen:
            for other in chosen:
                count[one, other] += 1
    np.testing.assert_array_equal(found["count"], count)
    one, other = 3, 7
    expected = count[one, other] * len(expert) / (count[one, one] * count[other, other])
    assert found["lift"].sel(e=one, other=other).item() == pytest.approx(expected)
    assert np.isnan(np.diag(found["lift"].values)).all()


def test_the_margin_is_from_the_last_chosen_to_the_best_left_out(cap) -> None:
    with pytest.raises(SelectionError, match="logits"):
        cap.margin()
    import dataclasses

    logits = np.random.default_rng(0).normal(size=(len(cap), 5, 14)).astype(np.float32)
    score = 1 / (1 + np.exp(-logits[..., :12].astype(np.float64)))
    order = np.argsort(-score, axis=-1)
    routing = cap.routing.assign(
        logits=(("t", "l", "g"), logits), expert=(("t", "l", "k"), order[..., :3].astype(np.uint16))
    ).assign_attrs(cap.routing.attrs)
    other = dataclasses.replace(cap, seams={"routing": routing})
    best = np.take_along_axis(score, order, -1)
    margin = best[..., 2] - best[..., 3]
    mine = tokens_of(cap, "modality", "image")
    np.testing.assert_allclose(other.margin("modality")["margin"].sel(modality="image"), margin[mine].mean(0), rtol=1e-6)


def test_an_expert_s_favourites(cap) -> None:
    view = cap.expert(3, 5)
    share = view.share()
    best = view.passages(3, tokens=4)
    spans = [span for span in cap.spans if span.modality == "text"]
    means = {
        (start, min(start + 4, span.stop)): share[start : min(start + 4, span.stop)].mean(dtype=np.float64)
        for span in spans for start in range(span.start, max(span.start + 1, span.stop - 3))
    }  # fmt: skip
    assert best["share"].values[0] == pytest.approx(max(means.values()))
    for rank in range(best.data.sizes["rank"]):
        at = int(best["start"][rank]), int(best["stop"][rank])
        assert best["share"].values[rank] == pytest.approx(means[at])
        assert "⟦" in str(best["text"].values[rank])
    starts = np.sort(best["start"].values)
    assert (np.diff(starts) >= 4).all()

    patches = view.patches(5)
    image = next(span for span in cap.spans if span.modality == "image")
    order = np.sort(share[image.start : image.stop])[::-1]
    np.testing.assert_allclose(patches["share"], order[: len(patches["share"])])
    for rank in range(patches.data.sizes["rank"]):
        place = image.place(int(patches["start"][rank]))
        assert (place.row, place.col) == (patches["row"][rank].item(), patches["col"][rank].item())

    favourite = max(range(12), key=lambda e: cap.expert(2, e).by("modality")["share"].sel(modality="audio").item())
    frames = cap.expert(2, favourite).frames(2, tokens=5)
    audio = next(span for span in cap.spans if span.modality == "audio")
    first = int(frames["start"][0])
    assert frames["start_s"].values[0] == pytest.approx((first - audio.start) / 20)
    assert frames["stop_s"].values[0] - frames["start_s"].values[0] == pytest.approx(5 / 20)


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=80), st.integers(1, 9), st.integers(1, 6), st.integers(1, 20))
def test_windows_are_the_best_that_do_not_overlap(values, width, most, cut) -> None:
    edges = sorted({0, min(cut, len(values)), len(values)})
    spans = [Span(start=a, stop=b, part=None, label="x", modality="text", message=0) for a, b in itertools.pairwise(edges)]
    share = np.asarray(values, np.float32)
    found = best_windows(share, spans, width, most)
    taken: list[tuple[int, int]] = []
    every = [
        (s, min(s + width, span.stop), float(share[s : min(s + width, span.stop)].mean(dtype=np.float64)))
        for span in spans for s in range(span.start, max(span.start + 1, span.stop - width + 1))
    ]  # fmt: skip
    for start, stop, mean in found:
        free = [m for a, b, m in every if all(b <= s or a >= e for s, e in taken)]
        assert mean == pytest.approx(max(free), abs=1e-9)
        assert all(stop <= s or start >= e for s, e in taken)
        taken.append((start, stop))
    free = [m for a, b, m in every if all(b <= s or a >= e for s, e in taken)]
    assert len(found) == most or not free or max(free) < 1e-9


def test_tokens_that_were_never_written_count_nowhere() -> None:
    cap = capture(missing=slice(20, 40))
    assert np.isnan(cap.expert(1, 0).share()[20:40]).all()
    assert cap.sinks()["tokens"].values.tolist() == [len(cap) - 20] * 5
    found = cap.expert(1, 0).passages(20)
    for start, stop in zip(found["start"].values, found["stop"].values, strict=True):
        assert stop <= 20 or start >= 40
    assert cap.coactivation(1).data.attrs["tokens"] == len(cap) - 20


def test_everything_draws_and_shows_a_table(cap) -> None:
    view = cap.expert(2, 1)
    results = [
        cap.expert_load(), cap.expert_load("modality"), cap.routing_by("part"), cap.sinks(), cap.sinks("span"),
        cap.routing_entropy("part"), cap.balance(), cap.balance("part"), cap.coactivation(1), view.by("part"),
        view.passages(), view.patches(), view.frames(),
    ]  # fmt: skip
    for result in results:
        assert result._repr_html_().startswith("<table>")
        assert len(result.to_pandas()) == int(np.prod(list(result.data.sizes.values())))
        assert png(result.plot(), dpi=40).startswith(b"\x89PNG")


def test_what_is_not_there_is_named(cap) -> None:
    with pytest.raises(SelectionError, match="layer 0 has no routing"):
        cap.expert(0, 1)
    with pytest.raises(SelectionError, match="experts 0 to 11"):
        cap.expert(1, 12)
    with pytest.raises(SelectionError, match="group by"):
        cap.routing_by("colour")
    with pytest.raises(SelectionError, match="at least 1"):
        cap.expert(1, 1).passages(0)
