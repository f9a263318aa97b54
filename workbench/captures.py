"""Captures: what one forward pass did inside, as labelled arrays with spans and provenance.

A :class:`Capture` is a value: made from what an engine wrote (:meth:`Capture.from_folder_reader`), or from a file
(:meth:`Capture.load`), and it needs no engine afterwards. It does not know how the arrays came about (``engine.kernel``), nor how
to analyse them (``workbench.routing``) or draw them (``workbench.figures``). Arrays opened from a file stay on disk until they
are indexed.

Index letters: ``t`` token (absolute position), ``l`` layer (index in the model), ``k`` rank in top-k, ``s`` sink.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.protocol import CaptureManifest, Rendered, Span, tokens_by_modality

from .attention_analysis import AttentionAnalysis
from .drafts_analysis import DraftsAnalysis
from .errors import SelectionError
from .residual_analysis import ResidualAnalysis
from .routing_analysis import RoutingAnalysis
from .sconv_analysis import SconvAnalysis

if TYPE_CHECKING:
    import xarray as xr

    from .lazy_arrays import ReadBlock

ReadArray = Callable[[str, int, int], np.ndarray]
"""``read_array(name, start, stop)``: rows `start` to `stop` along the first dimension of one array."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Capture(RoutingAnalysis, SconvAnalysis, AttentionAnalysis, ResidualAnalysis, DraftsAnalysis):
    """What was recorded of one forward pass.

    Attributes
    ----------
    manifest : CaptureManifest
        Plan, coverage and provenance, as the engine stamped them.
    rendered : Rendered
        The token ids that ran, their spans and media.
    seams : dict of str to xarray.Dataset
        One dataset per recorded seam.

    Examples
    --------
    >>> cap = eng.capture(ctx, CapturePlan(routing=True))          # doctest: +SKIP
    >>> cap.routing["sink"].sum("s").mean("t")                     # doctest: +SKIP
    >>> cap.save("run.zarr"); Capture.load("run.zarr")             # doctest: +SKIP
    """

    manifest: CaptureManifest
    rendered: Rendered
    seams: dict[str, xr.Dataset]
    _made: dict[str, Any] = field(default_factory=dict, init=False)

    @classmethod
    def from_folder_reader(cls, manifest: CaptureManifest, read_array: ReadArray, rendered: Rendered) -> Capture:
        """Read a whole capture by rows.

        Parameters
        ----------
        manifest : CaptureManifest
        read_array : callable
            ``read_array(name, start, stop)`` returns rows `start` to `stop` along the first dimension.
        rendered : Rendered
            What ran; its length must be the manifest's.

        Raises
        ------
        CaptureFileError
            The manifest has another layout, or does not fit the context or its own arrays.
        """

        def read(name: str, where: tuple[slice, ...]) -> NDArray[Any]:
            return read_array(name, where[0].start, where[0].stop)[(slice(None), *where[1:])]

        return cls.from_reader(manifest, read, rendered, load=True)

    @classmethod
    def from_reader(cls, manifest: CaptureManifest, read: ReadBlock, rendered: Rendered, *, load: bool = False) -> Capture:
        """Open a capture whose arrays are read by block.

        Parameters
        ----------
        read : callable
            ``read(name, where)``: the block of one array; `where` has a slice for every dimension.
        load : bool
            Read everything now, so that the reader is not needed any more.

        Raises
        ------
        CaptureFileError
            The manifest has another layout, or does not fit the context or its own arrays.
        """
        from .capture_datasets import check_fits, datasets

        check_fits(manifest, rendered)
        return cls(manifest=manifest, rendered=rendered, seams=datasets(manifest, read, load=load))

    @property
    def routing(self) -> xr.Dataset:
        """``expert`` (t,l,k) uint8 or uint16, ``weight`` (t,l,k), ``sink`` (t,l,s); attribute ``experts`` is their number.

        Raises
        ------
        SelectionError
            The plan did not record routing.
        """
        return self._seam("routing")

    @property
    def sconv(self) -> xr.Dataset:
        """``input``, ``term``, ``cosine`` (t,l,site), ``by_tap`` (t,l,site,tap), ``kernel`` (l,site,c,tap).

        Raises
        ------
        SelectionError
            The plan did not record them.
        """
        return self._seam("sconv")

    @property
    def attention(self) -> xr.Dataset:
        """``weight``, ``content``, ``bias`` (q,l,h,…) and summaries of each row (q,l,h); see :mod:`engine.protocol.captures`.

        Raises
        ------
        SelectionError
            The plan did not record any.
        """
        return self._seam("attention")

    @property
    def residual(self) -> xr.Dataset:
        """``norm`` (t,l,site), ``vector`` (t,l,site,c), ``lens_token`` and ``lens_logprob`` (t,l,k), as the plan asked for.

        Raises
        ------
        SelectionError
            The plan did not record it.
        """
        return self._seam("residual")

    @property
    def drafts(self) -> xr.Dataset:
        """``token``, ``logprob`` and ``accepted`` (t,depth): what each draft head proposes for token ``t + 1 + depth``.

        Raises
        ------
        SelectionError
            The plan did not record it.
        """
        return self._seam("drafts")

    @property
    def spans(self) -> tuple[Span, ...]:
        """Partition of the tokens: where each comes from."""
        return self.rendered.spans

    @property
    def token_ids(self) -> NDArray[np.uint32]:
        """The ids that ran, shape (t,)."""
        return self.rendered.token_ids

    @property
    def provenance(self) -> dict[str, Any]:
        """Model, revision, engine arguments, kernel set, versions, seed, media hashes."""
        return self.manifest.provenance

    @property
    def complete(self) -> bool:
        """Whether every row was written exactly once by every layer."""
        return self.manifest.complete

    def __len__(self) -> int:
        return self.manifest.tokens

    def save(self, path: str | Path) -> Path:
        """Write the capture as a zarr folder (see :func:`workbench.capture_files.save`)."""
        from . import capture_files

        return capture_files.save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Capture:
        """Open a saved capture, or the folder an engine left behind; needs no engine (see :func:`workbench.capture_files.load`)."""
        from . import capture_files

        return capture_files.load(path)

    def _seam(self, name: str) -> xr.Dataset:
        if name not in self.seams:
            recorded = ", ".join(self.seams) or "nothing"
            raise SelectionError(
                f"this capture has no {name}: its plan recorded {recorded}. Capture again with CapturePlan({name}=…)",
                recorded=sorted(self.seams),
            )
        return self.seams[name]

    def __repr__(self) -> str:
        parts = [f"{len(self):,} tokens"]
        for name, data in self.seams.items():
            sizes = " × ".join(f"{data.sizes[dim]} {dim}" for dim in data.sizes if dim != "t")
            parts.append(f"{name} ({sizes})")
        if not self.complete:
            parts.append(f"PARTIAL: {self.manifest.covered_tokens:,} tokens covered")
        return f"Capture({', '.join(parts)}, {self.provenance.get('model', 'unknown model')})"

    def _repr_html_(self) -> str:
        rows = [("Tokens", f"{len(self):,}")]
        counts = {name: n for name, n in tokens_by_modality(self.spans).items() if n}
        rows.append(("Modalities", ", ".join(f"{name} {n:,}" for name, n in counts.items())))
        for name, data in self.seams.items():
            held = "; ".join(f"{key} ({','.join(map(str, var.dims))}) {var.dtype}" for key, var in data.items())
            several = f"{data.sizes['l']} layers" if "l" in data.sizes else f"{data.sizes['depth']} draft heads"
            rows.append((name.capitalize(), f"{several}: {held}, {data.nbytes / 1e6:,.1f} MB"))
        state = "every row written once" if self.complete else f"partial: {self.manifest.covered_tokens:,} of {len(self):,} tokens"
        rows.append(("Coverage", state))
        rows += [(str(key), _short(value)) for key, value in self.provenance.items() if not isinstance(value, dict | list)]
        body = "".join(
            f'<tr><th style="text-align:left;font-weight:600">{html.escape(key)}</th>'
            f'<td style="text-align:left">{html.escape(value)}</td></tr>'
            for key, value in rows
        )
        return f"<table><caption>Capture {html.escape(self.manifest.id)}</caption><tbody>{body}</tbody></table>"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else text[:97] + "…"
