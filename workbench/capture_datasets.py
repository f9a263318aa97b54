"""From a capture's manifest and a way to read blocks to one labelled dataset per seam; nothing is read but what is asked to be.

Knows the layout (``engine.protocol.captures``), no engine and no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from engine.protocol import CAPTURE_LAYOUT, CaptureManifest, Rendered

from .errors import CaptureFileError

if TYPE_CHECKING:
    import xarray as xr

    from .lazy_arrays import ReadBlock

LONG_NAMES = {
    "routing.expert": "chosen expert, as the router returned them",
    "routing.weight": "weight of the chosen expert as applied",
    "routing.sink": "weight of each shared expert (sink), same scale",
    "routing.logits": "router's raw logit of each expert, then of each sink",
    "sconv.input": "norm of the convolution's input",
    "sconv.term": "norm of what the convolution adds",
    "sconv.cosine": "cosine between input and added term",
    "sconv.by_tap": "part of the term's norm that each tap brings",
    "sconv.kernel": "weights; the last tap is the current token's",
    "attention.weight": "attention weight",
    "attention.content": "logit of the content",
    "attention.bias": "logit of the relative bias",
    "attention.scaling": "logarithmic factor on the logits",
    "attention.entropy": "entropy of the row",
    "attention.distance": "mean distance to the keys",
    "attention.inside": "weight within the reach of the relative bias",
    "attention.inside_content": "the same, were there no relative bias",
    "attention.bias_bits": "how far the relative bias moves the row",
    "residual.norm": "norm of the residual stream",
    "residual.lens_logprob": "log-probability of the next token, after this layer",
    "drafts.token": "token that a draft head proposes for the place `depth` behind the next one",
    "drafts.logprob": "the proposal's log-probability, by the draft head",
    "drafts.accepted": "1: it and those before it are the context's tokens; 0: not; -1: the context ends before",
}
UNITS = {
    "attention.entropy": "bit", "attention.bias_bits": "bit", "attention.distance": "tokens", "residual.lens_logprob": "nat",
    "drafts.logprob": "nat",
}  # fmt: skip


def check_fits(manifest: CaptureManifest, rendered: Rendered) -> None:
    """Refuse a manifest of another layout, or one that does not belong to `rendered`.

    Raises
    ------
    CaptureFileError
    """
    if manifest.layout != CAPTURE_LAYOUT:
        raise CaptureFileError(
            f"the engine wrote capture layout {manifest.layout}, this workbench reads layout {CAPTURE_LAYOUT}: "
            "use the same version of the project on both sides"
        )
    if len(rendered) != manifest.tokens:
        raise CaptureFileError(f"the capture has {manifest.tokens:,} tokens, the context {len(rendered):,}: not the same run")


def datasets(manifest: CaptureManifest, read: ReadBlock, *, load: bool) -> dict[str, xr.Dataset]:
    """One dataset per seam.

    Parameters
    ----------
    load : bool
        Read everything now; otherwise blocks are read when they are indexed.

    Raises
    ------
    CaptureFileError
        An array does not have the length its manifest gives.
    """
    import xarray as xr

    from .lazy_arrays import lazy

    contents: dict[str, dict[str, Any]] = {}
    coords = {seam: coordinates(manifest, seam) for seam in manifest.layers}
    for full, entry in manifest.arrays.items():
        seam, _, name = full.partition(".")
        for dim, size in zip(entry.dims, entry.shape, strict=True):
            if dim in coords[seam] and len(coords[seam][dim]) != size:
                raise CaptureFileError(f"array {full} has {size:,} along {dim}, its manifest {len(coords[seam][dim]):,}")
        data = lazy(read, full, entry.shape, entry.dtype)
        if load:
            data = np.asarray(read(full, tuple(slice(0, size) for size in entry.shape)))
        attrs = {"long_name": LONG_NAMES.get(full, name.replace("_", " "))} | ({"units": UNITS[full]} if full in UNITS else {})
        contents.setdefault(seam, {})[name] = xr.Variable(entry.dims, data, attrs)
    found = {}
    for seam, content in contents.items():
        used = {dim for variable in content.values() for dim in variable.dims}
        kept = {dim: values for dim, values in coords[seam].items() if dim in used}
        found[seam] = xr.Dataset(content, coords=kept, attrs=attributes(manifest, seam))
    return found


def coordinates(manifest: CaptureManifest, seam: str) -> dict[str, Any]:
    """Coordinates of a seam's dimensions."""
    tokens: Any = np.arange(manifest.tokens)
    if seam in manifest.ranges:
        tokens = np.concatenate([np.arange(start, stop) for start, stop in manifest.ranges[seam]])
    found: dict[str, Any] = {"depth" if seam == "drafts" else "l": np.asarray(manifest.layers[seam], dtype=np.int64)}
    if seam == "attention":
        found["q"] = tokens
        if "attention.h" in manifest.labels:
            found["h"] = np.asarray([int(head) for head in manifest.labels["attention.h"]])
        pooled = manifest.arrays.get("attention.bucket_weight")
        if pooled is not None:
            found["b"] = np.arange(pooled.shape[-1]) * -(-manifest.tokens // int(manifest.plan["attention"]["buckets"]))
            found["span"] = np.asarray(manifest.edges)
        return found
    found["t"] = tokens
    if f"{seam}.site" in manifest.labels:
        found["site"] = np.asarray(manifest.labels[f"{seam}.site"])
    return found


def attributes(manifest: CaptureManifest, seam: str) -> dict[str, Any]:
    """What a dataset needs to be read alone."""
    shape = manifest.provenance.get("architecture") or {}
    if seam == "routing":
        return {"experts": int(shape.get("experts", 0))}
    if seam == "attention":
        plan = manifest.plan.get("attention") or {}
        return {"keep": str(plan.get("keep", "")), "tokens": manifest.tokens}
    return {}
