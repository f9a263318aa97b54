"""What an engine decides about a context: the image rule, the limits, and what it has cached. The model's defaults without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.errors import EngineError, InklingError, RequestRefused
from engine.protocol import DEFAULT_IMAGE_RULE, EngineInfo, ImageRule, Limits, Rendered

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


def probe_of(engine: Any, rendered: Rendered, *, told: Callable[[InklingError], None] | None = None) -> Any:
    """What the engine says it has cached of a rendered context, or None: no engine, one that cannot say, or one that is gone.

    Why it cannot say, `told` is told.
    """
    probe = getattr(engine, "probe", None)
    if probe is None:
        return None
    try:
        return probe(rendered)
    except (EngineError, RequestRefused) as problem:
        # A count is worth having without it; what is wrong with the engine is said when it is asked to answer.
        if told is not None:
            told(problem)
        return None
