"""Hardware by name, from ``hardware.toml`` beside this module."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from ..errors import BadRequest

FILE = Path(__file__).parent / "hardware.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One accelerator: published figures, none of them measured here.

    Attributes
    ----------
    bf16_flops, fp4_flops : float
        Dense operations a second; a multiply-add counts as two.
    source : str
        Where the figures stand.
    """

    name: str
    memory_bytes: int
    bandwidth_bytes_s: float
    bf16_flops: float
    fp4_flops: float
    source: str


def gpus() -> dict[str, Gpu]:
    """Every accelerator that is known."""
    values = tomllib.loads(FILE.read_text("utf-8"))
    return {name: Gpu(name=name, **entry) for name, entry in values.items()}


def gpu(name: str) -> Gpu:
    """An accelerator by name.

    Raises
    ------
    BadRequest
        Unknown; the message lists the known ones.
    """
    known = gpus()
    if name not in known:
        raise BadRequest(f"no accelerator {name!r} is known: there is {', '.join(known)}; add it to {FILE.name}", gpu=name)
    return known[name]
