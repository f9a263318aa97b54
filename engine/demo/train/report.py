"""The tables of a trained model, from the trainer: scores of every skill, and what each part is worth.

Cases are held out: values, layouts and voices that training never drew, and for some rows wordings that it never saw.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import torch
from torch import nn

from engine.demo.train.ablate import PARTS, without
from engine.demo.train.batches import collate, fit
from engine.demo.train.chat import Chat
from engine.demo.train.drafts import guesses
from engine.demo.train.evaluate import Score, full_head, score
from engine.demo.train.lookup import lookup
from engine.demo.train.model import DemoModel
from engine.demo.train.skills import SKILLS

LOOKUP_TOKENS = (256, 512, 1024, 2048, 4096)
SKILL_TOKENS = 512


def _lookup(size: int, paraphrase: bool):
    def make(random: Random) -> Chat:
        return lookup(random, size, held_out=True, paraphrase=paraphrase, plain=0.0)

    return make


def _skill(name: str, paraphrase: bool):
    def make(random: Random) -> Chat:
        return SKILLS[name](random, SKILL_TOKENS, held_out=True, paraphrase=paraphrase)

    return make


def _line(found: dict[str, Score], **about: Any) -> Iterator[dict[str, Any]]:
    for skill, result in found.items():
        low, high = result.interval()
        yield {**about, "skill": skill, "right": result.right, "cases": result.cases, "share": round(result.share, 3),
               "low": round(low, 3), "high": round(high, 3)}  # fmt: skip


def scores(model: DemoModel, cases: int) -> Iterator[dict[str, Any]]:
    """Scores of look-up by length and of every other skill, in known and in new wordings.

    Cases come from `cases` / 3 sequences of each length and from `cases` / 2 of each skill; most sequences hold several.
    """
    head = full_head(model)
    for paraphrase in (False, True):
        for size in LOOKUP_TOKENS:
            found = score(model, _lookup(size, paraphrase), size=size, sequences=max(8, cases // 3), seed="score", head=head)
            yield from _line(found, tokens=size, new_wording=paraphrase)
        for name in SKILLS:
            if name != "lookup":
                found = score(model, _skill(name, paraphrase), size=SKILL_TOKENS, sequences=cases // 2, seed="score", head=head)
                yield from _line(found, tokens=SKILL_TOKENS, new_wording=paraphrase)


@torch.no_grad()
def acceptance(model: DemoModel, drafts: nn.ModuleList, cases: int) -> Iterator[dict[str, Any]]:
    """How often each draft block guesses the model's own next token, over held-out turns of every skill; all ids compete."""
    head, sums = full_head(model), [Score(0, 0) for _ in drafts]
    for name in SKILLS:
        for number in range(max(1, cases // 8)):
            make = _lookup(SKILL_TOKENS, False) if name == "lookup" else _skill(name, False)
            random = Random(f"drafts/{name}/{number}")
            batch = collate([fit(lambda r=random, m=make: m(r), SKILL_TOKENS)], SKILL_TOKENS, model.trained, random, negatives=0)
            for depth, (stream, wanted) in enumerate(guesses(model, drafts, batch)):
                hits = (stream @ head.t()).argmax(-1) == batch.candidates[wanted]
                sums[depth] = Score(sums[depth].right + int(hits.sum()), sums[depth].cases + len(wanted))
    yield from _line({f"draft {depth + 1}": found for depth, found in enumerate(sums)})


def ablations(model: DemoModel, cases: int) -> Iterator[dict[str, Any]]:
    """Scores with each part off, beside those of the whole model."""
    for part in ("", *PARTS):
        if part:
            with without(model, part):
                yield from _parts(model, cases, part)
        else:
            yield from _parts(model, cases, "nothing")


def _parts(model: DemoModel, cases: int, part: str) -> Iterator[dict[str, Any]]:
    head = full_head(model)
    found = score(model, _lookup(SKILL_TOKENS, False), size=SKILL_TOKENS, sequences=max(8, cases // 3), seed="ablate", head=head)
    for name in ("grids", "digits", "dtmf", "spoken"):
        found |= score(model, _skill(name, False), size=SKILL_TOKENS, sequences=cases // 4, seed="ablate", head=head)
    yield from _line(found, off=part)
