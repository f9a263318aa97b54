"""What a report of a capture says by itself: the analyses that suit what was recorded. Knows no file and draws nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .captures import Capture
    from .results import Result


def findings(capture: Capture) -> list[Result]:
    """One or two results per recorded seam, in the order of the seams."""
    found: list[Result] = []
    if "routing" in capture.seams:
        found.append(capture.routing_by("modality"))
    if "sconv" in capture.seams and "by_tap" in capture.sconv:
        found.append(capture.sconv_taps())
    if "attention" in capture.seams:
        found += [capture.attention_by("part"), capture.bias_share()]
    if "residual" in capture.seams and "lens_token" in capture.residual:
        found.append(capture.lens())
    if "drafts" in capture.seams:
        found.append(capture.drafts_by("modality"))
    return found
