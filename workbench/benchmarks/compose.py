"""How fast files and texts become exact token ids with places: each kind by itself, and a million mixed tokens.

"Decoding alone" is what the libraries need to give text, pixels and 16 kHz samples: the same calls our readers make, and nothing
else. What our work adds is measured against it in turns.
"""

from __future__ import annotations

import argparse
import gc
import io
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from . import compose_files
from .bench import Bench
from .peak_memory import peak_bytes
from .real_text import texts

if TYPE_CHECKING:
    from ..contexts import Context

SUMMARY = "composing: text, documents, images and recordings to exact token ids and places"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the bench's options."""
    parser.add_argument("--characters", type=int, default=4_000_000, metavar="N", help="of text alone (default: %(default)s)")
    parser.add_argument("--pages", type=int, default=300, metavar="N", help="of the PDF (default: %(default)s)")
    parser.add_argument("--images", type=int, default=100, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--audio-s", type=int, default=3_600, metavar="N", help="seconds of sound (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=1_000_000, metavar="N", help="of the mixed context (default: %(default)s)")


@dataclass(frozen=True, slots=True)
class _Files:
    pdf: Path
    pages: int
    pictures: list[Path]
    sound: Path
    sound_s: int
    texts: list[Path]


def run(bench: Bench, args: argparse.Namespace) -> None:
    """Measure."""
    args = bench.sized(args, characters=200_000, pages=6, images=3, audio_s=20, tokens=60_000)
    _text(bench, args.characters)
    with tempfile.TemporaryDirectory() as folder:
        files = _write(bench, Path(folder), args)
        _kinds(bench, files)
        _mixed(bench, files, Path(folder))


def _text(bench: Bench, characters: int) -> None:
    from .. import Context, chunks, tokens
    from ..parts import DocumentPart, Page

    given = texts(characters, seed=bench.seed)
    documents = [
        [Page(text=text[at : at + 2_500], number=at // 2_500 + 1) for at in range(0, len(text), 2_500)] for text in given
    ]  # fmt: skip
    encode = tokens.tokenizer().encode_ordinary
    count = sum(len(encode(text)) for text in given)

    def ours() -> None:
        chunks.forget()
        context = Context()
        for text in given:
            context.add_text(text)
        context.render()

    def paged() -> None:
        chunks.forget()
        context = Context()
        for index, pages in enumerate(documents):
            context.add(DocumentPart(name=f"d{index}", pages=tuple(pages)))
        context.render()

    def bare() -> None:
        for text in given:
            encode(text)

    sides = {"texts": ours, "documents by page": paged, "tokenizer alone": bare}
    theirs = _processor(bench)
    if theirs is not None:
        sides["transformers' processor"] = lambda: _then([theirs(text) for text in given])
    took = bench.alternate(sides)
    for name in sides:
        size = f"{sum(map(len, given)):,} characters of prose and code in {len(given)} texts" if name == "texts" else ""
        bench.rate(f"{name} to ids", took[name], amount=count, unit="tokens", note=size)
    bench.ratio("ids and spans, texts", took["texts"], took["tokenizer alone"], at_most=1.5)
    bench.ratio("ids and spans, documents by page", took["documents by page"], took["tokenizer alone"], at_most=1.5)
    if theirs is not None:
        bench.ratio("against transformers", took["documents by page"], took["transformers' processor"])


def _processor(bench: Bench):
    """transformers' own way from a chat to ids, or None where it is not installed."""
    try:
        from transformers import AutoProcessor, AutoTokenizer

        import engine.demo
    except ImportError:
        bench.remark("transformers is not installed: nothing to compare with")
        return None
    folder = str(engine.demo.unpack())
    try:
        tokenizer = AutoProcessor.from_pretrained(folder).tokenizer
    except (OSError, ValueError, AttributeError, KeyError, ImportError):
        tokenizer = AutoTokenizer.from_pretrained(folder)
    bench.remark("transformers' processor: the checkpoint's fast tokenizer, one call per text, ids only (it gives no places)")
    return lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]


def _write(bench: Bench, folder: Path, args: argparse.Namespace) -> _Files:
    from .. import Context

    bench.note("writing the files")
    pdf = compose_files.pdf(folder / "report.pdf", args.pages, seed=bench.seed)
    photos = folder / "photos"
    photos.mkdir()
    pictures = compose_files.pictures(photos, args.images, seed=bench.seed)
    sound = compose_files.recording(folder / "call.flac", args.audio_s, seed=bench.seed)
    context = Context()
    context.add_document(pdf)
    for picture in pictures:
        context.add_image(picture)
    context.add_audio(sound)
    left = max(args.tokens - len(context.render()), 1_000)
    words = folder / "texts"
    words.mkdir()
    # Real prose and code have about 3.8 characters a token.
    return _Files(
        pdf, args.pages, pictures, sound, args.audio_s, compose_files.text_files(words, int(left * 3.8), seed=bench.seed + 1)
    )  # fmt: skip


def _decode_pdf(files: _Files) -> None:
    import pypdfium2

    document = pypdfium2.PdfDocument(files.pdf.read_bytes())
    for index in range(len(document)):
        document[index].get_textpage().get_text_bounded()
    document.close()


def _decode_pictures(files: _Files) -> None:
    from PIL import Image

    for path in files.pictures:
        Image.open(io.BytesIO(path.read_bytes())).convert("RGB").load()


def _decode_sound(files: _Files) -> None:
    import soundfile
    import soxr

    with soundfile.SoundFile(io.BytesIO(files.sound.read_bytes())) as file:
        stream = soxr.ResampleStream(file.samplerate, 16_000, 1, dtype="float32")
        for block in file.blocks(1 << 18, dtype="float32", always_2d=True):
            stream.resample_chunk(block[:, 0] if block.shape[1] == 1 else (block[:, 0] + block[:, 1]) * np.float32(0.5))


def _decode_texts(files: _Files) -> None:
    for path in files.texts:
        path.read_bytes().decode()


def _decode(files: _Files) -> None:
    for decode in (_decode_pdf, _decode_pictures, _decode_sound, _decode_texts):
        decode(files)


def _compose(files: _Files) -> Context:
    from .. import Context

    context = Context("Answer briefly.")
    context.add_document(files.pdf)
    for picture in files.pictures:
        context.add_image(picture)
    context.add_audio(files.sound)
    for path in files.texts:
        context.add_document(path)
    context.ask("What do they have in common?")
    return context


def _kinds(bench: Bench, files: _Files) -> None:
    from .. import readers

    def pictures() -> None:
        for path in files.pictures:
            readers.read_image(path)

    kinds = (
        ("PDF", lambda: readers.read_document(files.pdf), lambda: _decode_pdf(files), files.pages, "pages"),
        ("images", pictures, lambda: _decode_pictures(files), len(files.pictures), "images"),
        ("audio", lambda: readers.read_audio(files.sound), lambda: _decode_sound(files), files.sound_s / 3600, "hours"),
    )
    rounds = max(3, bench.rounds // 2)
    for name, read, decode, amount, unit in kinds:

        def ours(read=read) -> None:
            read()

        took = bench.alternate({f"{name} read": ours, f"{name} decoded alone": decode}, rounds=rounds)
        bench.rate(f"{name} to parts", took[f"{name} read"], amount=amount, unit=unit, note=f"{rounds} rounds")
        bench.ratio(f"{name}: reading over decoding", took[f"{name} read"], took[f"{name} decoded alone"])


def _mixed(bench: Bench, files: _Files, folder: Path) -> None:
    from .. import chunks

    kept = _compose(files)
    rendered = kept.render()
    counts = kept.budget().by_modality()
    size = (
        f"{len(rendered):,} tokens: {files.pages} pages, {len(files.pictures)} images ({counts['image']:,}), {files.sound_s} s of "
        f"sound ({counts['audio']:,}), {len(files.texts)} text files; {len(rendered.spans):,} spans"
    )

    def cold() -> None:
        chunks.forget()
        _compose(files).render()

    rounds = max(3, bench.rounds // 2)
    took = bench.alternate({"composed cold": cold, "decoded alone": lambda: _decode(files)}, rounds=rounds)
    bench.time("a million mixed tokens, cold", took["composed cold"], note=f"{size}; {rounds} rounds")
    bench.ratio("mixed, cold: composing over decoding", took["composed cold"], took["decoded alone"], at_most=1.2)

    _kept(bench, kept, folder)
    del kept, rendered
    chunks.forget()
    gc.collect()
    _memory(bench, files)


def _kept(bench: Bench, kept: Context, folder: Path) -> None:
    """What a composed context costs from then on."""
    from .. import Context
    from ..parts import TextPart

    kept.render()
    bench.time("the same, warm", bench.measure("warm", lambda: _then(kept.render())))
    edits = iter(range(1_000_000))
    place = len(kept.items) // 2

    def edit() -> None:
        kept.replace(place, TextPart(text=f"Another note, number {next(edits)}, in place of the old one.", name="note"))
        kept.render()

    bench.time("an edit of one part", bench.measure("edit", edit, rounds=max(15, bench.rounds)), at_most_s=0.05)
    bench.time("its budget", bench.measure("budget", lambda: _then(kept.budget())))
    path = folder / "context.inkling"
    bench.time("saving it", bench.measure("save", lambda: _then(kept.save(path)), rounds=3, warmup=0))
    bench.value("the file", path.stat().st_size, unit="bytes")
    bench.time("loading it", bench.measure("load", lambda: _then(Context.load(path)), rounds=3, warmup=0))


def _then(_: object) -> None:
    """Nothing: the value was the work."""


def _memory(bench: Bench, files: _Files) -> None:
    decoded = sum(width * height * 3 for width, height in [compose_files.PICTURE_PX] * len(files.pictures))
    decoded += files.sound_s * 16_000 * 4 + sum(path.stat().st_size for path in files.texts)
    work = """
context = Context()
context.add_document(sys.argv[1])
folder = Path(sys.argv[2])
for path in sorted((folder / "photos").iterdir()):
    context.add_image(path)
context.add_audio(sys.argv[3])
for path in sorted((folder / "texts").iterdir()):
    context.add_document(path)
context.render()
"""
    before = (
        "from pathlib import Path\nfrom workbench import Context, readers, tokens\ntokens.encode('warm')\nimport soundfile, soxr"
    )
    base, peak = peak_bytes(work, str(files.pdf), str(files.pdf.parent), str(files.sound), before=before)
    bench.value(
        "memory at the peak of composing it", peak - base, unit="bytes", note=f"above {base:,} bytes of interpreter and libraries"
    )
    bench.value(
        "that, over the media's decoded bytes", (peak - base) / decoded, unit="×", at_most=3, note=f"{decoded:,} bytes decoded"
    )
