"""One query token's attention on paper: heads, the row over all tokens, and the share by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..palettes import MODALITY_COLOURS
from ..seam_analysis import CORRELATION, notes_of
from ..token_text import token_text
from . import drawable
from .axes import INK, MUTED, bar, layer_ticks, quiet, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..attention_views import AttentionSubject

BUCKETS = 900
PARTS = 8


def attention_view(subject: AttentionSubject, *, query: int = 0, layer: int, head: int = -1, width_in: float = 9.0) -> Figure:
    """What the widget shows first, without its gestures.

    Parameters
    ----------
    query : int
        Index among the recorded query tokens.
    head : int
        -1 for the mean over heads.
    """
    from matplotlib.figure import Figure

    windows, capture = subject.windows, subject.capture
    rows = min(3.2, max(1.3, len(windows.layers) * 0.22))
    figure = Figure(figsize=(width_in, rows + 3.0), layout="constrained", facecolor="white")
    t = int(windows.queries[query])
    whose = "mean over heads" if head < 0 else f"head {head}"
    text = drawable(token_text(int(capture.token_ids[t])), most=24)
    figure.suptitle(
        f"Attention from token {t:,} \u201c{text}\u201d, layer {layer}, {whose}",
        fontsize=10, color=INK, x=0.01, ha="left",
    )  # fmt: skip
    grid = figure.add_gridspec(2, 2, height_ratios=(rows, 1.2))
    _heads(figure.add_subplot(grid[0, 0]), subject, query)
    _parts(figure.add_subplot(grid[0, 1]), subject, query, layer, head)
    _row(figure.add_subplot(grid[1, :]), subject, query, layer, head)
    figure.supxlabel("\n".join((CORRELATION, *notes_of(capture))), fontsize=7, color=MUTED, x=0.01, ha="left")
    return figure


def _heads(axes: Axes, subject: AttentionSubject, query: int) -> None:
    block = subject.windows.data[["size_bias", "size_content"]].isel(q=query).load()
    bias, content = (block[name].transpose("l", "h").values.astype(np.float64) for name in ("size_bias", "size_content"))
    share = np.divide(bias, bias + content, out=np.zeros_like(bias), where=bias + content > 0)
    image = axes.imshow(share * 100, cmap="cividis", vmin=0, aspect="auto", interpolation="nearest")
    bar(axes, image, "%")
    heads = subject.windows.heads
    step = -(-len(heads) // 16)
    axes.set_xticks(range(0, len(heads), step), [str(head) for head in heads[::step]])
    axes.set_xlabel("Head", color=MUTED, fontsize=8)
    title(axes, "Bias's share of the logit")
    layer_ticks(axes, subject.windows.layers)


def _parts(axes: Axes, subject: AttentionSubject, query: int, layer: int, head: int) -> None:
    from ..attention_views import part_rows

    rows = part_rows(subject, query, layer, head)[:PARTS]
    places = np.arange(len(rows))
    axes.barh(places, [row["weight"] * 100 for row in rows], color=[MODALITY_COLOURS[row["modality"]] for row in rows], height=0.7)
    axes.set_yticks(places, [drawable(row["label"], most=28) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("% of the weight", color=MUTED, fontsize=8)
    title(axes, "Share by part")
    quiet(axes)


def _row(axes: Axes, subject: AttentionSubject, query: int, layer: int, head: int) -> None:
    windows = subject.windows
    found = windows.row(query, layer, head, 0, windows.tokens, BUCKETS)
    edges = found.start + np.arange(found.values.shape[1] + 1) * found.width_tokens
    axes.stairs(np.nan_to_num(found.values[0]) * 100, np.minimum(edges, windows.tokens), fill=True, color=INK)
    for span in subject.capture.spans:
        axes.axvspan(
            span.start, span.stop, ymin=-0.08, ymax=-0.02, color=MODALITY_COLOURS[span.modality], linewidth=0, clip_on=False
        )  # fmt: skip
    axes.set_xlim(0, windows.tokens)
    axes.set_ylim(bottom=0)
    per = "key" if found.width_tokens == 1 else f"{found.width_tokens:,} keys"
    axes.set_ylabel(f"% per {per}", color=MUTED, fontsize=8)
    axes.set_xlabel("Token", color=MUTED, fontsize=8)
    quiet(axes)
    axes.tick_params(axis="x", pad=12, length=0)  # below the parts' colours
