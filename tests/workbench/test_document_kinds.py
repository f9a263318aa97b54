"""PDF page images and tables, sheets and ranges, notebooks, web pages, multi-page images: each written by a real writer."""

from __future__ import annotations

import base64
import datetime
import io
import json
from pathlib import Path

import nbformat
import pytest
from PIL import Image

from tests.workbench.samples_of import docx, noise_image, pdf, pptx, scan, xlsx
from workbench import Context
from workbench.errors import ReadingCancelled, SourceError, SourceUnreadable
from workbench.media import decode_png
from workbench.messages import messages_of
from workbench.readers import Options, read_document


def png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def test_pages_as_text_as_images_or_both(tmp_path: Path) -> None:
    path = pdf(tmp_path / "a.pdf", ["First page.", "Second page.", scan("A scan."), None])
    shapes = {
        "auto": [(True, False), (True, False), (False, True), (False, False)],
        "text": [(True, False), (True, False), (False, False), (False, False)],
        "image": [(False, True), (False, True), (False, True), (False, False)],
        "both": [(True, True), (True, True), (False, True), (False, False)],
    }
    for show, wanted in shapes.items():
        part = read_document(path, options=Options(show=show))  # pyright: ignore[reportArgumentType]
        assert [(bool(page.text), page.image is not None) for page in part.pages] == wanted
    text = messages_of(read_document(path, options=Options(show="both")), "user")[0].text
    assert "[page 1: also shown as image 1 below]\nFirst page." in text
    assert "[page 3: shown as image 3 below]" in text
    with pytest.raises(SourceError, match="'pictures'"):
        Options(show="pictures")  # pyright: ignore[reportArgumentType]


def test_a_scan_with_a_running_head_is_shown_too(tmp_path: Path) -> None:
    from reportlab.lib.utils import ImageReader
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(tmp_path / "stamped.pdf"), pagesize=(400, 560))
    canvas.drawImage(ImageReader(scan("The scanned words.")), 0, 0, width=400, height=560)
    canvas.drawString(30, 20, "Received 3 May")
    canvas.showPage()
    canvas.drawImage(ImageReader(noise_image(30, 30)), 10, 10, width=30, height=30)
    canvas.drawString(30, 300, "A page with a small logo.")
    canvas.save()
    stamped, logo = read_document(tmp_path / "stamped.pdf").pages
    assert (stamped.text, stamped.image is not None) == ("Received 3 May", True)
    assert logo.image is None


def test_pages_are_chosen_and_keep_their_numbers(tmp_path: Path) -> None:
    path = pdf(tmp_path / "a.pdf", [f"Page {n}." for n in range(1, 8)])
    context = Context()
    part = context.add_document(path, pages="2-3,6")
    assert [(page.number, page.text) for page in part.pages] == [(2, "Page 2."), (3, "Page 3."), (6, "Page 6.")]
    with pytest.raises(SourceError, match="no page 9: it has pages 1 to 7"):
        context.add_document(path, pages=[9])
    for bad in ("a", "3-1", "", [], [True]):
        with pytest.raises(SourceError, match="pages are"):
            context.add_document(path, pages=bad)
    seen: list[int] = []
    with pytest.raises(ReadingCancelled, match=r"page 3 \(2 of 7\)"):
        context.add_document(path, progress=lambda what, done, total: seen.append(done) or done < 2)
    assert len(context.items) == 1


def test_ruled_tables_are_laid_out_where_they_stand(tmp_path: Path) -> None:
    from reportlab.lib import colors
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.platypus import Paragraph, SimpleDocTemplate, Table, TableStyle

    rows = [["boat", "pier", "euros"], ["yacht", "3", "35"], ["ferry", "", "1,200"], ["tug | boat", "7", "90"]]
    table = Table(rows, style=TableStyle([("GRID", (0, 0), (-1, -1), 0.5, colors.black)]))
    style = getSampleStyleSheet()["BodyText"]
    pieces = [Paragraph("Fees of the harbour:", style), table, Paragraph("Valid from May.", style)]
    SimpleDocTemplate(str(tmp_path / "fees.pdf")).build(pieces)
    text = read_document(tmp_path / "fees.pdf").pages[0].text
    assert text == (
        "Fees of the harbour:\n\n| boat | pier | euros |\n| --- | --- | --- |\n| yacht | 3 | 35 |\n| ferry |  | 1,200 |\n"
        "| tug \\| boat | 7 | 90 |\n\nValid from May."
    )


def test_form_fields_are_noted(tmp_path: Path) -> None:
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(tmp_path / "form.pdf"))
    canvas.drawString(50, 700, "Name:")
    canvas.acroForm.textfield(name="name", x=100, y=690, value="Ana")
    canvas.save()
    assert any("form fields" in note for note in read_document(tmp_path / "form.pdf").notes)


def test_sheets_ranges_formulas_and_dates(tmp_path: Path) -> None:
    from openpyxl import Workbook
    from openpyxl.drawing.image import Image as SheetImage

    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Fees"
    for row in (
        ["boat", "euros", "since"],
        ["yacht", 35.5, datetime.date(2026, 5, 3)],
        ["a|b", True, None],
        ["sum", "=SUM(B2:B3)"],
    ):
        sheet.append(row)
    book.create_sheet("Empty")
    hidden = book.create_sheet("Old")
    hidden.append(["gone"])
    hidden.sheet_state = "hidden"
    noise_image(32, 24).save(tmp_path / "logo.png")
    hidden.add_image(SheetImage(str(tmp_path / "logo.png")), "C3")
    path = tmp_path / "fees.xlsx"
    book.save(path)
    part = read_document(path)
    assert [page.title for page in part.pages] == ["sheet Fees", "sheet Empty", "sheet Old"]
    assert part.pages[0].text == (
        "| boat | euros | since |\n| --- | --- | --- |\n| yacht | 35.5 | 2026-05-03 |\n"
        "| a\\|b | TRUE |  |\n| sum | =SUM(B2:B3) |  |"
    )
    assert part.pages[2].text.endswith("[image 1]")
    assert decode_png(part.images[0].blob).tobytes() == noise_image(32, 24).tobytes()
    assert any("1 formulas without a stored value" in note for note in part.notes)
    assert any("Old is hidden" in note for note in part.notes)
    assert "[sheet Empty: blank]" in messages_of(part, "user")[0].text
    some = read_document(path, options=Options(sheets=("Fees",), cells="A1:B2"))
    assert [(page.title, page.text) for page in some.pages] == [
        ("sheet Fees, cells A1:B2", "| boat | euros |\n| --- | --- |\n| yacht | 35.5 |")
    ]
    with pytest.raises(SourceError, match="no sheet 'Piers': it has Fees, Empty, Old"):
        read_document(path, options=Options(sheets=("Piers",)))
    with pytest.raises(SourceError, match="cells are given as"):
        read_document(path, options=Options(cells="rubbish"))


def test_slides_are_chosen_and_bring_their_pictures(tmp_path: Path) -> None:
    from pptx import Presentation

    path = pptx(tmp_path / "deck.pptx", ["Opening", "Numbers", "Closing"])
    deck = Presentation(str(path))
    deck.slides[1].shapes.add_picture(io.BytesIO(png(noise_image(44, 33))), 0, 0)
    deck.save(str(path))
    part = read_document(path, options=Options(pages=(2, 3)))
    assert [(page.title, len(page.pictures)) for page in part.pages] == [("slide 2", 1), ("slide 3", 0)]
    assert "[image 1" in part.pages[0].text
    assert (part.images[0].width_px, part.images[0].height_px) == (44, 33)
    with pytest.raises(SourceError, match="sheets= means nothing"):
        read_document(path, options=Options(sheets=("x",)))


def test_web_pages_in_their_own_encoding(tmp_path: Path) -> None:
    data = base64.b64encode(png(noise_image(20, 20))).decode()
    html = (
        '<html><head><meta charset="windows-1252"><script>bad()</script></head><body><h1>Café</h1>'
        f'<table><tr><th>boat</th></tr><tr><td>yacht</td></tr></table><img alt="plan" src="data:image/png;base64,{data}">'
        '<img alt="far" src="https://example.org/x.png"></body></html>'
    )
    (tmp_path / "a.html").write_bytes(html.encode("cp1252"))
    part = read_document(tmp_path / "a.html")
    text = part.pages[0].text
    assert "# Café" in text
    assert "| yacht |" in text
    assert "bad()" not in text
    assert "[image 1: plan]" in text
    assert "[picture: far]" in text
    assert len(part.images) == 1
    assert any("1 picture in it not read (a link" in note for note in part.notes)


def notebook(path: Path) -> Path:
    picture = base64.b64encode(png(noise_image(28, 21))).decode()
    made = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("# Boats"),
            nbformat.v4.new_code_cell(
                "plot(fees)",
                outputs=[
                    nbformat.v4.new_output("stream", name="stdout", text="drawing\n"),
                    nbformat.v4.new_output("display_data", data={"image/png": picture, "text/plain": "<Figure>"}),
                    nbformat.v4.new_output("execute_result", data={"text/plain": "42", "text/html": "<b>42</b>"}),
                ],
            ),
            nbformat.v4.new_code_cell(""),
            nbformat.v4.new_code_cell(
                "1/0", outputs=[nbformat.v4.new_output("error", ename="E", evalue="v", traceback=["\x1b[31mZeroDivision\x1b[0m"])]
            ),
        ]
    )
    nbformat.write(made, str(path))
    return path


def test_notebooks_by_cell_with_their_pictures(tmp_path: Path) -> None:
    part = read_document(notebook(tmp_path / "a.ipynb"))
    assert [(page.number, page.title) for page in part.pages] == [(1, "cell 1"), (2, "cell 2"), (4, "cell 4")]
    assert part.pages[0].text == "# Boats"
    assert part.pages[1].text == ("```python\nplot(fees)\n```\n\nOutput:\n```\ndrawing\n```\n\n[image 1]\n\nOutput:\n```\n42\n```")
    assert part.pages[2].text.endswith("Output:\n```\nZeroDivision\n```")
    assert decode_png(part.images[0].blob).tobytes() == noise_image(28, 21).tobytes()
    assert [page.number for page in read_document(tmp_path / "a.ipynb", options=Options(pages=(4,))).pages] == [4]
    (tmp_path / "old.ipynb").write_text(json.dumps({"nbformat": 3, "worksheets": []}))
    with pytest.raises(SourceUnreadable, match="format 3"):
        read_document(tmp_path / "old.ipynb")
    (tmp_path / "bad.ipynb").write_text("{")
    with pytest.raises(SourceUnreadable, match="not a readable notebook"):
        read_document(tmp_path / "bad.ipynb")


@pytest.mark.parametrize("suffix", ["tif", "gif", "webp", "png"])
def test_frames_become_pages(suffix: str, tmp_path: Path) -> None:
    frames = [noise_image(40 + n, 30, seed=n).resize((40, 30)) for n in range(3)]
    path = tmp_path / f"frames.{suffix}"
    frames[0].save(path, save_all=True, append_images=frames[1:], **({"lossless": True} if suffix == "webp" else {}))
    context = Context()
    part = context.add_document(path)
    assert [(page.number, page.title) for page in part.pages] == [(1, "frame 1"), (2, "frame 2"), (3, "frame 3")]
    with Image.open(path) as again:
        for index, image in enumerate(part.images):
            again.seek(index)
            assert decode_png(image.blob).tobytes() == again.convert("RGB").tobytes()
    assert [page.number for page in context.add_document(path, pages="2").pages] == [2]
    with pytest.raises(SourceError, match=r"add_document \(--doc\) takes them all"):
        context.add_image(path)


def test_texts_are_kept_to_the_letter(tmp_path: Path) -> None:
    for name, text in {
        "a.csv": 'a;"b\r\nc"\r\n',
        "a.tsv": "x\ty\n",
        "a.json": '{"b": [1, 2.50]}\n',
        "a.rs": "fn main() {}\n",
    }.items():
        (tmp_path / name).write_bytes(text.encode())
        assert read_document(tmp_path / name).pages[0].text == text
    (tmp_path / "old.py").write_bytes("# -*- coding: latin-1 -*-\nname = 'café'\n".encode("latin-1"))
    assert "café" in read_document(tmp_path / "old.py").pages[0].text


def test_options_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    for options in (Options(pages=(1,)), Options(show="image"), Options(sheets=("a",)), Options(password="x")):
        with pytest.raises(SourceError, match=r"means nothing for \.txt"):
            read_document(tmp_path / "a.txt", options=options)
    with pytest.raises(SourceError, match=r"means nothing for \.docx"):
        read_document(docx(tmp_path / "a.docx"), options=Options(pages=(1,)))
    with pytest.raises(SourceError, match=r"means nothing for \.xlsx"):
        read_document(xlsx(tmp_path / "a.xlsx"), options=Options(show="both"))
