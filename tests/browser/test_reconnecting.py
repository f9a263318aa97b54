"""When nobody answers behind a widget any more: a kernel that restarted, a page that was loaded again."""

from __future__ import annotations

import pytest

from tests.browser.conftest import READY
from tests.browser.widget_pages import eventually, open_cells
from tests.fabricated_capture import capture, rendered

pytestmark = pytest.mark.browser

RESTART = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
SAVE = "() => window.jupyterapp.commands.execute('docmanager:save')"
GRID, STRIP = ".ink-spans [role='grid']", ".ink-routing [aria-roledescription='token strip']"


@pytest.fixture
def page(lab, visit, tmp_path):
    capture(rendered(repeat=2)).save(tmp_path / "run.zarr")
    page = open_cells(
        lab, visit, tmp_path / "two.ipynb",
        "from workbench import Capture\nfrom widgets import RoutingMap, SpanTable\n"
        f"cap = Capture.load({str(tmp_path / 'run.zarr')!r})",
        "table = SpanTable(cap)\ntable", "view = RoutingMap(cap)\nview",
    )  # fmt: skip
    page.locator(STRIP).wait_for()
    page.locator(GRID).wait_for()
    return page


def selects(lab, page) -> None:
    """Both widgets answer: keys in each reach Python."""
    page.locator(GRID).focus()
    for key in ("Home", "Enter"):
        page.keyboard.press(key)
    eventually(lab, page, "len(table.selection)", "2")
    page.locator(STRIP).focus()
    for key in ("End", "Enter"):
        page.keyboard.press(key)
    eventually(lab, page, "list(view.selection) == [len(cap) - 1, len(cap)]", "True")


def test_a_page_loaded_again_and_a_kernel_restarted(page, lab, shoot):
    selects(lab, page)

    # Loaded again: the widgets come back from the kernel as they were, and answer.
    page.evaluate(SAVE)
    page.reload()
    page.wait_for_function(READY)
    page.locator(STRIP).wait_for()
    page.locator(GRID).wait_for()
    eventually(lab, page, "list(view.selection) == [len(cap) - 1, len(cap)]", "True")
    page.get_by_text("Clear the selection").or_(page.get_by_role("button", name="Clear the selection")).first.wait_for()
    page.locator(STRIP).focus()
    page.keyboard.press("Escape")
    eventually(lab, page, "view.selection", "[]")
    assert page.locator(".ink-lost:visible").count() == 0

    # The kernel restarted: both say so and what is lost, and keep what they drew.
    page.evaluate(RESTART)
    for widget in (".ink-spans", ".ink-routing"):
        page.locator(f"{widget} .ink-lost").wait_for(state="visible")
    lost = page.locator(".ink-routing .ink-lost")
    assert "Lost with a restart: the capture in memory, unless it was saved." in lost.inner_text()
    assert page.locator(STRIP).is_visible()
    shoot(page.locator(".ink-routing"), "routing-map-lost")

    # One press runs the cells down to this one; both widgets are new ones that answer.
    page.wait_for_function(READY)
    lost.get_by_role("button", name="Run the cells down to this one").click()
    page.wait_for_function("() => document.querySelectorAll('.ink-lost:not([hidden])').length === 0")
    page.locator(STRIP).wait_for()
    page.locator(GRID).wait_for()
    selects(lab, page)
