"""The span table in JupyterLab beside the routing map: filter, keys, and one selection for both."""

from __future__ import annotations

import json

import pytest

from tests.browser.widget_pages import check_qualities, looks, open_cells
from tests.fabricated_capture import capture, rendered

pytestmark = pytest.mark.browser

GRID = ".ink-spans [role='grid']"


@pytest.fixture(scope="module")
def cap():
    return capture(rendered(repeat=2))


@pytest.fixture
def page(lab, visit, cap, tmp_path):
    cap.save(tmp_path / "run.zarr")
    cells = [
        "from workbench import Capture\nfrom widgets import RoutingMap, SpanTable, link",
        f"cap = Capture.load({str(tmp_path / 'run.zarr')!r})",
        "table, routing = SpanTable(cap), RoutingMap(cap)\nlinks = link(table, routing)\ntable",
        "routing",
    ]  # fmt: skip
    page = open_cells(lab, visit, tmp_path / "spans.ipynb", *cells)
    page.locator(GRID).wait_for()
    return page


def selection(lab, page) -> list[int]:
    return json.loads(lab.python(page, "print(routing.selection)"))


def test_table_filters_moves_and_selects_for_both_widgets(page, lab, cap, shoot):
    content = [span for span in cap.spans if span.modality != "framing"]
    assert page.locator(GRID).get_attribute("aria-rowcount") == str(len(content))
    shoot(page.locator(".ink-spans"), "span-table-lab")

    # Keys: down, down, Enter selects the third span; the other widget has the same tokens.
    page.locator(GRID).focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    third = content[2]
    page.wait_for_function("() => document.querySelectorAll(\".ink-spans [aria-selected='true']\").length === 1")
    for _ in range(50):
        if selection(lab, page) == [third.start, third.stop]:
            break
        page.wait_for_timeout(100)
    assert selection(lab, page) == [third.start, third.stop]
    active = page.locator(GRID).get_attribute("aria-activedescendant")
    assert third.label in page.locator(f"#{active}").inner_text()

    # Python chooses, the table follows and reads out.
    audio = next(span for span in cap.spans if span.modality == "audio")
    lab.python(page, f"routing.selection = [{audio.start + 1}, {audio.start + 3}]")
    page.wait_for_function("() => document.querySelector('.ink-spans .ink-readout').innerText.includes('call.wav')")

    # Filter: framing joins, a name narrows, nothing matches and says so.
    page.get_by_role("button", name="framing").click()
    page.wait_for_function(f"() => document.querySelector(\"{GRID}\").getAttribute('aria-rowcount') === '{len(cap.spans)}'")
    page.get_by_role("searchbox").fill("page 2")
    page.wait_for_function(f"() => document.querySelector(\"{GRID}\").getAttribute('aria-rowcount') === '1'")
    page.get_by_role("searchbox").fill("nothing like this")
    page.get_by_text("No span matches").wait_for()
    shoot(page.locator(".ink-spans"), "span-table-lab-empty")
    page.get_by_role("searchbox").fill("")
    check_qualities(page, ".ink-spans")
    looks(page, ".ink-spans", "span-table", shoot)
