"""What an analysis in one line returns: labelled numbers that show themselves as a table and draw themselves as a figure.

A :class:`Result` holds an xarray dataset and the name of the figure that suits it; nothing is drawn, and matplotlib not loaded,
before :meth:`Result.plot`. This module knows no analysis.
"""

from __future__ import annotations

import html
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

SHOWN_ROWS = 24
"""Rows of the table in a notebook; the rest is counted."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Result:
    """Numbers with a title.

    Attributes
    ----------
    title : str
        What is shown, in one line.
    data : xarray.Dataset
        Dimensions carry the project's index letters; units are in the variables' attributes.
    figure : str
        ``module:function`` below ``workbench.figures``; the function takes the result and keyword arguments.
    notes : tuple of str
        What a reader must know before believing it: what is pooled, what is missing, that it is correlation.
    """

    title: str
    data: xr.Dataset
    figure: str
    notes: tuple[str, ...] = ()

    def plot(self, **options: Any) -> Figure:
        """The figure of this result (matplotlib, without pyplot)."""
        module, _, name = self.figure.partition(":")
        return getattr(importlib.import_module(f"workbench.figures.{module}"), name)(self, **options)

    def to_pandas(self) -> pd.DataFrame:
        """A flat table: one row per cell of the dataset's dimensions, one column per dimension and variable."""
        return self.data.to_dataframe().reset_index()

    def __getitem__(self, name: str) -> xr.DataArray:
        return self.data[name]

    def __repr__(self) -> str:
        sizes = " × ".join(f"{size} {dim}" for dim, size in self.data.sizes.items())
        return f"Result({self.title}: {', '.join(map(str, self.data.data_vars))}; {sizes})"

    def _repr_html_(self) -> str:
        table = self.to_pandas()
        head = "".join(f"<th>{html.escape(str(name))}</th>" for name in table.columns)
        rows = [
            "<tr>" + "".join(f"<td>{html.escape(_shown(value))}</td>" for value in row) + "</tr>"
            for row in table.head(SHOWN_ROWS).itertuples(index=False)
        ]
        more = len(table) - SHOWN_ROWS
        notes = [*([f"{more:,} more rows: .to_pandas() has all."] if more > 0 else []), *self.notes]
        below = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
        table_html = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
        return f"<table><caption>{html.escape(self.title)}</caption>{table_html}</table>{below}"


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
