"""Interventions to declare and hand to ``eng.generate``, ``eng.stream`` and ``eng.capture`` (:mod:`engine.protocol.interventions`).

from workbench.interventions import BanExperts, MaskSpan

reply = eng.generate(ctx, interventions=[BanExperts(layer=3, experts=[5])])
"""

from __future__ import annotations

from engine.protocol.intervention_sets import check, describe, from_json, to_json
from engine.protocol.interventions import (
    INTERVENTION_SEAMS,
    SITES,
    BanExperts,
    DropLogScaling,
    ForceExperts,
    Intervention,
    MaskModality,
    MaskSpan,
    ReweightExperts,
    ScaleBias,
    ScaleSconv,
    ScaleSinks,
    StretchBias,
)  # fmt: skip

__all__ = [
    "INTERVENTION_SEAMS", "SITES", "BanExperts", "DropLogScaling", "ForceExperts", "Intervention", "MaskModality", "MaskSpan",
    "ReweightExperts", "ScaleBias", "ScaleSconv", "ScaleSinks", "StretchBias", "check", "describe", "from_json", "to_json",
]  # fmt: skip
