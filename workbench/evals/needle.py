"""A needle in a haystack: one fact at a given depth of a long text, asked for; rates by length and depth, as a table and a figure.

The haystack is generated filler, or a text of one's own (repeated where it is too short). Beside it stand the figures published for
Inkling itself: those are of the full model, and of another haystack.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from engine.demo.train.facts import Phrases
from engine.demo.train.lookup import filler
from engine.demo.train.skills.items import Item, Text, it_is

from .. import tokens
from ..errors import EvalRunError
from ..markdown_tables import markdown_table
from .suites import Row

CASES = 5
PUBLISHED = (("2K to 221K", 99.09, 99.09), ("294K to 513K", 95.68, 96.82), ("586K to 805K", 81.36, 84.09), ("878K", 70.91, 80.91))
"""Per cent of needles that Inkling finds, by tokens: NVFP4 on vLLM, and the reference implementation."""

SOURCE = "vLLM's report on Inkling, 15 July 2026: https://blog.vllm.ai/2026/07/15/inkling.html"


def length(text: str) -> int:
    """Tokens, from a number or one with k or M.

    Raises
    ------
    EvalRunError

    Examples
    --------
    >>> length("64k"), length("1M"), length("500")
    (64000, 1000000, 500)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmM]?)", text)
    if found is None or not (tokens_ := round(float(found[1]) * {"": 1, "k": 1e3, "m": 1e6}[found[2].lower()])) >= 200:
        raise EvalRunError(f"--lengths {text!r}: a number of tokens from 200, such as 2000, 64k or 1M")
    return tokens_


def haystack(path: Path | None) -> str | None:
    """A text of one's own, or None.

    Raises
    ------
    EvalRunError
        It cannot be read, or is too short to be a haystack.
    """
    if path is None:
        return None
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise EvalRunError(f"--haystack {path}: {problem}", path=str(path)) from problem
    if len(text.split()) < 100:
        raise EvalRunError(f"--haystack {path}: {len(text.split())} words are no haystack: at least 100", path=str(path))
    return text


def rows(lengths: Sequence[int], depths: Sequence[int], seed: int, text: str | None) -> tuple[Row, ...]:
    """A row for every length and depth."""
    return tuple(
        Row(
            name=cell(size, depth), about=f"{size:,} tokens, {depth} % deep", cases=CASES, tokens=size, shared=CASES,
            make=lambda index, size=size, depth=depth: _case(size, depth, seed, text, index),
        )
        for size in lengths
        for depth in depths
    )  # fmt: skip


def cell(size: int, depth: int) -> str:
    """A row's name."""
    return f"{size} tokens, {depth} %"


def _case(size: int, depth: int, seed: int, text: str | None, index: int) -> Item:
    random = Random(f"{seed}/needle/{index}")
    phrases = Phrases(random, held_out=True)
    key, value = phrases.thing(), phrases.value("code")
    needle = f"The access code of the {key} is {value}."
    sentences = _sentences(size - 60, seed, text)
    at = round(len(sentences) * depth / 100)
    body = " ".join([*sentences[:at], needle, *sentences[at:]])
    return Item("0.0", (Text(body), Text(f"What is the access code of the {key}?"), it_is(value, "needle")))


@lru_cache(2)
def _sentences(size: int, seed: int, text: str | None) -> list[str]:
    """Sentences of about `size` tokens in all; the same for every case of a length, so that they stay in the prefix cache."""
    phrases = Phrases(Random(f"{seed}/haystack"), held_out=True)
    own = None if text is None else [s.strip() for s in re.split(r"(?<=[.!?])\s+", text) if s.strip()]
    found: list[str] = []
    used = 0
    while used < size:
        found.append(filler(phrases) if own is None else own[len(found) % len(own)])
        used += len(tokens.encode(" " + found[-1]))
    return found


def page(found: dict[str, Any]) -> str:
    """The report as a page of Markdown: a table by length and depth, and the published one."""
    sizes, depths, shares = grid(found)
    body = [[f"{size:,}", *(shares.get((size, depth), "–") for depth in depths)] for size in sizes]
    published = [[name, f"{ours:.2f} %", f"{reference:.2f} %"] for name, ours, reference in PUBLISHED]
    return "\n".join([
        "# Needle in a haystack", "",
        f"One code in filler, asked for by name; greedy answers of `{found['engine']['model']}`, seed {found['settings']['seed']}. "
        "Right of cases by length in tokens (down) and depth (across); an answer counts when it says the code.", "",
        markdown_table([["tokens", *(f"{depth} %" for depth in depths)], *body]), "",
        "Published for Inkling itself, on another haystack:", "",
        markdown_table([["tokens", "vLLM, NVFP4", "reference, NVFP4"], *published]), "", f"Source: {SOURCE}", "",
    ])  # fmt: skip


def grid(found: dict[str, Any]) -> tuple[list[int], list[int], dict[tuple[int, int], str]]:
    """Lengths, depths, and right of cases by both."""
    sizes: dict[int, None] = {}
    depths: dict[int, None] = {}
    shares: dict[tuple[int, int], str] = {}
    for line in found["rows"]:
        size, depth = map(int, re.findall(r"\d+", line["skill"]))
        sizes[size], depths[depth] = None, None
        if line["cases"]:
            shares[size, depth] = f"{line['right']} of {line['cases']}"
    return sorted(sizes), sorted(depths), shares


def figure(found: dict[str, Any], path: Path) -> Path:
    """The table as a heat map (PNG)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sizes, depths, shares = grid(found)
    values = [[_share(shares.get((size, depth))) for size in sizes] for depth in depths]
    drawn = Figure(figsize=(1.2 * len(sizes) + 2, 0.5 * len(depths) + 1.6), layout="constrained")
    axes = drawn.subplots()
    image = axes.imshow(values, vmin=0, vmax=1, cmap="cividis", aspect="auto")
    axes.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes])
    axes.set_yticks(range(len(depths)), [f"{depth} %" for depth in depths])
    axes.set_xlabel("tokens")
    axes.set_ylabel("depth")
    for y, depth in enumerate(depths):
        for x, size in enumerate(sizes):
            text = shares.get((size, depth), "–")
            axes.text(x, y, text, ha="center", va="center", color="black" if _share(text) > 0.5 else "white")
    drawn.colorbar(image, label="share of needles found")
    axes.set_title(f"Needle in a haystack, {found['engine']['model']}")
    FigureCanvasAgg(drawn).print_figure(path, dpi=110)
    return path


def _share(text: str | None) -> float:
    if not text or text == "–":
        return float("nan")
    right, cases = map(int, text.split(" of "))
    return right / cases
