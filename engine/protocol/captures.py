"""The layout of a capture on the engine's disk and over HTTP.

One folder per capture: ``manifest.json`` and one ``<array>.npy`` per array (C order, little endian, readable as a memory map).
Dimensions carry the project's index letters. Slices along `t` travel as raw ``.npy`` bytes; nothing here is JSON but the
manifest. Written by the engine's workers, read by the kernel's routes; the client turns it into labelled arrays
(``workbench.captures``).

    array               dims     dtype     meaning
    routing.expert      t,l,k    uint16    chosen expert, by falling weight rank as the router returned it
    routing.weight      t,l,k    float32   its share times route_scale and global_scale, as applied
    routing.sink        t,l,s    float32   weight of each shared expert ("sink"), same scale
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

CAPTURE_LAYOUT = 1
"""Version of this layout; a reader refuses another one."""


class ArrayEntry(BaseModel):
    """One array of a capture."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str


class CaptureManifest(BaseModel):
    """What a capture holds and how it came about.

    Attributes
    ----------
    context : str
        Id of the rendered context that was run.
    tokens : int
        Length of `t`.
    layers : dict of str to list of int
        Coordinate `l` per seam: indices of the layers in the model (routing has MoE layers only).
    covered_tokens : int
        Rows of `t` written exactly once by every layer. Equal to `tokens`, or `complete` is false.
    provenance : dict
        Model, revision, engine arguments, kernel set, versions, seed, media hashes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    layout: int = CAPTURE_LAYOUT
    id: str
    context: str
    plan: dict[str, Any]
    tokens: int
    arrays: dict[str, ArrayEntry]
    layers: dict[str, list[int]]
    covered_tokens: int
    complete: bool
    provenance: dict[str, Any]


class CaptureJob(BaseModel):
    """State of a capture job, as the kernel reports it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    done_tokens: int = 0
    total_tokens: int
    cost_bytes: int
    error: dict[str, Any] | None = None
    manifest: CaptureManifest | None = None
