"""The attention view in JupyterLab: the row that is drawn, keys and pointer, heat on picture and passage, and its static twin."""

from __future__ import annotations

import json

import nbformat
import numpy as np
import pytest

from engine.protocol import AttentionPlan
from tests.browser.widget_pages import check_qualities, eventually, looks, write_notebook
from tests.fabricated_capture import rendered
from tests.fabricated_insides import capture, plan_of
from workbench import samples
from workbench.readers import read_audio, read_image

pytestmark = pytest.mark.browser

VIEW, STRIP, READOUT = ".ink-attention", ".ink-attention [aria-roledescription='token strip']", ".ink-attention .ink-readout"


@pytest.fixture(scope="module")
def cap():
    plan = plan_of(attention=AttentionPlan(queries=(30, 100, range(136, 148)), layers="all", keep="whole", profiles=True))
    cap = capture(plan, rendered(image_px=(280, 240), audio_s=1.35))[0]
    # Peaks, as real rows have, and profiles that fall off; a picture and a recording to lay them over.
    weight, bank, profile = (cap.attention[name].values for name in ("weight", "bank", "profile"))
    weight **= 12
    weight /= weight.sum(-1, keepdims=True)
    for values in (bank, profile):
        rows, reach = values.shape[-2], values.shape[-1]
        values[...] = np.linspace(-1.2, 2, rows)[:, None] * np.exp(-np.arange(reach) / np.linspace(3, 20, rows)[:, None])
    for item in cap.rendered.media:
        source = read_image if item.kind == "image" else read_audio
        cap.rendered.blobs[item.blob] = source(samples.paths()[item.kind]).blob
    return cap


@pytest.fixture(scope="module")
def notebook(cap, tmp_path_factory):
    folder = tmp_path_factory.mktemp("attention")
    cap.save(folder / "run.zarr")
    return write_notebook(
        folder / "attention.ipynb",
        f"from workbench import Capture\nfrom widgets import AttentionView\ncap = Capture.load({str(folder / 'run.zarr')!r})",
        "view = AttentionView(cap)\nview",
    )


@pytest.fixture
def page(lab, visit, notebook):
    page = visit(width=1200, height=1400)
    lab.open(page, notebook)
    lab.run_all(page)
    page.locator(STRIP).wait_for()
    page.locator(f"{VIEW} .ink-parts tbody tr").first.wait_for()
    return page


def test_the_view_shows_rows_and_answers_keys_and_pointer(page, lab, cap, shoot):
    # Parts as the analysis says, heaviest first.
    want = cap.attention_by("part")["weight"].sel(q=30, l=5).mean("h")
    shown = page.locator(f"{VIEW} .ink-parts tbody th").all_inner_texts()
    order = [str(want["group"].values[i]) for i in want.values.argsort()[::-1]]
    assert [name for name in shown if name in order][:3] == [name for name in order if name in shown][:3]

    # Keys: the next query token; a head; Python sees both.
    page.locator(f"{VIEW} [role=listbox]").focus()
    page.keyboard.press("ArrowRight")
    eventually(lab, page, "view.query", "1")
    page.locator(f"{VIEW} [aria-roledescription='heat map']").focus()
    for key in ("ArrowUp", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    eventually(lab, page, "view.layer, view.head", "4 1")
    page.get_by_text("Token 100, layer 4 (sliding), head 1").wait_for()

    # A part by its name: its tokens are chosen, the picture takes the heat, the heads say how much they give it.
    page.get_by_role("button", name="chart.png").click()
    image = next(span for span in cap.spans if span.modality == "image")
    eventually(lab, page, "view.selection", str([image.start, image.stop]))
    page.locator(f"{VIEW} .ink-media canvas[aria-label^='chart.png']").wait_for()
    box = page.locator(f"{VIEW} .ink-media canvas").bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + 4)
    page.wait_for_function("() => document.querySelector('.ink-attention .ink-readout').innerText.includes('patch row 1 of')")

    # Python sets, the page follows, and reads out what is there.
    audio = next(span for span in cap.spans if span.modality == "audio")
    lab.python(page, f"view.head = -1; view.selection = [{audio.start}, {audio.start + 4}]")
    page.locator(f"{VIEW} .ink-media canvas[aria-label^='call.wav']").wait_for()
    assert "call.wav, 0.00 to 0.05 s" in page.locator(READOUT).inner_text()
    lab.python(page, f"view.window = [{audio.start - 6}, {audio.start + 6}]")
    page.locator(STRIP).focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.ink-attention .ink-readout').innerText.includes('weight')")
    assert "engine= and reply=" in page.locator(VIEW).inner_text()
    # The same as tables: the heaviest key in view first.
    lab.python(page, "view.query = 0; view.layer = 5; view.selection = []; view.window = [0, len(cap)]")
    page.get_by_text("Token 30, layer 5 (global), mean over heads").first.wait_for()
    page.locator(VIEW).get_by_role("button", name="Show the numbers as tables").click()
    row = cap.attention["weight"].sel(q=30, l=5).mean("h").values
    first = page.locator(f"{VIEW} .ink-tables tbody tr", has_text=f"token {int(np.nanargmax(row))}").first
    first.wait_for()
    assert f"{np.nanmax(row) * 100:.1f}" in first.inner_text() or f"{np.nanmax(row) * 100:.0f} %" in first.inner_text()
    assert page.locator(f"{VIEW} .ink-tables table").count() == 2
    page.locator(VIEW).get_by_role("button", name="Show the numbers as tables").click()
    page.locator(STRIP).wait_for()
    check_qualities(page, VIEW)
    lab.python(page, "view.selection = []; view.window = [0, len(cap)]")
    looks(page, VIEW, "attention-view", shoot)


def test_what_python_refuses_is_shown(page, lab):
    lab.python(page, "view.subject.windows.tokens = 20; view.head = 0")
    page.locator(f"{VIEW} .ink-problem").first.wait_for(state="visible")
    assert "there are no keys" in page.locator(f"{VIEW} .ink-problem").first.inner_text()


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
    shoot(page, "attention-view-twin")
