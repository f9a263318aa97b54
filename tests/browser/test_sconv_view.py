"""The convolution view in JupyterLab: what is drawn, keys and pointer, and its static twin."""

from __future__ import annotations

import nbformat
import pytest

from tests.browser.widget_pages import check_qualities, eventually, looks, write_notebook
from tests.fabricated_insides import capture, plan_of

pytestmark = pytest.mark.browser

VIEW, STRIP, READOUT = ".ink-sconv", ".ink-sconv [aria-roledescription='token strip']", ".ink-sconv .ink-readout"


@pytest.fixture(scope="module")
def cap():
    return capture(plan_of(sconv=True))[0]


@pytest.fixture(scope="module")
def notebook(cap, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sconv")
    cap.save(folder / "run.zarr")
    return write_notebook(
        folder / "sconv.ipynb",
        f"from workbench import Capture\nfrom widgets import SconvView\ncap = Capture.load({str(folder / 'run.zarr')!r})",
        "view = SconvView(cap)\nview",
    )


def test_the_view_answers_keys_and_pointer_and_leaves_a_twin(lab, visit, notebook, cap, shoot):
    page = visit(width=1200, height=1400)
    lab.open(page, notebook)
    lab.run_all(page)
    page.locator(STRIP).wait_for()
    page.locator(f"{VIEW} .ink-taps tbody th").first.wait_for()
    assert not page.locator("figure.inkling-twin img").is_visible()

    # Keys in the small multiples choose a kernel; table and strip follow.
    page.locator(f"{VIEW} [aria-roledescription='small multiples']").focus()
    for key in ("ArrowUp", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    eventually(lab, page, "view.layer, view.site", "2 attention")
    page.get_by_text("What each tap brings: layer 2, after attention, all tokens").wait_for()
    want = cap.sconv_taps("modality").data.sel(l=2, site="attention", group="image")
    row = page.locator(f"{VIEW} .ink-taps tbody tr", has_text="image").inner_text()
    assert f"{float(want['ratio']):.2f} ×" in row
    assert f"{float(want['share'].sel(tap=-3)) * 100:.0f} %" in row

    # What colours the tokens, from the page and from Python.
    page.get_by_label("Colour tokens by").select_option("tap2")
    eventually(lab, page, "view.metric, view.tap", "tap 2")
    lab.python(page, "view.metric = 'cosine'; view.selection = [60, 70]")
    page.get_by_text("after attention, tokens 60 to 69").wait_for()
    page.locator(STRIP).focus()
    page.keyboard.press("Home")
    for _ in range(5):
        page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.ink-sconv .ink-readout').innerText.includes('layer 0 adds: keys')")
    assert "engine= and reply=" in page.locator(VIEW).inner_text()
    # The same as tables.
    page.locator(VIEW).get_by_role("button", name="Show the numbers as tables").click()
    median = float(cap.sconv["kernel"].sel(l=2, site="attention").isel(tap=-1).median("c"))
    row = page.locator(f"{VIEW} .ink-tables tbody tr", has_text="Layer 2, after attention").inner_text()
    assert row.split()[-1] == f"{median:.2f}".replace("-", "−")
    page.locator(VIEW).get_by_role("button", name="Show the numbers as tables").click()
    check_qualities(page, VIEW)
    lab.python(page, "view.selection = []; view.window = [0, 205]; view.metric = 'ratio'")
    looks(page, VIEW, "sconv-view", shoot)


def test_a_saved_notebook_shows_the_twin_without_a_kernel(notebook, visit, tmp_path, shoot):
    nbclient = pytest.importorskip("nbclient")
    from nbconvert import HTMLExporter

    book = nbformat.read(notebook, as_version=4)
    nbclient.NotebookClient(book, timeout=120, store_widget_state=False).execute()
    text, _ = HTMLExporter(template_name="basic").from_notebook_node(book)
    (tmp_path / "book.html").write_text(text, encoding="utf-8")
    page = visit((tmp_path / "book.html").as_uri())
    picture = page.locator("figure.inkling-twin img").first
    assert picture.is_visible()
    assert picture.evaluate("image => image.naturalWidth") > 600
    shoot(page, "sconv-view-twin")
