"""The project's colours: cividis for quantities, Okabe-Ito for kinds. Both are readable without telling red from green.

One source for figures and widgets: :func:`cividis_bytes` goes to the browser as a trait. Kinds carry a label beside the colour,
always.

Source: cividis by Nuñez, Anderton and Renslow (2018), as matplotlib ships it; the eight hues by Okabe and Ito (2008).
"""

from __future__ import annotations

from functools import cache

OKABE_ITO: dict[str, str] = {
    "black": "#000000", "orange": "#E69F00", "sky": "#56B4E9", "green": "#009E73",
    "yellow": "#F0E442", "blue": "#0072B2", "vermilion": "#D55E00", "purple": "#CC79A7",
}  # fmt: skip

MODALITY_COLOURS: dict[str, str] = {
    "text": OKABE_ITO["sky"],
    "image": OKABE_ITO["orange"],
    "audio": OKABE_ITO["green"],
    "framing": "#9A9A9A",
}
"""One hue per modality; framing is grey, it is nobody's content. Lightnesses differ, so the four also differ in grey."""

MISSING_COLOUR = "#B4B4B4"
"""Rows that were never written."""


@cache
def diverging_bytes() -> bytes:
    """256 × RGB from blue over near-white to vermilion, for quantities with a sign; index 127 is zero."""
    import numpy as np

    ends = [
        np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], float)
        for colour in (OKABE_ITO["blue"], "#F4F4F4", OKABE_ITO["vermilion"])
    ]
    share = np.linspace(-1, 1, 255)[:, None]
    table = np.where(share < 0, ends[1] + (ends[0] - ends[1]) * -share, ends[1] + (ends[2] - ends[1]) * share)
    return np.round(np.concatenate([table, table[-1:]])).astype(np.uint8).tobytes()


@cache
def cividis_bytes() -> bytes:
    """256 × RGB, 8 bit: 768 bytes."""
    import matplotlib
    import numpy as np

    table = matplotlib.colormaps["cividis"](np.linspace(0, 1, 256))[:, :3]
    return np.round(table * 255).astype(np.uint8).tobytes()
