"""What an engine decides about a context: the image rule, the limits and whose they are. The model's defaults without an engine."""

from __future__ import annotations

from typing import Any

from engine.protocol import DEFAULT_IMAGE_RULE, EngineInfo, ImageRule, Limits

MODEL_CONTEXT_TOKENS = 1_048_575
"""Most tokens prompt and answer have together without an engine to ask: vLLM refuses a prompt of exactly 1,048,576."""


def rules_of(engine: Any) -> tuple[ImageRule, Limits, str]:
    """Rule, limits and name of an Engine, an EngineInfo, or (None) the model's default."""
    info = getattr(engine, "info", engine)
    if info is None:
        return DEFAULT_IMAGE_RULE, Limits(context_tokens=MODEL_CONTEXT_TOKENS), "the model's default"
    if not isinstance(info, EngineInfo):
        raise TypeError(f"expected an Engine, an EngineInfo or None, not {type(engine).__name__}")
    return info.image_rule, info.limits, info.model
