"""One expert of one layer: where in the context it is used most, as text, patches of pictures and stretches of sound.

A favourite is a window of neighbouring tokens, a patch or a stretch of frames with the largest mean share of the expert; windows of
one answer do not overlap. Found exactly, by one walk over the capture. Knows nothing of figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.protocol import AudioPlace, ImagePlace, Span, span_at

from .errors import SelectionError
from .results import Result
from .routing import By, expert_share, group_tokens
from .seam_analysis import notes_of
from .token_text import text_of

if TYPE_CHECKING:
    from .captures import Capture

AROUND_TOKENS = 8
"""Tokens of text shown before and behind a favourite passage."""

KINDS = {"passages": ("text", 8), "patches": ("image", 1), "frames": ("audio", 10)}
"""Kinds of favourites: modality, and tokens of a window."""

NOTE = "The largest mean shares, exact; what an expert is used for is correlation, banning it shows what it does."


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExpertView:
    """Expert `expert` of layer `layer` (the model's index) in a capture."""

    capture: Capture
    layer: int
    expert: int

    def __repr__(self) -> str:
        share = self.share()
        return f"ExpertView(layer {self.layer}, expert {self.expert}: {np.nanmean(share):.2%} of the weight)"

    def share(self) -> NDArray[np.float32]:
        """Its share of every token's weight, shape (t,): 0 where it was not chosen, NaN where nothing was recorded."""
        routing = self.capture.routing
        whole = np.full(len(self.capture), np.nan, np.float32)
        whole[routing["t"].values] = expert_share(routing, self.layer, self.expert)
        return whole

    def by(self, by: By = "part") -> Result:
        """Mean share, tokens that chose it and all tokens, by modality, part or span."""
        import xarray as xr

        names, groups = group_tokens(self.capture.spans, by)
        share = self.share()
        held = ~np.isnan(share)
        count = np.bincount(groups[held], minlength=len(names))
        total = np.bincount(groups[held], weights=share[held].astype(np.float64), minlength=len(names))
        chosen = np.bincount(groups[held], weights=share[held] > 0, minlength=len(names)).astype(np.int64)
        with np.errstate(invalid="ignore"):
            mean = total / np.where(count, count, np.nan)
        data = xr.Dataset(
            {"share": ((by,), mean, {"units": "1"}), "chosen": ((by,), chosen), "tokens": ((by,), count)}, coords={by: names}
        )
        return self._result(f"by {by}", data, "expert:by")

    def passages(self, most: int = 10, *, tokens: int = 8) -> Result:
        """Favourite passages of text: the `most` best windows of `tokens` tokens within a span of text.

        Returns
        -------
        Result
            Along ``rank``: ``start``, ``stop``, ``share`` (mean), ``label`` of the span, ``text`` with what stands around it.
        """
        return self._favourites("passages", most, tokens, ("text",))

    def patches(self, most: int = 10) -> Result:
        """Favourite patches of pictures, along ``rank``: ``start``, ``share``, ``label``, ``row`` and ``col`` in the patch grid."""
        return self._favourites("patches", most, 1, ("image",))

    def frames(self, most: int = 10, *, tokens: int = 10) -> Result:
        """Favourite stretches of sound (a token is 50 ms), along ``rank``: ``start``, ``share``, ``start_s``, ``stop_s``."""
        return self._favourites("frames", most, tokens, ("audio",))

    def favourites(self, most: int = 5) -> list[dict[str, Any]]:
        """The `most` best of each kind that the capture has, found in one walk.

        Returns
        -------
        list of dict
            ``kind`` (passages, patches, frames), and what :meth:`passages`, :meth:`patches` and :meth:`frames` say of each; a patch
            has its picture's ``grid``.
        """
        share, found = self.share(), []
        for kind, (modality, width) in KINDS.items():
            spans = [span for span in self.capture.spans if span.modality == modality]
            for start, stop, mean in best_windows(share, spans, width, most) if spans else ():
                values = {"kind": kind, **self._described(start, stop, mean)}
                if kind == "patches" and isinstance(place := span_at(self.capture.spans, start).locator, ImagePlace):
                    values["grid"] = {"rows": place.grid.rows, "cols": place.grid.cols}
                found.append(values)
        return found

    def _favourites(self, what: str, most: int, width: int, modalities: tuple[str, ...]) -> Result:
        import xarray as xr

        if most < 1 or width < 1:
            raise SelectionError(f"{most} windows of {width} tokens: both are at least 1")
        spans = [span for span in self.capture.spans if span.modality in modalities]
        if not spans:
            there = ", ".join(dict.fromkeys(span.modality for span in self.capture.spans))
            raise SelectionError(f"this capture has no {modalities[0]} for {what}; it has {there}")
        windows = best_windows(self.share(), spans, width, most)
        found = [self._described(start, stop, mean) for start, stop, mean in windows]
        names = list(found[0]) if found else ["start", "stop", "share", "label"]
        data = xr.Dataset(
            {name: (("rank",), np.asarray([item[name] for item in found])) for name in names},
            coords={"rank": np.arange(1, len(found) + 1)},
        )  # fmt: skip
        return self._result(f"favourite {what}", data, "expert:favourites")

    def _described(self, start: int, stop: int, mean: float) -> dict[str, Any]:
        span = span_at(self.capture.spans, start)
        values: dict[str, Any] = {"start": start, "stop": stop, "share": mean, "label": span.label}
        match span.place(start), span.place(stop - 1):
            case ImagePlace(row=row, col=col), _:
                values |= {"row": row, "col": col}
            case AudioPlace(start_s=start_s), AudioPlace(stop_s=stop_s):
                values |= {"start_s": start_s, "stop_s": stop_s}
            case _:
                ids = self.capture.token_ids
                before = text_of(ids[max(span.start, start - AROUND_TOKENS) : start])
                after = text_of(ids[stop : min(span.stop, stop + AROUND_TOKENS)])
                values["text"] = f"{before}⟦{text_of(ids[start:stop])}⟧{after}"
        return values

    def _result(self, what: str, data: Any, figure: str) -> Result:
        title = f"Layer {self.layer}, expert {self.expert}: {what}"
        return Result(title=title, data=data, figure=figure, notes=notes_of(self.capture, NOTE))


def best_windows(share: NDArray[np.floating], spans: list[Span], width: int, most: int) -> list[tuple[int, int, float]]:
    """Up to `most` windows with the largest mean share, largest first: start, stop, mean; they do not overlap nor leave their span.

    A span shorter than `width` is one window. Windows without any share, or with tokens that were not written, are none.
    """
    starts, means = [], []
    for span in spans:
        values = share[span.start : span.stop].astype(np.float64)
        wide = min(width, len(values))
        sums = np.concatenate([[0.0], np.cumsum(np.nan_to_num(values))])
        gaps = np.concatenate([[0], np.cumsum(np.isnan(values))])
        mean = (sums[wide:] - sums[:-wide]) / wide
        mean[gaps[wide:] > gaps[:-wide]] = 0.0
        starts.append(span.start + np.arange(len(mean)))
        means.append(mean)
    at, mean = np.concatenate(starts), np.concatenate(means)
    ends = np.minimum(at + width, np.repeat([span.stop for span in spans], [len(piece) for piece in starts]))
    # Chosen windows exclude at most 2·width - 1 others each, so so many of the best are enough to choose from.
    enough = min(len(mean), most * 2 * width + 1)
    best = np.argpartition(-mean, enough - 1)[:enough]
    found: list[tuple[int, int, float]] = []
    for index in best[np.lexsort((at[best], -mean[best]))]:
        start, stop, value = int(at[index]), int(ends[index]), float(mean[index])
        if value <= 1e-12 or len(found) == most:
            break
        if all(stop <= other or start >= end for other, end, _ in found):
            found.append((start, stop, value))
    return found
