"""The overview of a capture's routing, kept beside it: so that a million tokens open without being walked again.

What :class:`~workbench.routing_windows.RoutingWindows` makes in one pass (pyramids, block sums, limits) is written as one zarr
group per saved capture and read back as it was. A file without it, or with another version of it, is walked as before. Knows the
state's shape, not what the numbers mean.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .routing_levels import Level, Pyramid

if TYPE_CHECKING:
    import xarray as xr

    from .routing_windows import RoutingWindows

GROUP = "overview/routing"
VERSION = 1
_PARTS = ("total", "count", "largest", "where")


def save(root: Any, windows: RoutingWindows) -> None:
    """Write the state of `windows` into an open zarr group."""
    levels = {name: [level.width for level in pyramid.levels] for name, pyramid in windows.pyramids.items()}
    group = root.create_group(GROUP, attributes={"version": VERSION, "levels": levels, "limits": windows.limits})
    for name, pyramid in windows.pyramids.items():
        for number, level in enumerate(pyramid.levels):
            for part in _PARTS:
                _put(group, f"{name}_{number}_{part}", getattr(level, part))
    _put(group, "counts", np.stack(windows._counts))
    for index, name in enumerate(("share", "sink", "tokens")):
        _put(group, f"block_{name}", np.stack([sums[index] for sums in windows._sums]))


def load(path: Path, routing: xr.Dataset) -> RoutingWindows | None:
    """The windows over `routing` that were saved at `path`; None where there are none that can be used."""
    import zarr

    from .routing_windows import RoutingWindows

    try:
        group: Any = zarr.open_group(path, path=GROUP, mode="r")
        if group.attrs.get("version") != VERSION:
            return None
        levels, limits = dict(group.attrs["levels"]), dict(group.attrs["limits"])
        pyramids = {
            name: Pyramid(
                routing.sizes["t"],
                tuple(
                    Level(int(width), *(np.asarray(group[f"{name}_{number}_{part}"][:]) for part in _PARTS))
                    for number, width in enumerate(widths)
                ),
            )
            for name, widths in levels.items()
        }
        blocks = [np.asarray(group[f"block_{name}"][:]) for name in ("share", "sink", "tokens")]
        counts = list(np.asarray(group["counts"][:]))
    except (KeyError, FileNotFoundError, ValueError, TypeError, OSError):
        return None
    sums = list(zip(*blocks, strict=True))
    ends = {name: (float(low), float(high)) for name, (low, high) in limits.items()}
    return RoutingWindows.restored(routing, pyramids=pyramids, counts=counts, sums=sums, limits=ends)


def _put(group: Any, name: str, values: np.ndarray) -> None:
    chunks = (max(1, min(len(values), 65_536)), *values.shape[1:])
    group.create_array(name, data=np.ascontiguousarray(values), chunks=chunks)
