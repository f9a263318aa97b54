"""A checkpoint checked on its headers alone: no weight is read, so 592 GB take a second.

Names, shapes and number types of every tensor in every file are compared with what the config promises; files an index names but
that are not there, files cut short by a broken download, and tensors in transformers' naming (which vLLM's loader does not take)
are told apart.

Source: the safetensors format (eight bytes of length, a JSON header, data), vLLM 0.32 ``models/inkling/nvidia/model.py`` for
aliases.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BadRequest
from .shape import ModelShape
from .tensors import Tensor, tensors

INDEX = "model.safetensors.index.json"
MOST_HEADER_BYTES = 100 << 20

_ALIASES = (
    (re.compile(r"(w13_weight|w2_weight)_scale_2$"), r"\1.scale2"),
    (re.compile(r"(w13_weight|w2_weight)_scale$"), r"\1.scale"),
    (re.compile(r"(w13|w2)_(input_amax)$"), r"\1_weight.\2"),
)
_COMPRESSED = (
    (re.compile(r"(w13|w2)_weight_packed$"), r"\1_weight.weight_packed"),
    (re.compile(r"(w13|w2)_weight_scale$"), r"\1_weight.weight_scale"),
    (re.compile(r"(w13|w2)_(weight_global_scale|input_global_scale)$"), r"\1_weight.\2"),
)
_TRANSFORMERS = re.compile(r"(\.self_attn\.|language_model\.|\.gate_up_proj|e_score_correction_bias|vision_tower|audio_tower)")

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """One tensor as a file describes it."""

    file: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReport:
    """What headers say.

    Attributes
    ----------
    missing, unknown : tuple of str
        Names of tensors that the config promises and no file has, and the other way round.
    wrong : tuple of str
        A sentence for every tensor of another shape or number type.
    files : tuple of str
        A sentence for every file that is absent or cut short.
    bytes : int
        On disk so far.
    expected_bytes : int
        Of the whole checkpoint, by its index or else by its sizes.
    free_bytes : int
        On that disk.
    """

    folder: str
    shape: ModelShape
    tensors: int
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    wrong: tuple[str, ...]
    files: tuple[str, ...]
    bytes: int
    expected_bytes: int
    free_bytes: int

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for everything that is not as it should be; empty for a good checkpoint."""
        found = [*self.files, *self.wrong]
        if self.missing:
            found.append(f"{len(self.missing)} tensors are missing: {_some(self.missing)}")
        if self.unknown:
            theirs = sum(bool(_TRANSFORMERS.search(name)) for name in self.unknown)
            hint = (
                " (transformers' own names: vLLM wants the makers'; save_pretrained writes them)"
                if theirs * 2 > len(self.unknown)
                else ""
            )
            found.append(f"{len(self.unknown)} tensors are unknown{hint}: {_some(self.unknown)}")
        if self.expected_bytes - self.bytes > self.free_bytes:
            found.append(
                f"{(self.expected_bytes - self.bytes) / 1e9:,.0f} GB are still to come and {self.free_bytes / 1e9:,.0f} GB are "
                "free here"
            )
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "folder": self.folder, "tensors": self.tensors, "bytes": self.bytes, "expected_bytes": self.expected_bytes,
            "free_bytes": self.free_bytes, "quantization": self.shape.quantization, "dialect": self.shape.dialect,
            "missing": list(self.missing), "unknown": list(self.unknown), "wrong": list(self.wrong), "files": list(self.files),
            "problems": list(self.problems),
        }  # fmt: skip


def check_headers(folder: Path, *, drafts: int | None = None) -> CheckpointReport:
    """Compare a folder's headers with its config.

    Parameters
    ----------
    drafts : int, optional
        Draft blocks that have to be there; None for none, because a checkpoint may come without them.

    Raises
    ------
    BadRequest
        There is no config, or it is no Inkling's.
    """
    shape = ModelShape.from_folder(folder)
    found, files = _headers(folder)
    canonical = {_canonical(name, shape): header for name, header in found.items()}
    names = {_canonical(name, shape): name for name in found}
    expected = {tensor.name: tensor for tensor in tensors(shape)}
    missing = [
        name for name, tensor in expected.items()
        if name not in canonical and not tensor.optional and (tensor.kind != "drafts" or tensor.draft_block < (drafts or 0))
    ]  # fmt: skip
    unknown = [names[name] for name in canonical if name not in expected and not _ignored(name)]
    wrong = [
        line for name, header in canonical.items() if name in expected for line in _compare(names[name], header, expected[name])
    ]
    here = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    return CheckpointReport(
        folder=str(folder), shape=shape, tensors=len(found), missing=tuple(missing), unknown=tuple(unknown), wrong=tuple(wrong),
        files=tuple(files), bytes=here, expected_bytes=max(here, _expected_bytes(folder, shape)),
        free_bytes=shutil.disk_usage(folder).free,
    )  # fmt: skip


def read_header(path: Path) -> dict[str, Header]:
    """The tensors a safetensors file describes.

    Raises
    ------
    BadRequest
        Not such a file, or shorter than its header says.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 0 < length <= min(MOST_HEADER_BYTES, size - 8):
            raise BadRequest(f"{path.name} is not a safetensors file, or was cut short: download it again", path=str(path))
        try:
            values = json.loads(file.read(length))
            entries = {name: entry for name, entry in values.items() if name != "__metadata__"}
            found = {
                name: Header(file=path.name, dtype=str(entry["dtype"]), shape=tuple(map(int, entry["shape"])))
                for name, entry in entries.items()
            }
            end = 8 + length + max((int(entry["data_offsets"][1]) for entry in entries.values()), default=0)
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise BadRequest(f"{path.name}: its header cannot be read ({problem}): download it again", path=str(path)) from problem
    if size != end:
        raise BadRequest(f"{path.name} has {size:,} bytes, its header says {end:,}: download it again", path=str(path))
    return found


def _headers(folder: Path) -> tuple[dict[str, Header], list[str]]:
    found: dict[str, Header] = {}
    problems = []
    present = sorted(path for path in folder.glob("*.safetensors"))
    for path in present:
        try:
            for name, header in read_header(path).items():
                if name in found:
                    problems.append(f"{name} is in {found[name].file} and in {path.name}")
                found[name] = header
        except BadRequest as problem:
            problems.append(problem.message)
    wanted = set(_index(folder).get("weight_map", {}).values()) - {path.name for path in present}
    if wanted:
        problems.append(f"{len(wanted)} files are missing: {_some(tuple(sorted(wanted)))}")
    if not present:
        problems.append("there is no .safetensors file")
    return found, problems


def _index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    try:
        values = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        raise BadRequest(f"{path} cannot be read: {problem}; download it again", path=str(path)) from problem
    return values if isinstance(values, dict) else {}


def _expected_bytes(folder: Path, shape: ModelShape) -> int:
    total = _index(folder).get("metadata", {}).get("total_size")
    return int(total) if total else sum(tensor.disk_bytes for tensor in tensors(shape) if tensor.kind != "drafts")


def _canonical(name: str, shape: ModelShape) -> str:
    for pattern, instead in _COMPRESSED if shape.quantization == "compressed-nvfp4" else _ALIASES:
        name = pattern.sub(instead, name)
    return name


def _compare(name: str, header: Header, tensor: Tensor) -> Iterator[str]:
    if tensor.shapes and header.shape not in tensor.shapes:
        wanted = " or ".join(str(list(shape)) for shape in tensor.shapes)
        yield f"{name} has shape {list(header.shape)}, wanted {wanted}"
    if header.dtype not in tensor.dtypes:
        yield f"{name} holds {header.dtype}, wanted {' or '.join(tensor.dtypes)}"


def _ignored(name: str) -> bool:
    # Draft blocks beyond the ones a config promises are never loaded.
    return name.startswith("model.mtp.")


def _some(names: tuple[str, ...]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest:,} more" if rest > 0 else "")
