"""Command line of the trainer: ``python -m engine.demo.train train|drafts|score|ablate|export FOLDER``.

``train`` goes on where the folder stopped; ``drafts`` trains the draft blocks on what is there; ``score`` and ``ablate`` print
held-out exact match, one JSON object a line; ``export`` writes the compact file that ships.
"""

from __future__ import annotations

import argparse
import json
from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from engine.demo.train.model import DemoModel

DRAFT_STEPS = 500


def main() -> None:
    """Do one thing with a run's folder."""
    parser = argparse.ArgumentParser(prog="python -m engine.demo.train", description=__doc__)
    parser.add_argument("action", choices=["train", "drafts", "score", "ablate", "export"])
    parser.add_argument("folder", type=Path, help="where the run keeps its state")
    parser.add_argument("--cases", type=int, default=100, help="size of a score, see report.py (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=DRAFT_STEPS, help="steps of draft training (default: %(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    {"train": _train, "drafts": _drafts, "score": _score, "ablate": _ablate, "export": _export}[options.action](options)


def _train(options: argparse.Namespace) -> None:
    from engine.demo.train.loop import Run
    from engine.demo.train.plan import PLAN

    Run.open(options.folder).train(PLAN)


def _drafts(options: argparse.Namespace) -> None:
    from engine.demo.train.drafts import train_drafts
    from engine.demo.train.loop import Run, batch_of
    from engine.demo.train.plan import PLAN

    run = Run.open(options.folder)
    drafts = _drafts_of(options.folder, run.model)
    batches = (batch_of(run.model, PLAN[-1], Random(f"drafts/{step}"))[0] for step in range(options.steps))
    right = train_drafts(run.model, drafts, batches, options.steps)
    torch.save(drafts.state_dict(), options.folder / "drafts.pt")
    print(json.dumps({"accepted": right}))  # noqa: T201


def _drafts_of(folder: Path, model: DemoModel) -> nn.ModuleList:
    """The draft blocks of a run as they are, or fresh ones."""
    from engine.demo.train.drafts import new_drafts

    drafts = new_drafts(model.shape, model)
    if (path := folder / "drafts.pt").exists():
        drafts.load_state_dict(torch.load(path, weights_only=True))
    return drafts


def _score(options: argparse.Namespace) -> None:
    from engine.demo.train.loop import Run
    from engine.demo.train.report import acceptance, scores

    model = Run.open(options.folder).model
    for line in chain(acceptance(model, _drafts_of(options.folder, model), options.cases), scores(model, options.cases)):
        print(json.dumps(line), flush=True)  # noqa: T201


def _ablate(options: argparse.Namespace) -> None:
    from engine.demo.train.loop import Run
    from engine.demo.train.report import ablations

    for line in ablations(Run.open(options.folder).model, options.cases):
        print(json.dumps(line), flush=True)  # noqa: T201


def _export(options: argparse.Namespace) -> None:
    from engine.demo.train.drafts import Draft
    from engine.demo.train.export import write_compact
    from engine.demo.train.loop import Run
    from engine.demo.trained import COMPACT

    run = Run.open(options.folder)
    drafts = [block for block in _drafts_of(options.folder, run.model) if isinstance(block, Draft)]
    digest = write_compact(run.model, drafts, COMPACT, figures={"trained_tokens": str(sum(run.done.values()))})
    print(digest, COMPACT.stat().st_size)  # noqa: T201


if __name__ == "__main__":
    main()
