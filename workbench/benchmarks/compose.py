"""How fast files and texts become exact token ids with places."""

from __future__ import annotations

import argparse

import numpy as np

from .bench import Bench
from .real_text import texts

SUMMARY = "composing: text, documents, images and recordings to exact token ids and places"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the bench's options."""
    parser.add_argument("--characters", type=int, default=4_000_000, metavar="N", help="of text (default: %(default)s)")


def run(bench: Bench, args: argparse.Namespace) -> None:
    """Measure."""
    _text(bench, 200_000 if bench.quick else args.characters)


def _text(bench: Bench, characters: int) -> None:
    from .. import Context, tokens

    given = texts(characters, seed=bench.seed)
    encode = tokens.tokenizer().encode_ordinary
    count = sum(len(encode(text)) for text in given)

    def ours() -> None:
        context = Context()
        for text in given:
            context.add_text(text)
        context.render()

    def bare() -> None:
        for text in given:
            np.array(encode(text), dtype=np.uint32)

    took = bench.alternate({"ids and spans": ours, "tokenizer alone": bare})
    bench.rate(
        "text to ids and spans", took["ids and spans"], amount=count, unit="tokens", note=f"{sum(map(len, given)):,} characters"
    )
    bench.rate("tokenizer alone", took["tokenizer alone"], amount=count, unit="tokens")
    bench.ratio("what spans add", took["ids and spans"], took["tokenizer alone"], at_most=1.5)
