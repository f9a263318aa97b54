"""Documents of every kind, by real writers; and every way one can be bad."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workbench.samples_of import docx, noise_image, pdf, pptx, scan, xlsx
from workbench import Context
from workbench.errors import MessageError, SourceEncrypted, SourceError, SourceMissing, SourceUnknown, SourceUnreadable
from workbench.messages import messages_of
from workbench.readers import Options, read_document, read_file


def test_pdf_pages_scans_and_blanks(tmp_path: Path) -> None:
    part = read_document(pdf(tmp_path / "mixed.pdf", ["First page.\nSecond line.", scan("scanned"), None]))
    assert [(page.number, page.text, page.image is not None) for page in part.pages] == [
        (1, "First page.\nSecond line.", False),
        (2, "", True),
        (3, "", False),
    ]
    # A5 at 144 dpi.
    assert (part.pages[1].image.width_px, part.pages[1].image.height_px) == (840, 1191)
    text, image = messages_of(part, "user")
    assert text.text == (
        "Document: mixed.pdf\n\n[page 1]\nFirst page.\nSecond line.\n\n[page 2: shown as image 1 below]\n\n[page 3: blank]"
    )
    assert (image.kind, image.page) == ("image", 2)


def test_an_image_only_pdf_is_never_an_empty_text(tmp_path: Path) -> None:
    context = Context()
    context.add_document(pdf(tmp_path / "scan.pdf", [scan("one"), scan("two")]))
    rendered = context.render()
    assert [item.kind for item in rendered.media] == ["image", "image"]
    assert all(item.tokens > 1000 for item in rendered.media)


def test_large_pages_are_drawn_at_a_bounded_size(tmp_path: Path) -> None:
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(tmp_path / "poster.pdf"), pagesize=(2400, 3400))
    canvas.rect(100, 100, 2000, 3000, fill=1)
    canvas.save()
    image = read_document(tmp_path / "poster.pdf").pages[0].image
    assert image is not None
    assert 2040 <= max(image.width_px, image.height_px) <= 2049


def test_ligatures_are_resolved(tmp_path: Path) -> None:
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont
    from reportlab.pdfgen.canvas import Canvas

    font = next(Path("/usr/share/fonts").rglob("LiberationSerif-Regular.ttf"), None) or next(
        Path("/usr/share/fonts").rglob("DejaVuSans.ttf"), None
    )
    if font is None:
        pytest.skip("no font with ligatures on this machine")
    pdfmetrics.registerFont(TTFont("Lig", str(font)))
    canvas = Canvas(str(tmp_path / "lig.pdf"))
    canvas.setFont("Lig", 12)
    canvas.drawString(72, 720, "the \ufb01les and the \ufb02ag")
    canvas.save()
    assert read_document(tmp_path / "lig.pdf").pages[0].text == "the files and the flag"


def test_encrypted_pdfs(tmp_path: Path) -> None:
    path = pdf(tmp_path / "locked.pdf", ["secret"], password="open")
    with pytest.raises(SourceEncrypted, match=r"locked.pdf: it is encrypted: give its password"):
        read_document(path)
    with pytest.raises(SourceEncrypted, match="password is wrong"):
        read_document(path, options=Options(password="shut"))
    assert read_document(path, options=Options(password="open")).pages[0].text == "secret"


def test_office_files(tmp_path: Path) -> None:
    word = read_document(docx(tmp_path / "report.docx"))
    assert "# Quarterly report" in word.pages[0].text
    assert "| Lisbon | 412 |" in word.pages[0].text
    assert word.notes == ()
    slides = read_document(pptx(tmp_path / "deck.pptx", ["Opening", "Closing"]))
    assert [(page.number, page.text) for page in slides.pages] == [(1, "# Opening"), (2, "# Closing")]
    assert [page.title for page in slides.pages] == ["slide 1", "slide 2"]
    sheets = read_document(xlsx(tmp_path / "fees.xlsx"))
    assert [(page.number, page.title) for page in sheets.pages] == [(1, "sheet Fees"), (2, "sheet Piers")]
    assert sheets.pages[0].text == "| boat | euros |\n| --- | --- |\n| yacht | 35 |"


def test_pictures_in_an_office_file_follow_its_text(tmp_path: Path) -> None:
    path = docx(tmp_path / "report.docx", picture=noise_image(30, 30))
    part = read_document(path)
    assert [(image.width_px, image.height_px) for image in part.images] == [(30, 30)]
    assert part.pages[0].text.endswith("[image 1]")
    context = Context()
    context.add_document(path, pictures=False)
    assert context.budget().by_modality()["image"] == 0
    assert any("1 picture in it left out, as asked" in note for note in context.budget().notes)


def test_html_and_texts(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<html><body><h1>Über</h1><p>Ein <b>Wort</b>.</p><script>x()</script></body></html>", "utf-8")
    html = read_document(tmp_path / "a.html").pages[0].text
    assert html == "# Über\n\nEin **Wort**."
    for name in ("a.md", "a.py", "a.csv", "a.txt", "Makefile", "a.unheardof"):
        text = "naïve,\r\n\tplain  \n"
        (tmp_path / name).write_bytes(text.encode())
        assert read_document(tmp_path / name).pages[0].text == text


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_marks_say_the_encoding(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("héllo".encode(encoding))
    assert read_document(tmp_path / "a.txt").pages[0].text == "héllo"


def test_undecodable_text(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes("caf\u00e9".encode("latin-1"))
    with pytest.raises(SourceUnreadable, match=r"not UTF-8 text at byte 3: .*encoding='latin-1'"):
        read_document(tmp_path / "latin.txt")
    assert read_document(tmp_path / "latin.txt", options=Options(encoding="latin-1")).pages[0].text == "café"
    with pytest.raises(SourceUnreadable, match="no encoding is called 'klingon'"):
        read_document(tmp_path / "latin.txt", options=Options(encoding="klingon"))


def test_bytes_and_open_files(tmp_path: Path) -> None:
    path = pdf(tmp_path / "a.pdf", ["text"])
    with path.open("rb") as file:
        assert read_document(file) == read_document(path) == read_document(path.read_bytes(), name="a.pdf")
    with path.open("r", encoding="latin-1") as file, pytest.raises(SourceError, match="binary mode"):
        read_document(file)
    with pytest.raises(SourceError, match="cannot read a int"):
        read_document(3)


BAD = {
    "missing.pdf": (None, SourceMissing, "no such file"),
    "folder": ("folder", SourceMissing, "a folder, not a file"),
    "empty.pdf": (b"", SourceUnreadable, "empty"),
    "corrupt.pdf": (b"%PDF-1.7\nnothing of the kind", SourceUnreadable, "not a readable PDF"),
    "picture.pdf": (b"\x89PNG\r\n\x1a\n", SourceUnreadable, "not a readable PDF"),
    "corrupt.docx": (b"PK\x03\x04 not really", SourceUnreadable, "not a .docx file"),
    "locked.docx": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), SourceEncrypted, "encrypted"),
    "old.doc": (b"\xd0\xcf\x11\xe0", SourceUnknown, "save it as PDF"),
    "tool.bin": (b"\x7fELF\0\0", SourceUnknown, "no reader for this kind"),
    "film.mp4": (b"\0\0\0 ftyp", SourceUnknown, "no engine takes video"),
    "spaces.txt": (b" \n\t", SourceUnreadable, "white space"),
    "blank.html": (b"<html></html>", SourceUnreadable, "no text"),
    "photo.png": (b"\x89PNG", SourceUnknown, "add_image"),
    "song.wav": (b"RIFF", SourceUnknown, "add_audio"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_documents_are_refused_and_leave_the_context_alone(name: str, tmp_path: Path) -> None:
    content, error, says = BAD[name]
    if content == "folder":
        (tmp_path / name).mkdir()
    elif content is not None:
        (tmp_path / name).write_bytes(content)
    context = Context()
    context.add_text("kept")
    before = context.render().id
    with pytest.raises(error, match=says) as caught:
        context.add_document(tmp_path / name)
    assert name in caught.value.message
    assert context.render().id == before


def test_an_all_blank_pdf_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match="2 pages are blank"):
        read_document(pdf(tmp_path / "blank.pdf", [None, None]))


def test_a_file_that_cannot_be_read_says_why() -> None:
    # The kernel refuses reads here for everybody, root included.
    with pytest.raises(SourceUnreadable, match="cannot be read"):
        read_document("/proc/self/mem")
    with pytest.raises(SourceMissing, match="not a regular file"):
        read_document("/dev/null")


def test_files_by_kind(tmp_path: Path) -> None:
    noise_image(5, 5).save(tmp_path / "upload", format="PNG")
    assert type(read_file(tmp_path / "upload")).__name__ == "ImagePart"
    (tmp_path / "note").write_text("words")
    assert read_file(tmp_path / "note", name="note.txt").name == "note.txt"


def test_texts_that_cannot_be_written() -> None:
    context = Context()
    for text, says in (("", "empty"), ("half \ud83d", "surrogate"), (None, "must be text")):
        with pytest.raises(MessageError, match=says):
            context.add_text(text)
    assert context.parts == ()
