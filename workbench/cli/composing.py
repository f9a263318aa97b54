"""Composing from the command line: the flags that name parts, and the context they make.

Shared by every command that takes a context. Parts enter in the order in which they are given. Knows no engine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine.protocol import DEFAULT_EFFORT, EFFORTS

if TYPE_CHECKING:
    from ..contexts import Context

_FLAGS = {
    "doc": "a document: PDF, DOCX, PPTX, XLSX, HTML, notebook, Markdown, CSV, JSON, source code, text, multi-page TIFF",
    "image": "an image: PNG, JPEG, WebP, TIFF, …",
    "audio": "a recording: WAV, FLAC, OGG, MP3, …; a long one is cut at silences",
    "folder": "every file of a folder or zip archive that can be read; .gitignore is respected",
    "fragment": "a kept part by its hash",
    "text": "a text, given as it stands",
}
_METAVARS = {"text": "TEXT", "folder": "FOLDER", "fragment": "HASH"}


class _InOrder(argparse.Action):
    """Collect (flag, value) pairs of several flags in one list, as given."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        assert option_string is not None, "only flags use this action"
        namespace.parts = [*(namespace.parts or ()), (option_string.removeprefix("--"), values)]


def add_part_arguments(parser: argparse.ArgumentParser, *, question: bool = True) -> None:
    """Add the flags that describe a context; `question` makes the question required."""
    for flag, what in _FLAGS.items():
        parser.add_argument(
            f"--{flag}", action=_InOrder, dest="parts", metavar=_METAVARS.get(flag, "FILE"), help=f"add {what}"
        )  # fmt: skip
    parser.set_defaults(parts=None)
    parser.add_argument(
        "question", nargs=None if question else "?", help="what to ask" if question else "the question, counted too"
    )
    parser.add_argument("--system", metavar="TEXT", help="system text")
    parser.add_argument(
        "--effort", default=str(DEFAULT_EFFORT), help=f"thinking effort: {', '.join(EFFORTS)}, or 0 to 0.99 (default: %(default)s)"
    )  # fmt: skip
    parser.add_argument("--password", help="password of encrypted PDFs")
    parser.add_argument(
        "--show", choices=("auto", "text", "image", "both"), default="auto",
        help="pages of PDFs as text, as images or both; auto is text, and images of scans (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--pages", metavar="1-5,9", help="only these pages, slides, sheets or cells of the documents")
    parser.add_argument("--load", metavar="FILE", help="begin with a saved context")
    parser.add_argument("--save", metavar="FILE", help="save the context before it is counted or sent")


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that name an engine and the room for its answer."""
    parser.add_argument("--url", help="the engine's address (default: the one that runs here)")
    parser.add_argument("--token", help="its token")
    parser.add_argument("--max-tokens", type=int, default=256, metavar="N", help="reserved for the answer (default: %(default)s)")
    parser.add_argument("--token-budget", type=int, metavar="N", help="refuse when prompt and answer need more than N tokens")


def build_context(args: argparse.Namespace) -> Context:
    """The context that the flags describe, saved if asked.

    Raises
    ------
    ContextError
        Whatever is wrong with a file, the effort or the texts.
    """
    from .. import Context

    effort = _effort(args.effort)
    if args.load:
        context = Context.load(args.load)
        context.effort = effort if args.effort != str(DEFAULT_EFFORT) else context.effort
        context.system = args.system if args.system is not None else context.system
    else:
        context = Context(system=args.system, effort=effort)
    _add_parts(context, args.parts or (), args)
    if args.question is not None:
        context.ask(args.question)
    if args.save:
        context.save(args.save)
    return context


def _add_parts(context: Context, parts: Sequence[tuple[str, str]], args: argparse.Namespace) -> None:
    for flag, value in parts:
        match flag:
            case "doc":
                # Options that one kind of file knows are no mistake beside a document of another kind.
                pdf = value.lower().endswith(".pdf")
                paged = value.lower().endswith((".pdf", ".pptx", ".xlsx", ".xlsm", ".ipynb", ".tif", ".tiff", ".gif"))
                context.add_document(
                    value, password=args.password if pdf else None, show=args.show if pdf else "auto",
                    pages=args.pages if paged else None,
                )  # fmt: skip
            case "image":
                context.add_image(value)
            case "audio":
                context.add_audio(value)
            case "folder":
                for item in context.add_folder(value).skipped:
                    sys.stderr.write(f"left out: {item.path}: {item.reason}\n")
            case "fragment":
                context.add_fragment(value)
            case _:
                context.add_text(value)


def _effort(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text
