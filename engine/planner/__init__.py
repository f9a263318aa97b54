"""Does it fit, what is left for context, what speed is possible: a recipe on paper.

    from engine import recipes
    from engine.planner import plan

    print(plan(recipes.load("inkling-4xgb300"), context_tokens=1_048_576))

Client side: knows recipes, sizes and data sheets, and no vLLM.
"""

from __future__ import annotations

from .hardware import Gpu, gpu, gpus
from .memory import Memory
from .plan import Plan, plan
from .speed import Speed

__all__ = ["Gpu", "Memory", "Plan", "Speed", "gpu", "gpus", "plan"]
