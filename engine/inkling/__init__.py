"""Inkling on paper: sizes, tensors and cache pages of a checkpoint, worked out from its config without loading anything.

Read by the planner, by the checkpoint check and by the kernel's guards alike. Knows no vLLM, no torch and no hardware: what vLLM
makes of these sizes is written down here as arithmetic, and the tests hold it against vLLM's own functions.
"""

from __future__ import annotations

from .shape import ModelShape, published, published_names

__all__ = ["ModelShape", "published", "published_names"]
