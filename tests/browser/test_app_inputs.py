"""What goes into the app: a file of every kind, an archive, and a tool that is called, answered and used."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest
from playwright.sync_api import Page, expect

from tests.browser.app_page import WAIT_MS, answered, ask, budget, tab, upload, waits
from tests.workbench.samples_of import docx, noise_image, pdf, pptx, recording, tone, xlsx
from workbench import Context

if TYPE_CHECKING:
    from engine import Engine

pytestmark = [pytest.mark.engine, pytest.mark.browser]


@pytest.fixture
def kinds(tmp_path: Path) -> list[Path]:
    """A file of every kind that the readers know, in the order in which they are dropped."""
    folder = tmp_path / "kinds"
    folder.mkdir()
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1"), nbformat.v4.new_markdown_cell("# A heading")])
    nbformat.write(book, folder / "book.ipynb")
    texts = {
        "page.html": "<html><body><h1>Fees</h1><p>A boat pays 35 euros.</p></body></html>", "notes.md": "# Notes\n\nOpen.",
        "words.txt": "The ferry leaves at nine.", "table.csv": "boat,euros\nyacht,35\n", "data.json": '{"berths": 412}',
        "code.py": "def berths():\n    return 412\n",
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    pdf(folder / "report.pdf", ["First page.", noise_image(40, 40)])
    docx(folder / "letter.docx")
    pptx(folder / "slides.pptx", ["One", "Two"])
    xlsx(folder / "sheet.xlsx")
    for suffix in ("png", "jpg", "webp", "gif", "bmp", "tiff"):
        noise_image(80, 40).save(folder / f"picture-{suffix}.{suffix}")
    for suffix in ("wav", "flac", "ogg", "mp3"):
        recording(folder / f"sound-{suffix}.{suffix}", tone(1.0))
    return sorted(folder.iterdir())


def test_a_file_of_every_kind_costs_what_a_notebook_says(
    page: Page, eng: Engine, kinds: list[Path], tmp_path: Path, shoot: Callable[..., Path]
) -> None:
    upload(page, *kinds)
    expect(page.locator("#budget")).to_contain_text(kinds[-1].name, timeout=WAIT_MS)
    assert page.locator("#compose-problem [role=alert]").count() == 0
    context = Context(effort="low")
    for path in kinds:
        context.add_file(path)
    expected = context.budget(eng, max_tokens=128)
    assert budget(page) == {line[0]: int(line[3].replace(",", "")) for line in expected.lines()}
    shoot(page, "app-every-kind", full_page=True)
    # An archive is its files; what has no reader is named.
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.writestr("inside/one.txt", "The first.")
        archive.writestr("inside/thing.bin", bytes(range(256)))
    upload(page, tmp_path / "more.zip")
    expect(waits(page, "inside/one.txt")).to_be_visible(timeout=WAIT_MS)
    expect(page.locator("#compose-problem [role=alert]")).to_contain_text("thing.bin")


PLACES = ("Cacilhas", "Porto", "Lisbon", "Bergen", "Cadiz", "Genoa", "Oslo", "Trieste")


def test_a_tool_is_called_answered_and_its_result_used(page: Page, shoot: Callable[..., Path]) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = {"type": "function", "name": "ferry_time", "description": "Time of the next ferry to a city.", "parameters": schema}
    page.get_by_role("button", name="System text and tools").click()
    page.locator("#tools textarea").fill(json.dumps([tool]))
    page.locator("#use-tools").click()
    expect(page.locator("#budget")).to_contain_text("tools", timeout=WAIT_MS)
    # The small model calls three times in four: it is asked about one place after the other until it does.
    call = page.locator(".ink-turn.is-reply").last.locator(".ink-call")
    turns = 0
    for place in PLACES:
        ask(page, f"When does the next ferry to {place} leave?", max_tokens=48, temperature=0)
        turns += 1
        answered(page, turns)
        if call.count() and "ferry_time" in call.inner_text() and place in call.inner_text():
            break
    expect(call).to_contain_text(f'ferry_time {{"city":"{place}"}}')
    # What was called is filled in already; only what it returned is to be given.
    expect(page.locator("#tool-name textarea, #tool-name input").first).to_have_value("ferry_time", timeout=WAIT_MS)
    shoot(page, "app-tool-called", full_page=True)
    page.locator("#tool-text textarea, #tool-text input").first.fill("result: 09:40")
    page.locator("#give").click()
    expect(page.locator(".ink-turn.is-tool")).to_contain_text("result: 09:40", timeout=WAIT_MS)
    answered(page, turns + 1)
    said = page.locator(".ink-turn.is-reply").last.locator(".ink-said").inner_text()
    assert re.search(r"\b09:40\b", said), said
    shoot(page, "app-tool-answered", full_page=True)
    tab(page, "Compose")
    assert budget(page)["prompt"] > 0
