"""Reports of captures too large to embed: an overview and a static picture, small, self-contained, saying what is not in them."""

from __future__ import annotations

import html
import json
import re

import pytest

from engine.protocol import AttentionPlan, ResidualPlan, RoutingPlan, SconvPlan
from tests.fabricated_capture import capture, rendered
from tests.fabricated_insides import capture as fabricated
from tests.fabricated_insides import plan_of
from workbench.report_findings import findings
from workbench.reports import write_report
from workbench.routing_views import static_arrays


def data_of(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="routing-data">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


def test_a_capture_that_is_too_large_to_embed_leaves_its_overview(tmp_path) -> None:
    cap = capture(rendered(repeat=900))
    assert static_arrays(cap) is None
    analyses = [cap.routing_by("part"), cap.expert(2, 3).passages()]
    page = write_report(tmp_path / "report.html", capture=cap, analyses=analyses).read_text("utf-8")
    data = data_of(page)
    assert data["arrays"] is None
    assert data["traits"]["meta"]["tokens"] == len(cap)
    assert {"share", "chosen", "sink", "entropy", "sink_mass"} <= set(data["bytes"])
    assert "this file holds the overview; the saved capture holds every token" in page
    assert len(page) < 2_000_000
    assert page.count('<figure class="twin">') == 2
    for result in analyses:
        assert result.title in page
        assert result.notes[-1] in page
    # Nothing is fetched: no address but those in provenance text.
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)


@pytest.mark.parametrize("tokens", ["all", (range(150, 170),)])
def test_a_report_has_findings_of_every_seam_that_was_recorded(tmp_path, tokens) -> None:
    cap, _ = fabricated(plan_of(
        routing=RoutingPlan(tokens=tokens), sconv=SconvPlan(tokens=tokens), attention=AttentionPlan(queries=(9, 30)),
        residual=ResidualPlan(tokens="last", lens=4), drafts=True,
    ))  # fmt: skip
    results = findings(cap)
    page = write_report(tmp_path / "report.html", capture=cap, analyses=results).read_text("utf-8")
    assert len(results) == 6
    assert all(html.escape(result.title) in page for result in results)
    # The map needs every token; without them the analyses say what there is.
    assert ("Which experts it used" in page) == (tokens == "all")
    for seam in ("sconv", "attention", "residual", "drafts"):
        alone, _ = fabricated(plan_of(**{seam: True}))
        assert write_report(tmp_path / "alone.html", capture=alone, analyses=findings(alone)).stat().st_size > 1_000


@pytest.mark.slow
def test_a_million_tokens_make_a_small_file(tmp_path) -> None:
    cap = capture(rendered(repeat=21_000))
    assert len(cap) > 1_000_000
    written = write_report(tmp_path / "report.html", capture=cap, analyses=[*findings(cap), cap.expert(2, 3).passages()])
    assert written.stat().st_size < 5_000_000
