"""What to record: capture plans.

Plans are data, checked when made and again by the engine that is to fulfil them: a seam that cannot fire there refuses the plan
before anything runs (``info.seams``). A capture is one forced prefill of the rendered ids under its own cache salt, so every
token is computed and `t` is the absolute position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPlan:
    """Which attention rows to record.

    Attributes
    ----------
    queries : {"last", "reply"} or tuple of int
        Query tokens.
    layers : {"all", "global", "local"} or tuple of int
    keep : {"pooled", "topk", "whole"}
    """

    queries: Literal["last", "reply"] | tuple[int, ...] = "last"
    layers: Literal["all", "global", "local"] | tuple[int, ...] = "global"
    keep: Literal["pooled", "topk", "whole"] = "pooled"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePlan:
    """What one capture records.

    Attributes
    ----------
    routing : bool
        Expert ids, their weights and the sinks' weights, for every token and MoE layer.
    sconv, residual : bool
    attention : AttentionPlan or None
    """

    routing: bool = False
    sconv: bool = False
    attention: AttentionPlan | None = None
    residual: bool = False

    def seams(self) -> tuple[str, ...]:
        """Names of the seams this plan needs, in the order of :data:`SEAMS`."""
        wanted = {"routing": self.routing, "sconv": self.sconv, "attention": self.attention is not None,
                  "residual": self.residual}  # fmt: skip
        return tuple(name for name in SEAMS if wanted[name])

    def __post_init__(self) -> None:
        if not (self.routing or self.sconv or self.attention or self.residual):
            raise ValueError("an empty CapturePlan records nothing: set at least one of routing, sconv, attention, residual")


SEAMS = ("routing", "sconv", "attention", "residual")
"""Every seam a plan can name."""
