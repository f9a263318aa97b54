"""Static figures by matplotlib: for reports, papers, and wherever no widget runs. No state is kept and no window is opened."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["png", "svg"]


def png(figure: Figure, *, dpi: int = 144) -> bytes:
    """The figure as PNG bytes."""
    return _written(figure, "png", dpi=dpi)


def svg(figure: Figure) -> bytes:
    """The figure as SVG bytes, text as text."""
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        return _written(figure, "svg")


def _written(figure: Figure, kind: str, *, dpi: int = 72) -> bytes:
    file = io.BytesIO()
    # No creation date: the same capture gives the same bytes.
    figure.savefig(file, format=kind, dpi=dpi, metadata={"Software": None} if kind == "png" else {"Date": None})
    return file.getvalue()
