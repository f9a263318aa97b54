"""The composer in JupyterLab: files by HTTP and in pieces, text, the microphone, edits with their price, undo."""

from __future__ import annotations

import nbformat
import pytest

from tests.browser.widget_pages import check_qualities, eventually, looks, write_notebook
from workbench import samples

pytestmark = pytest.mark.browser

VIEW = ".ink-composer"
CELL = """from workbench import Context
from widgets import Composer
ctx = Context(system="Answer briefly.")
composer = Composer(ctx)
composer"""


def test_a_context_is_composed_in_the_page(lab, visit, tmp_path, shoot):
    page = visit(width=1200, height=1400, permissions=["microphone"])
    lab.open(page, write_notebook(tmp_path / "composer.ipynb", CELL))
    lab.run_all(page)
    view = page.locator(VIEW)
    view.get_by_text("Nothing is here yet").wait_for()
    shoot(view, "composer-empty")

    # Files go as one request through Jupyter's proxy.
    sent = []
    page.on("request", lambda request: sent.append((request.method, request.url)))
    view.locator("input[type=file]").set_input_files([str(path) for path in samples.paths().values()])
    entry = view.locator(".ink-entries .ink-entry-name")
    entry.filter(has_text="call.wav").wait_for()
    assert [method for method, url in sent if "/proxy/" in url] == ["PUT"] * 3
    eventually(lab, page, "[part.name for part in ctx.parts]", "['harbour.pdf', 'chart.png', 'call.wav']")

    # Without the proxy they come in pieces; a bad one says why and stops nothing.
    page.route("**/proxy/**", lambda route: route.fulfill(status=404))
    view.locator("input[type=file]").set_input_files(
        [
            {"name": "film.mp4", "mimeType": "video/mp4", "buffer": b"not a film"},
            {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"The ferry leaves at seven. " * 40_000},
        ]
    )
    entry.filter(has_text="notes.txt").wait_for()
    eventually(lab, page, "len(ctx.parts[-1].pages[0].text)", "1080000")
    assert "film.mp4: no reader for .mp4" in view.locator(".ink-uploads").inner_text()
    view.get_by_role("button", name="Dismiss film.mp4").click()
    view.get_by_role("button", name="Remove notes.txt").click()

    # Text has its price before it is added.
    view.get_by_label("Text to add").fill(samples.QUESTION)
    view.get_by_text("Adding this text").wait_for()
    page.wait_for_function("() => document.querySelector('.ink-composer .ink-readout').innerText.includes('(+')")
    view.get_by_role("button", name="Add the text as a part").click()
    eventually(lab, page, "[part.name for part in ctx.parts]", "['harbour.pdf', 'chart.png', 'call.wav', 'text']")

    # Edits: priced on focus, made, taken back; the keyboard stays where it was.
    move = view.get_by_role("button", name="Move chart.png down")
    move.focus()
    view.locator(".ink-readout", has_text="tokens, as now").wait_for()
    move.press("Enter")
    eventually(lab, page, "[part.name for part in ctx.parts]", "['harbour.pdf', 'call.wav', 'chart.png', 'text']")
    page.wait_for_function("() => document.activeElement?.getAttribute('aria-label') === 'Move chart.png down'")
    view.get_by_role("button", name="Take the last change back").click()
    eventually(lab, page, "ctx.parts[1].name", "chart.png")
    view.get_by_role("button", name="Switch call.wav off").click()
    eventually(lab, page, "[entry.disabled for entry in ctx.items]", "[False, False, True, False]")
    view.get_by_role("button", name="Pin harbour.pdf", exact=True).click()
    eventually(lab, page, "ctx.items[0].pinned", "True")
    assert view.get_by_role("button", name="Remove harbour.pdf").is_disabled()

    # Dragging: the last entry before the second one.
    rows = view.locator(".ink-entry")
    rows.nth(3).drag_to(rows.nth(1), target_position={"x": 200, "y": 4})
    eventually(lab, page, "[part.name for part in ctx.parts]", "['harbour.pdf', 'text', 'chart.png']")
    view.get_by_role("button", name="Take the last change back").click()

    # Previews: patches, pages, samples.
    entry.filter(has_text="chart.png").click()
    view.get_by_text("patches, 42 tokens").wait_for()
    entry.filter(has_text="harbour.pdf").click()
    view.get_by_role("button", name="The next page").click()
    view.get_by_text("page 2, 2 of 3").wait_for()
    view.get_by_role("button", name="Switch call.wav on").click()
    entry.filter(has_text="call.wav").click()
    view.get_by_text("tokens of 50 ms").wait_for()
    view.get_by_text("Where the tokens are").click()
    view.locator(".ink-tree li", has_text="harbour.pdf").first.wait_for()
    total = int(lab.python(page, "print(ctx.budget().prompt_tokens)"))
    assert f"{total:,} tokens and 256 for the answer" in view.inner_text()

    # Python edits, the page follows.
    lab.python(page, "ctx.ask('Is the bridge open?'); composer.refresh()")
    entry.filter(has_text="question").wait_for()
    check_qualities(page, VIEW)
    looks(page, VIEW, "composer", shoot)

    # The microphone: a browser's own test tone.
    view.get_by_role("button", name="Record from the microphone").click()
    page.wait_for_timeout(1_500)
    view.get_by_role("button", name="Record from the microphone").click()
    entry.filter(has_text="recording 20").wait_for()
    assert float(lab.python(page, "print(ctx.parts[-1].duration_s)")) > 0.3


def test_a_saved_notebook_shows_the_budget_without_a_kernel(visit, tmp_path, shoot):
    nbclient = pytest.importorskip("nbclient")
    from nbconvert import HTMLExporter

    book = nbformat.read(write_notebook(tmp_path / "composer.ipynb", CELL), as_version=4)
    nbclient.NotebookClient(book, timeout=120, store_widget_state=False).execute()
    text, _ = HTMLExporter(template_name="basic").from_notebook_node(book)
    (tmp_path / "book.html").write_text(text, encoding="utf-8")
    page = visit((tmp_path / "book.html").as_uri())
    twin = page.locator("figure.inkling-twin")
    assert twin.is_visible()
    assert "system" in twin.inner_text()
    shoot(page, "composer-twin")
