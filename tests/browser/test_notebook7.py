"""The widgets in Notebook 7, the other host of the same modules: shown, driven by keys, found again after a restart."""

from __future__ import annotations

import shutil

import pytest

from tests.browser.conftest import READY
from tests.browser.widget_pages import check_accessible, eventually, write_notebook
from tests.fabricated_capture import capture, rendered

pytestmark = [pytest.mark.browser, pytest.mark.slow]

STRIP = ".ink-routing [aria-roledescription='token strip']"
HOSTS_OWN = r"filebrowser:open-path|reading 'schema'"
"""Notebook 7 without its own file browser's settings: it goes on without them."""


def test_widgets_work_in_notebook_7(lab, visit, tmp_path, shoot):
    pytest.importorskip("notebook", reason="Notebook 7 is a development dependency of these tests: pip install notebook")
    capture(rendered(repeat=2)).save(tmp_path / "run.zarr")
    cells = (
        f"from workbench import Capture\nfrom widgets import RoutingMap\ncap = Capture.load({str(tmp_path / 'run.zarr')!r})",
        "view = RoutingMap(cap)\nview",
    )
    shutil.copy(write_notebook(tmp_path / "seven.ipynb", *cells), lab.folder / "seven.ipynb")
    page = visit(f"{lab.url}/notebooks/seven.ipynb?token={lab.token}", width=1200, height=1400, hosts=HOSTS_OWN)
    page.wait_for_function(READY)
    lab.run_all(page)
    page.locator(STRIP).wait_for()
    assert not page.locator("figure.inkling-twin img").is_visible()
    page.locator(STRIP).focus()
    for key in ("End", "Enter"):
        page.keyboard.press(key)
    eventually(lab, page, "list(view.selection) == [len(cap) - 1, len(cap)]", "True")
    check_accessible(page, ".ink-routing")
    shoot(page, "notebook7")

    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.locator(".ink-lost").wait_for(state="visible")
    page.wait_for_function(READY)
    page.get_by_role("button", name="Run the cells down to this one").click()
    page.wait_for_function("() => document.querySelectorAll('.ink-lost:not([hidden])').length === 0")
    page.locator(STRIP).wait_for()
    eventually(lab, page, "len(view.window)", "2")
