"""Command line of the trainer: ``python -m engine.demo.train train|score FOLDER``.

``train`` goes on where the folder stopped; ``score`` prints held-out exact match of what is there as JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch


def main() -> None:
    """Train in a folder, or score what is there."""
    parser = argparse.ArgumentParser(prog="python -m engine.demo.train", description=__doc__)
    parser.add_argument("action", choices=["train", "score"])
    parser.add_argument("folder", type=Path, help="where the run keeps its state")
    options = parser.parse_args()
    torch.set_num_threads(1)
    from engine.demo.train.evaluate import full_head, score
    from engine.demo.train.lookup import lookup
    from engine.demo.train.loop import Run
    from engine.demo.train.plan import PLAN

    run = Run.open(options.folder)
    if options.action == "train":
        run.train(PLAN)
        return
    head = full_head(run.model)
    for size, sequences in ((256, 60), (512, 40), (1024, 40), (2048, 40)):
        for wording in (False, True):
            found = score(
                run.model, lambda r, n=size, w=wording: lookup(r, n, held_out=True, paraphrase=w, plain=0.0),
                size=size, sequences=sequences, seed="score", head=head,
            )  # fmt: skip
            for skill, result in found.items():
                low, high = result.interval()
                line = {"tokens": size, "skill": skill, "new_wording": wording, "right": result.right, "cases": result.cases,
                        "low": round(low, 3), "high": round(high, 3)}  # fmt: skip
                print(json.dumps(line))  # noqa: T201


if __name__ == "__main__":
    main()
