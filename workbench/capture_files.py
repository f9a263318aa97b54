"""Saved captures: one zarr folder that opens without an engine.

    run.zarr/            attributes ``inkling_capture``: version, manifest, spans, media, image rule (JSON)
        token_ids        uint32 (t,)
        overview/        what an overview of a million tokens shows, so that it opens at once
        routing/         one group per seam, an xarray dataset in zarr form; other tools can read it
        blobs/<sha256>   uint8: the images and recordings, so that a report can show them

Written beside the target and moved into place, so a folder of that name is whole or absent. This module knows nothing about
what the arrays mean.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.protocol import CaptureManifest, ImageRule, Media, Rendered, span_from_json, span_to_json

from .errors import CaptureFileError

if TYPE_CHECKING:
    import xarray as xr

    from .captures import Capture

FILE_VERSION = 1
"""Version of this folder layout; a reader refuses a newer one."""

CHUNK_TOKENS = 16_384
CHUNK_LAYERS = 8
CHUNK_BYTES = 16 << 20
"""Chunk of a per-token array: a window of tokens reads few chunks, one layer of all tokens reads an eighth. None is larger than
`CHUNK_BYTES`."""

BLOCK_BYTES = 64 << 20
"""Held at a time while a capture is written."""


def save(capture: Capture, path: str | Path) -> Path:
    """Write `capture` to the folder `path`, replacing an earlier capture there.

    Raises
    ------
    CaptureFileError
        `path` exists and is not a capture, its parent does not exist, or the disk refuses.
    """
    target = check_target(path)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
            fresh = Path(scratch) / "new.zarr"
            _write(capture, fresh)
            if target.exists():
                os.replace(target, Path(scratch) / "old.zarr")
            os.replace(fresh, target)
    except OSError as problem:
        raise CaptureFileError(f"cannot write {target}: {problem}", path=str(target)) from problem
    return target


def check_target(path: str | Path) -> Path:
    """`path`, if a capture may be saved there; asked before the work of a capture starts.

    Raises
    ------
    CaptureFileError
        `path` exists and is not a capture, or its parent does not exist.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise CaptureFileError(f"no folder {target.parent}: make it first", path=str(target))
    if target.exists() and _header(target) is None:
        raise CaptureFileError(f"{target} exists and is not a saved capture: choose another name", path=str(target))
    return target


def load(path: str | Path) -> Capture:
    """Open a saved capture, or the folder in which an engine wrote one; the arrays stay on disk until they are indexed.

    Raises
    ------
    CaptureFileError
        Nothing there, not a capture, a newer version, or a damaged one.
    """
    import zarr

    from .captures import Capture

    source = Path(path)
    if not source.exists():
        raise CaptureFileError(f"no capture at {source}", path=str(source))
    if (source / "manifest.json").is_file():
        from .capture_left_behind import load_folder

        return load_folder(source)
    header = _header(source)
    if header is None:
        raise CaptureFileError(f"{source} is not a saved capture (cap.save(…) writes one)", path=str(source))
    if header.get("version") != FILE_VERSION:
        raise CaptureFileError(
            f"{source} has capture version {header.get('version')}, this workbench reads version {FILE_VERSION}",
            path=str(source),
        )
    try:
        root = zarr.open_group(source, mode="r")
        manifest = CaptureManifest.model_validate(header["manifest"])
        blobs = {f"sha256:{name}": _bytes(array) for name, array in _arrays(root, "blobs")}
        rendered = Rendered(
            token_ids=np.asarray(root["token_ids"]),
            spans=tuple(span_from_json(item) for item in header["spans"]),
            media=tuple(Media(**item) for item in header["media"]),
            image_rule=ImageRule(**header["image_rule"]),
            blobs=blobs,
        )
        seams = {name: _open(source, name, manifest) for name in header["seams"]}
    except (KeyError, TypeError, ValueError, OSError) as problem:
        raise CaptureFileError(f"{source} is damaged: {problem}", path=str(source)) from problem
    if len(rendered) != manifest.tokens:
        raise CaptureFileError(f"{source} is damaged: {len(rendered):,} ids for {manifest.tokens:,} tokens", path=str(source))
    capture = Capture(manifest=manifest, rendered=rendered, seams=seams)
    capture._made["path"] = source
    return capture


def _open(path: Path, seam: str, manifest: CaptureManifest) -> xr.Dataset:
    """One seam's dataset, unloaded, its variables in the manifest's order, with the manifest's coordinates."""
    import xarray as xr

    from .capture_datasets import coordinates

    data = xr.open_zarr(path, group=seam, chunks=None, consolidated=False, mask_and_scale=False)
    order = [name.partition(".")[2] for name in manifest.arrays if name.startswith(f"{seam}.")]
    names = {dim: values for dim, values in coordinates(manifest, seam).items() if dim in data.dims and dim not in data.coords}
    return data[order].assign_coords(names)


def _write(capture: Capture, path: Path) -> None:
    import zarr

    rendered = capture.rendered
    header = {
        "version": FILE_VERSION,
        "manifest": capture.manifest.model_dump(mode="json"),
        "spans": [span_to_json(span) for span in rendered.spans],
        "media": [dataclasses.asdict(item) for item in rendered.media],
        "image_rule": dataclasses.asdict(rendered.image_rule),
        "seams": list(capture.seams),
    }
    root = zarr.open_group(path, mode="w", zarr_format=3, attributes={"inkling_capture": header})
    root.create_array("token_ids", data=np.asarray(rendered.token_ids), chunks=(min(max(len(rendered), 1), 1 << 20),))
    for blob, content in rendered.blobs.items():
        root.create_array(f"blobs/{blob.removeprefix('sha256:')}", data=np.frombuffer(content, dtype=np.uint8), compressors=None)
    if "routing" in capture.seams and len(capture.routing["t"]) == len(capture):
        from .routing_store import save as save_overview
        from .routing_windows import RoutingWindows

        save_overview(root, RoutingWindows.of(capture))
    for name, data in capture.seams.items():
        with warnings.catch_warnings():
            # The project pins the reader and the writer, so the zarr v3 remark about other readers says nothing new.
            warnings.filterwarnings("ignore", message=".*consolidated.*")
            # Names of sites and the like are in the manifest: zarr's format 3 has no settled form for text.
            names = [key for key, coord in data.coords.items() if coord.dtype.kind not in "iuf"]
            bare = data.drop_vars([*data.data_vars, *names]).drop_encoding()
            bare.to_zarr(path, group=name, mode="a", zarr_format=3, consolidated=False)
        for key, var in data.data_vars.items():
            _copy(root[name], str(key), var)


def _copy(group: Any, name: str, var: Any) -> None:
    """Write a variable block by block, so that one which stays on an engine is never held whole."""
    chunks = _chunks(var.dims, var.shape)
    # No fill value but zero: a row that was never written is zeros, as the engine left it.
    target = group.create_array(
        name, shape=var.shape, dtype=var.dtype, chunks=chunks, dimension_names=list(var.dims), attributes=dict(var.attrs)
    )
    if not var.size:
        return
    step = chunks[0] * max(1, BLOCK_BYTES // max(1, var.nbytes // max(1, var.shape[0]) * chunks[0]))
    for start in range(0, var.shape[0], step):
        part = var.isel({var.dims[0]: slice(start, start + step)})
        target[start : start + step] = part.values


def _chunks(dims: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    limit = {"t": CHUNK_TOKENS, "l": CHUNK_LAYERS, "q": 64}
    found = [max(1, min(size, limit.get(str(dim), size))) for dim, size in zip(dims, shape, strict=True)]
    while (size := 4 * int(np.prod(found))) > CHUNK_BYTES:
        longest = int(np.argmax(found))
        found[longest] = max(1, -(-found[longest] * CHUNK_BYTES // size))
    return tuple(found)


def _header(path: Path) -> dict[str, Any] | None:
    """The JSON header of a capture folder, or None where there is none."""
    import zarr

    try:
        found = zarr.open_group(path, mode="r").attrs.get("inkling_capture")
    except (FileNotFoundError, ValueError, KeyError, TypeError, OSError):
        return None
    return dict(found) if isinstance(found, dict) else None  # pyright: ignore[reportArgumentType]


def _arrays(root: Any, group: str) -> list[tuple[str, Any]]:
    return list(root[group].arrays()) if group in root else []


def _bytes(array: Any) -> bytes:
    return np.asarray(array[:], dtype=np.uint8).tobytes()
