"""Reports of captures too large to embed: an overview and a static picture, small, self-contained, saying what is not in them."""

from __future__ import annotations

import json
import re

import pytest

from tests.fabricated_capture import capture, rendered
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


@pytest.mark.slow
def test_a_million_tokens_make_a_small_file(tmp_path) -> None:
    cap = capture(rendered(repeat=21_000))
    assert len(cap) > 1_000_000
    assert write_report(tmp_path / "report.html", capture=cap).stat().st_size < 5_000_000
