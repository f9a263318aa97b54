"""Saved captures: one zarr folder that opens without an engine.

    run.zarr/            attributes ``inkling_capture``: version, manifest, spans, media, image rule (JSON)
        token_ids        uint32 (t,)
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

from engine.protocol import AudioPlace, CaptureManifest, ImagePlace, ImageRule, Media, PatchGrid, Rendered, Span, TextPlace

from .errors import CaptureFileError

if TYPE_CHECKING:
    import xarray as xr

    from .captures import Capture

FILE_VERSION = 1
"""Version of this folder layout; a reader refuses a newer one."""

CHUNK_TOKENS = 16_384
CHUNK_LAYERS = 8
"""Chunk of a per-token array: a window of tokens reads few chunks, one layer of all tokens reads an eighth."""


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
    """Open a saved capture; the arrays stay on disk until they are indexed.

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
    return Capture(manifest=manifest, rendered=rendered, seams=seams)


def _open(path: Path, seam: str, manifest: CaptureManifest) -> xr.Dataset:
    """One seam's dataset, unloaded, its variables in the manifest's order."""
    import xarray as xr

    data = xr.open_zarr(path, group=seam, chunks=None, consolidated=False, mask_and_scale=False)
    order = [name.partition(".")[2] for name in manifest.arrays if name.startswith(f"{seam}.")]
    return data[order]


def span_to_json(span: Span) -> dict[str, Any]:
    """A span as JSON values; the locator says its kind."""
    values = dataclasses.asdict(span)
    if span.locator is not None:
        values["locator"] = {"kind": _KIND_NAMES[type(span.locator)], **values["locator"]}
    return values


def span_from_json(values: dict[str, Any]) -> Span:
    """The span that :func:`span_to_json` wrote."""
    fields = dict(values)
    if fields.get("locator") is not None:
        place = dict(fields["locator"])
        kind = place.pop("kind")
        if "grid" in place:
            place["grid"] = PatchGrid(**place["grid"])
        fields["locator"] = _KINDS[kind](**place)
    return Span(**fields)


_KINDS = {"text": TextPlace, "image": ImagePlace, "audio": AudioPlace}
_KIND_NAMES = {cls: name for name, cls in _KINDS.items()}


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
    for name, data in capture.seams.items():
        data = data.drop_encoding()
        # No fill value: a row that was never written is zeros, as the engine left it.
        encoding = {key: {"chunks": _chunks(var.dims, var.shape), "_FillValue": None} for key, var in data.data_vars.items()}
        with warnings.catch_warnings():
            # The project pins the reader and the writer, so the zarr v3 remark about other readers says nothing new.
            warnings.filterwarnings("ignore", message=".*consolidated.*")
            data.to_zarr(path, group=name, mode="a", zarr_format=3, consolidated=False, encoding=encoding)


def _chunks(dims: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    limit = {"t": CHUNK_TOKENS, "l": CHUNK_LAYERS}
    return tuple(max(1, min(size, limit.get(str(dim), size))) for dim, size in zip(dims, shape, strict=True))


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
