"""The composed parts as a reader sees them: pictures with their patch grid, recordings with waveform and player, text excerpts.

Works from a rendered context alone, so a saved capture shows its sources too. Everything becomes inline HTML and SVG.
"""

from __future__ import annotations

import base64
import html
import io
import wave
from collections.abc import Iterable

import numpy as np

from engine.protocol import AudioPlace, ImagePlace, PatchGrid, Rendered, Span

from .palettes import MODALITY_COLOURS
from .token_text import text_of

THUMBNAIL_PX = 640
EXCERPT_TOKENS = 160
EXCERPTS_PER_PART = 3
PLAYER_S = 20.0
"""Seconds of a recording that a report plays: 16 kHz, 16 bit is 32 kB a second."""

MOST_PARTS = 24
"""Parts shown; the budget lists all."""


def parts_html(rendered: Rendered) -> str:
    """All parts of a context, in order; the question and framing are not among them."""
    groups = _by_part(rendered.spans)
    shown = [_part(rendered, spans) for spans in groups[:MOST_PARTS]]
    more = f'<p class="small">and {len(groups) - MOST_PARTS} more parts</p>' if len(groups) > MOST_PARTS else ""
    return f'<div class="parts">{"".join(shown)}</div>{more}' if shown else '<p class="small">Text only.</p>'


def question_of(rendered: Rendered) -> str:
    """Text of the last question in a context, or ''."""
    for span in reversed(rendered.spans):
        if span.label == "question" and span.modality == "text":
            return text_of(rendered.token_ids[span.start : span.stop], limit_tokens=400)
    return ""


def _by_part(spans: Iterable[Span]) -> list[list[Span]]:
    found: dict[str, list[Span]] = {}
    for span in spans:
        if span.part and span.label not in ("question", "system", "effort"):
            found.setdefault(span.part, []).append(span)
    return [group for group in found.values() if any(span.modality != "framing" for span in group)]


def _part(rendered: Rendered, spans: list[Span]) -> str:
    kind = next(span.modality for span in spans if span.modality != "framing")
    tokens = sum(len(span) for span in spans)
    body, excerpts = [], 0
    for span in spans:
        media = next((item for item in rendered.media if span.start <= item.start < span.stop), None)
        blob = rendered.blobs.get(media.blob) if media else None
        match span.locator:
            case ImagePlace(grid=grid):
                body.append(image_html(blob, grid, span.label))
            case AudioPlace(start_s=start, stop_s=stop):
                body.append(audio_html(blob, stop - start, span.label))
            case _ if span.modality == "text" and excerpts < EXCERPTS_PER_PART:
                excerpts += 1
                body.append(_excerpt(rendered, span))
    label = spans[0].label.split(", page ")[0]
    head = f'<h3>{html.escape(label)}</h3><p class="small">{html.escape(kind)} · {tokens:,} tokens</p>'
    return f'<section class="part" style="--kind:{MODALITY_COLOURS[kind]}"><div>{head}</div><div>{"".join(body)}</div></section>'


def _excerpt(rendered: Rendered, span: Span) -> str:
    text = text_of(rendered.token_ids[span.start : span.stop], limit_tokens=EXCERPT_TOKENS).strip()
    page = getattr(span.locator, "page", None)
    head = f'<p class="small">Page {page}</p>' if page else ""
    return f'{head}<p class="excerpt">{html.escape(text)}</p>'


def image_html(blob: bytes | None, grid: PatchGrid, label: str) -> str:
    """A thumbnail under its patch grid: one cell is one token."""
    size = f"{grid.rows} × {grid.cols} patches of {grid.patch_px} px, {grid.tokens:,} tokens"
    caption = f"<figcaption>{size}, image resized to {grid.width_px} × {grid.height_px} px</figcaption>"
    if blob is None:
        return f'<figure><p class="small">{html.escape(label)}: the picture itself was not kept.</p>{caption}</figure>'
    from PIL import Image

    picture = Image.open(io.BytesIO(blob)).convert("RGB")
    shown_width = min(grid.width_px, THUMBNAIL_PX)
    picture = picture.resize((shown_width, max(1, round(shown_width * picture.height / picture.width))))
    lines = "".join(f"M{x} 0V{grid.height_px}" for x in range(grid.patch_px, grid.width_px, grid.patch_px))
    lines += "".join(f"M0 {y}H{grid.width_px}" for y in range(grid.patch_px, grid.height_px, grid.patch_px))
    strokes = "".join(
        f'<path d="{lines}" fill="none" stroke="{colour}" stroke-width="{wide}" vector-effect="non-scaling-stroke"/>'
        for colour, wide in (("#fff", 1.6), ("#0009", 0.8))
    )
    return (
        f'<figure><div class="grid"><img alt="{html.escape(label)}" width="{picture.width}" height="{picture.height}" '
        f'src="{_png(picture)}"><svg viewBox="0 0 {grid.width_px} {grid.height_px}" preserveAspectRatio="none" aria-hidden="true">'
        f"{strokes}</svg></div>{caption}</figure>"
    )


def audio_html(blob: bytes | None, duration_s: float, label: str) -> str:
    """Waveform, and a player for the first seconds."""
    caption = f"{duration_s:.2f} s, 20 tokens a second"
    if blob is None:
        missing = f'<p class="small">{html.escape(label)}: the recording was not kept.</p>'
        return f"<figure>{missing}<figcaption>{caption}</figcaption></figure>"
    from .media import decode_wav

    samples = decode_wav(blob)
    kept = samples[: round(PLAYER_S * 16_000)]
    if len(kept) < len(samples):
        caption += f"; the player holds the first {PLAYER_S:.0f} s"
    return (
        f'<figure><svg class="wave" viewBox="0 0 1000 72" preserveAspectRatio="none" role="img" '
        f'aria-label="Waveform of {html.escape(label)}">'
        f'<path d="{_outline(samples)}" fill="currentColor"/></svg>'
        f'<audio controls preload="metadata" aria-label="{html.escape(label)}" src="{_wav(kept)}"></audio>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _outline(samples: np.ndarray, columns: int = 500) -> str:
    """Closed path of the largest and smallest sample per column, scaled to the loudest."""
    if not len(samples):
        return ""
    edges = np.linspace(0, len(samples), min(columns, len(samples)) + 1).astype(int)[:-1]
    scale = 34 / max(float(np.abs(samples).max()), 1e-9)
    high, low = np.maximum.reduceat(samples, edges) * scale, np.minimum.reduceat(samples, edges) * scale
    x = np.linspace(0, 1000, len(edges))
    points = [f"{a:.0f} {36 - v - 0.5:.1f}" for a, v in zip(x, high, strict=True)]
    points += [f"{a:.0f} {36 - v + 0.5:.1f}" for a, v in zip(x[::-1], low[::-1], strict=True)]
    return "M" + "L".join(points) + "Z"


def _png(picture: object) -> str:
    file = io.BytesIO()
    picture.save(file, format="PNG", optimize=True)  # pyright: ignore[reportAttributeAccessIssue]
    if file.tell() > 300_000:  # a photograph: lossless would cost the report its size
        file = io.BytesIO()
        picture.save(file, format="JPEG", quality=85)  # pyright: ignore[reportAttributeAccessIssue]
        return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _wav(samples: np.ndarray) -> str:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(16_000)
        writer.writeframes((np.clip(samples, -1, 1) * 32_767).astype("<i2").tobytes())
    return f"data:audio/wav;base64,{base64.b64encode(file.getvalue()).decode()}"
