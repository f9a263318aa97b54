"""Jupyter notebooks: a page for each cell, its outputs below it, pictures as images.

Read as JSON, because that is what the format is; nothing is run and no Jupyter is needed. Of several forms of one output the
picture is taken, else the plain text. Terminal colours are taken out.

Source of the format: nbformat's documentation, versions 4.0 to 4.5.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any

from ..parts import DocumentPart, ImagePart, Page
from .options import Options
from .pictures import Pictures
from .sources import Source

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RASTER = ("image/png", "image/jpeg", "image/gif", "image/webp")


def read(source: Source, options: Options) -> DocumentPart:
    """The document part of a notebook."""
    options.refuse(source, "sheets", "cells")
    notebook = _load(source)
    cells = notebook["cells"]
    language = str(notebook.get("metadata", {}).get("language_info", {}).get("name", "python"))
    pictures = Pictures(source, options)
    pages: list[Page] = []
    for number in options.chosen(len(cells), source, "cell"):
        options.tell(f"{source.name}, cell {number}", number - 1, len(cells))
        text, images = _cell(cells[number - 1], language, pictures)
        if text or images:
            pages.append(Page(text=text, number=number, title=f"cell {number}", pictures=images))
    if not pages:
        raise source.unreadable("a notebook without any content")
    return DocumentPart(name=source.name, pages=tuple(pages), notes=pictures.notes)


def _load(source: Source) -> dict[str, Any]:
    try:
        notebook = json.loads(source.data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as problem:
        raise source.unreadable(f"not a readable notebook ({problem}): open it in JupyterLab and save it again") from problem
    version = notebook.get("nbformat") if isinstance(notebook, dict) else None
    if not isinstance(version, int) or version < 4 or not isinstance(notebook.get("cells"), list):
        raise source.unreadable(
            f"a notebook of format {version}, which is older than 4 or none: jupyter nbconvert --to notebook converts it"
        )
    return notebook


def _cell(cell: Any, language: str, pictures: Pictures) -> tuple[str, tuple[ImagePart, ...]]:
    if not isinstance(cell, dict):
        return "", ()
    said = _joined(cell.get("source", ""))
    if cell.get("cell_type") != "code":
        attached = [_raster(data) for data in (cell.get("attachments") or {}).values() if isinstance(data, dict)]
        images = pictures.take(blob for blob in attached if blob is not None)
        return "\n\n".join([said, *_marks(images, pictures)]).strip(), tuple(images)
    pieces = [f"```{language}\n{said}\n```"] if said.strip() else []
    images: list[ImagePart] = []
    for output in cell.get("outputs") or ():
        if isinstance(output, dict):
            for piece in _output(output, pictures, images):
                pieces.append(piece)
    return "\n\n".join(pieces), tuple(images)


def _output(output: dict[str, Any], pictures: Pictures, images: list[ImagePart]) -> Iterator[str]:
    match output.get("output_type"):
        case "stream":
            yield from _block(_joined(output.get("text", "")))
        case "error":
            traceback = "\n".join(map(str, output.get("traceback") or ()))
            yield from _block(traceback or f"{output.get('ename')}: {output.get('evalue')}")
        case "execute_result" | "display_data":
            data = output.get("data") or {}
            blob = _raster(data)
            image = pictures.one(blob) if blob is not None else None
            if image is not None:
                images.append(image)
                yield from _marks([image], pictures)
            elif "text/markdown" in data:
                yield _joined(data["text/markdown"])
            else:
                yield from _block(_joined(data.get("text/plain", "")))
                if "image/svg+xml" in data and blob is None:
                    pictures.missing()


def _raster(data: dict[str, Any]) -> bytes | None:
    for kind in _RASTER:
        if kind in data:
            try:
                return base64.b64decode(_joined(data[kind]))
            except (binascii.Error, ValueError):
                return b""
    return None


def _block(text: str) -> Iterator[str]:
    text = _COLOURS.sub("", text).strip("\n")
    if text.strip():
        yield f"Output:\n```\n{text}\n```"


def _marks(images: list[ImagePart], pictures: Pictures) -> list[str]:
    return [f"[image {pictures.number(image)}]" for image in images]


def _joined(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text)
