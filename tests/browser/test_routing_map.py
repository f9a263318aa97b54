"""The routing map in a real browser: in JupyterLab with Python behind it, and alone in a report."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import numpy as np
import pytest

from tests.browser.widget_pages import check_qualities, eventually, looks, open_cells, write_notebook
from tests.fabricated_capture import capture, rendered
from workbench import palettes, routing, samples
from workbench.readers import read_audio, read_image
from workbench.reports import write_report

pytestmark = pytest.mark.browser

HEAT, STRIP, READOUT = (
    ".ink-routing canvas[aria-roledescription='heat map']",
    "[aria-roledescription='token strip']",
    ".ink-readout",
)

PIXEL = """(canvas, [x, y]) => {
  const ratio = canvas.width / canvas.clientWidth;
  return [...canvas.getContext("2d").getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data].slice(0, 3);
}"""


VIEW, MEDIUM = ".ink-routing", ".ink-routing .ink-medium"


@pytest.fixture(scope="module")
def cap():
    found = capture(rendered(repeat=2, image_px=(280, 240), audio_s=1.35))
    for item in found.rendered.media:
        source = read_image if item.kind == "image" else read_audio
        found.rendered.blobs[item.blob] = source(samples.paths()[item.kind]).blob
    return found


@pytest.fixture(scope="module")
def other(cap):
    """The same tokens, five of which were not written."""
    return capture(cap.rendered, missing=slice(20, 25))


@pytest.fixture(scope="module")
def notebook(cap, tmp_path_factory) -> Path:
    """A notebook that opens the saved capture and shows its map."""
    folder = tmp_path_factory.mktemp("map")
    cap.save(folder / "run.zarr")
    return write_notebook(
        folder / "map.ipynb",
        f"from workbench import Capture\nfrom widgets import RoutingMap\ncap = Capture.load({str(folder / 'run.zarr')!r})",
        "m = RoutingMap(cap)\nm",
    )


@pytest.fixture
def page(lab, visit, notebook):
    page = visit(width=1400, height=1400)
    lab.open(page, notebook)
    lab.run_all(page)
    page.locator(STRIP).wait_for()
    return page


def heat_cell(page, row: int, expert: int) -> tuple[float, float]:
    """Middle of a cell in the heat map's own pixels (see heat.js: gutter 52, head 36, rows of 22 px for 5 layers)."""
    width = page.locator(HEAT).evaluate("canvas => canvas.clientWidth")
    cell = min(56, (width - 52 - 28 - max(96, min(200, width * 0.2))) / 16)
    return 52 + (expert + 0.5) * cell, 36 + (row + 0.5) * 22


def test_map_shows_what_was_captured_and_answers_keys_and_pointer(page, lab, cap, shoot):
    load = routing.load(cap.routing)["share"].values
    palette = np.frombuffer(palettes.cividis_bytes(), np.uint8).reshape(256, 3)
    twin = page.locator("figure.inkling-twin img")
    assert twin.count() == 1
    assert not twin.is_visible()  # a live map hides it
    page.wait_for_timeout(300)
    for row, expert in ((0, 3), (2, 9), (4, 15)):
        found = page.locator(HEAT).evaluate(PIXEL, list(heat_cell(page, row, expert)))
        expected = palette[round(load[row, expert] / load.max() * 254)]
        # The palette index is rounded in float32 in the browser: a neighbouring colour is allowed.
        assert np.abs(np.subtract(found, expected.astype(int))).max() <= 6
    shoot(page, "routing-map-lab")

    # Keys in the strip: the read-out names the token and its place, Enter selects, Python sees it.
    page.locator(STRIP).focus()
    page.keyboard.press("Home")
    for _ in range(4):
        page.keyboard.press("+")
    audio = next(span for span in cap.spans if span.modality == "audio")
    lab.python(page, f"m.window = [{audio.start - 2}, {audio.start + 10}]")
    page.keyboard.press("End")
    page.wait_for_function("() => document.querySelector('.ink-readout strong')?.textContent.startsWith('Token')")
    page.keyboard.press("Enter")
    eventually(lab, page, "m.selection", str([len(cap) - 1, len(cap)]))
    page.keyboard.press("Shift+ArrowLeft")
    eventually(lab, page, "m.selection", str([len(cap) - 2, len(cap)]))
    page.keyboard.press("Escape")
    eventually(lab, page, "m.selection", "[]")

    # Keys in the heat map: Enter chooses an expert, and the strip shows the tokens that use it.
    page.locator(HEAT).focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    eventually(lab, page, "m.cell, m.metric", "[2, 2] expert")
    share = load[1, 2] * 100
    assert f"{share:.1f}" in page.locator(READOUT).inner_text() or f"{share:.0f}" in page.locator(READOUT).inner_text()
    shoot(page, "routing-map-lab-expert")

    # Python sets, the browser follows: the read-out gives the place in the recording.
    lab.python(page, f"m.metric = 'sink'; m.selection = [{audio.start}, {audio.start + 4}]")
    page.get_by_text("call.wav, 0.00 to 0.05 s").first.wait_for()
    assert "call.wav, 0.15 to 0.20 s" in page.locator(READOUT).inner_text()

    # The same numbers as a table.
    page.get_by_role("button", name="Show the numbers as tables").click()
    first = page.locator(".ink-tables tbody tr").first.inner_text()
    assert first.startswith("Layer 1")
    assert page.locator(".ink-routing table").count() == 2

    # What Python refuses appears in the widget, not in a console.
    lab.python(page, "import workbench.routing_windows as w; w.METRICS = ('entropy',); m.stat = 'max'")
    page.locator(".ink-problem").wait_for(state="visible")
    assert "no strip of 'sink'" in page.locator(".ink-problem").inner_text()


def test_patches_and_sound_are_brushed_and_follow_the_strip(page, lab, cap, shoot):
    image, audio = (next(span for span in cap.spans if span.modality == kind) for kind in ("image", "audio"))
    page.locator(f"{MEDIUM}[aria-label^='chart.png']").wait_for()
    box = page.locator(MEDIUM).bounding_box()
    cols, rows = image.locator.grid.cols, image.locator.grid.rows

    # A rectangle of patches: rows 1 to 3, columns 2 to 4, is one range for each row; the experts above are theirs alone.
    def at(row, col):
        return box["x"] + (col + 0.5) * box["width"] / cols, box["y"] + (row + 0.5) * box["height"] / rows

    page.mouse.move(*at(1, 2))
    page.mouse.down()
    page.mouse.move(*at(3, 4), steps=4)
    page.mouse.up()
    region = [[image.start + row * cols + 2, image.start + row * cols + 5] for row in (1, 2, 3)]
    eventually(lab, page, "m.region, m.selection", f"{region} {[region[0][0], region[-1][1]]}")
    page.get_by_text("of 9 patches in").wait_for()
    expert = cap.routing["expert"].values[[t for pair in region for t in range(*pair)], 0]
    most = int(np.bincount(expert.ravel(), minlength=16).argmax())
    page.get_by_label("Load by").select_option("chosen")
    page.locator(HEAT).focus()
    page.keyboard.press("Home")
    for _ in range(most):
        page.keyboard.press("ArrowRight")
    share = (expert == most).any(-1).mean()
    page.get_by_text(f"chosen by {share:.0%} of the tokens".replace("%", " %")).wait_for()

    # Another selection takes the region's place, and shows the recording; pointing at the strip marks the place in it.
    lab.python(page, f"m.selection = [{audio.start}, {audio.start + 4}]")
    page.locator(f"{MEDIUM}[aria-label^='call.wav']").wait_for()
    eventually(lab, page, "m.region", "[]")

    # A stretch of sound by keys: Shift extends, Python sees the tokens.
    page.locator(MEDIUM).focus()
    for key in ("Home", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(key)
    eventually(lab, page, "m.selection", str([audio.start + 1, audio.start + 4]))
    assert "call.wav, 0.15 to 0.20 s" in page.locator(READOUT).inner_text()

    # An expert's favourites, chosen by a press.
    lab.python(page, "m.cell = [2, 3]; m.metric = 'expert'")
    page.locator(".ink-routing summary", has_text="Favourite passages of layer 2, expert 3").click()
    best = cap.expert(2, 3).passages(1).data
    page.locator(".ink-favourite").first.click()
    eventually(lab, page, "m.selection", str([int(best["start"][0]), int(best["stop"][0])]))
    check_qualities(page, VIEW)
    lab.python(page, "m.cell = []; m.metric = 'sink'; m.selection = [117, 140]; m.region = [[117, 121], [125, 129], [133, 137]]")
    looks(page, VIEW, "routing-map", shoot)


def test_two_captures_differ_where_one_was_not_written(lab, visit, cap, other, tmp_path, shoot):
    for name, one in (("run", cap), ("other", other)):
        one.save(tmp_path / f"{name}.zarr")
    one, two = (f"Capture.load({str(tmp_path / f'{name}.zarr')!r})" for name in ("run", "other"))
    page = open_cells(
        lab, visit, tmp_path / "two.ipynb",
        f"from workbench import Capture\nfrom widgets import RoutingMap\nm = RoutingMap({one}, against={two})\nm",
    )  # fmt: skip
    page.get_by_text("Share of the weight, more than the other").first.wait_for()
    page.wait_for_timeout(300)
    more = routing.load(cap.routing)["share"].values - routing.load(other.routing)["share"].values
    palette = np.frombuffer(palettes.diverging_bytes(), np.uint8).reshape(256, 3).astype(int)
    top = np.abs(more).max()
    for row, expert in (np.unravel_index(more.argmax(), more.shape), np.unravel_index(more.argmin(), more.shape)):
        found = page.locator(HEAT).evaluate(PIXEL, list(heat_cell(page, row, expert)))
        expected = palette[round((more[row, expert] / top + 1) / 2 * 254)]
        assert np.abs(np.subtract(found, expected)).max() <= 6  # float32 in the browser: a neighbouring colour is allowed
    shoot(page.locator(VIEW), "routing-map-difference")
    page.locator(".ink-choice", has_text="what it has more").locator("select").select_option("this")
    eventually(lab, page, "m.difference", "False")
    page.get_by_text("Share of the weight", exact=True).wait_for()


def test_a_saved_notebook_shows_the_twin_without_a_kernel(notebook, visit, tmp_path, shoot):
    nbclient = pytest.importorskip("nbclient")
    from nbconvert import HTMLExporter

    book = nbformat.read(notebook, as_version=4)
    nbclient.NotebookClient(book, timeout=120, store_widget_state=False).execute()
    text, _ = HTMLExporter(template_name="basic").from_notebook_node(book)
    (tmp_path / "book.html").write_text(text, encoding="utf-8")
    assert len(json.dumps(book)) < 2_000_000
    page = visit((tmp_path / "book.html").as_uri())
    picture = page.locator("figure.inkling-twin img").first
    assert picture.is_visible()
    assert picture.evaluate("image => image.naturalWidth") > 600
    shoot(page, "routing-map-twin")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 1200), ("light", 800), ("dark", 800)])
def test_a_report_runs_alone(cap, visit, shoot, tmp_path, scheme, width):
    path = write_report(tmp_path / "report.html", capture=cap)
    page = visit(path.as_uri(), width=width, color_scheme=scheme)
    page.locator(STRIP).wait_for()
    page.locator(STRIP).focus()
    page.keyboard.press("Home")
    for _ in range(12):
        page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    page.get_by_text("Token 1", exact=True).wait_for()
    image = next(span for span in cap.spans if span.modality == "image")
    box = page.locator(STRIP).bounding_box()
    page.keyboard.press("0")
    x = 52 + (image.start + image.stop) / 2 / len(cap) * (box["width"] - 64)
    page.locator(STRIP).click(position={"x": x, "y": 22})  # on the part's band
    page.get_by_text(f"of tokens {image.start} to {image.stop - 1}").wait_for()
    assert "patch row 1 of 6, column 1 of 8" in page.locator(READOUT).inner_text()
    shoot(page, f"report-{scheme}-{width}", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_that_holds_the_overview_only_says_so(visit, shoot, tmp_path, scheme):
    large = capture(rendered(repeat=900))
    path = write_report(tmp_path / "report.html", capture=large, analyses=[large.routing_by("modality")])
    page = visit(path.as_uri(), width=1000, color_scheme=scheme)
    page.locator(STRIP).wait_for()
    page.locator(STRIP).focus()
    for _ in range(6):
        page.keyboard.press("+")
    page.get_by_text("This report holds the overview only").wait_for()
    picture = page.locator("figure.twin img")
    assert picture.evaluate("image => image.naturalWidth") > 600
    shoot(page, f"report-overview-{scheme}", full_page=True)
