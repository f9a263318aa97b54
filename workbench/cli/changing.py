"""Interventions from the command line: one flag for the commonest, a JSON file for all.

A file holds one intervention or a list: ``{"kind": "scale-sinks", "factor": 0}``. Knows no engine; what an engine can change is its
own business (:mod:`engine.protocol.intervention_sets`).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from engine.errors import InterventionRefused

from ..interventions import BanExperts, Intervention, from_json


def add_intervention_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that change the model for this request."""
    parser.add_argument(
        "--ban-expert",
        action="append",
        default=[],
        metavar="LAYER:EXPERT",
        help="keep the router of a layer from choosing an expert",
    )
    parser.add_argument(
        "--intervene", action="append", default=[], type=Path, metavar="FILE", help="interventions as JSON (docs/interventions.md)"
    )


def interventions_from(args: argparse.Namespace) -> list[Intervention]:
    """What the flags declare.

    Raises
    ------
    InterventionRefused
        A flag or file that does not say an intervention.
    """
    found: list[Intervention] = []
    for text in args.ban_expert:
        layer, colon, expert = text.partition(":")
        if not (colon and layer.isdecimal() and expert.isdecimal()):
            raise InterventionRefused(f"--ban-expert {text}: give layer and expert as numbers, such as 3:5")
        found.append(BanExperts(layer=int(layer), experts=(int(expert),)))
    for path in args.intervene:
        try:
            values = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as problem:
            raise InterventionRefused(f"{path} holds no interventions: {problem}", path=str(path)) from problem
        found += [from_json(item) for item in (values if isinstance(values, list) else [values])]
    return found
