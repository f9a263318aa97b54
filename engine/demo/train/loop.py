"""The training loop: resumable, one process, one thread, fixed seeds.

A run's folder holds ``state.pt`` (model, optimiser, position in the plan), replaced atomically every few minutes, and
``log.jsonl``. Stopping at any time loses at most the steps since the last save.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from torch.nn import functional as F

from engine.demo.rows import spelled_rows
from engine.demo.shape import Shape
from engine.demo.train.align import align
from engine.demo.train.batches import Batch, collate, fit
from engine.demo.train.model import DemoModel
from engine.demo.train.plan import Stage
from engine.demo.train.skills import ALIGNED, SKILLS
from engine.demo.train.vocabulary import trained_ids

WARM_UP_STEPS = 30
SAVE_EVERY_S = 120.0
LONG_TOKENS = 1024

LABEL_WEIGHT = 0.3
"""Weight of the labels beside the answers."""


def new_model(*, rows: Iterable[int] = ()) -> DemoModel:
    """A fresh demo model at its structured start; `rows` are ids to train beside those of the generators."""
    torch.manual_seed(0)
    shape = Shape()
    return DemoModel(shape, torch.from_numpy(spelled_rows(shape.hidden)), torch.tensor(sorted({*trained_ids(), *rows})))


def loss_of(model: DemoModel, batch: Batch) -> torch.Tensor:
    """Weighted cross-entropy of the targets over the batch's candidates, and a little of the labels over their own words.

    Labels are read from what the last layer is given: its far-reaching attention finds by them, and reads them.
    """
    given, stream = (x.flatten(0, 1) for x in model.streams(model.embed(batch.ids, batch.media)))
    logits = model.logits(stream[batch.at], batch.candidates).float() + batch.offset
    loss = (F.cross_entropy(logits, batch.target, reduction="none") * batch.weight).sum()
    if len(batch.label_at):
        told = model.logits(given[batch.label_at], batch.label_words).float()
        loss = loss + LABEL_WEIGHT * F.cross_entropy(told, batch.label)
    return loss


def _place(model: DemoModel, optimiser: torch.optim.Optimizer, state: dict) -> None:
    """Load a saved state; ids that have become trained since then start from their drawn rows."""
    known = state["trained"]
    at = torch.searchsorted(model.trained, known)
    state["model"]["rows"] = model.rows.detach().clone().index_copy(0, at, state["model"]["rows"])
    # The optimiser numbers parameters by its groups: those with more than one axis first.
    order = [name for name, p in model.named_parameters() if p.dim() > 1]
    moments = state["optimiser"]["state"][order.index("rows")]
    for name in ("exp_avg", "exp_avg_sq"):
        moments[name] = torch.zeros_like(model.rows).index_copy(0, at, moments[name])
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])


def batch_of(model: DemoModel, stage: Stage, random: Random, at: float = 1.0) -> tuple[Batch, int]:
    """A batch of a stage at `at` of its course, and its length in tokens."""
    size = random.choices(list(stage.sizes), list(stage.sizes.values()))[0]
    spread, plain = (a + (b - a) * at for a, b in (stage.spread, stage.plain))
    easy = {"lookup": {"spread": spread, "plain": plain}}
    mix = stage.at_size.get(size) or (stage.long if stage.long and size >= LONG_TOKENS else stage.mix)
    names = random.choices(list(mix), list(mix.values()), k=max(1, stage.step_tokens // size))
    chats = [fit(lambda n=n: SKILLS[n](random, size, **easy.get(n, {})), size) for n in names]
    return collate(chats, size, model.trained, random), size


@dataclass(slots=True)
class Run:
    """A training run in `folder`; call :meth:`train`."""

    folder: Path
    model: DemoModel
    optimiser: torch.optim.Optimizer
    done: dict[str, int]
    step: int = 0

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Start a run, or go on where `folder` stopped."""
        path = folder / "state.pt"
        state = torch.load(path, weights_only=True) if path.exists() else None
        model = new_model(rows=state["trained"].tolist() if state else ())
        decayed = [p for p in model.parameters() if p.dim() > 1]
        plain = [p for p in model.parameters() if p.dim() <= 1]
        groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
        run = cls(folder, model, torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.98), fused=True), {})
        if state:
            _place(model, run.optimiser, state)
            run.done, run.step = state["done"], state["step"]
        folder.mkdir(parents=True, exist_ok=True)
        return run

    def save(self) -> None:
        """Write the state, all or nothing."""
        state = {"model": self.model.state_dict(), "optimiser": self.optimiser.state_dict(), "done": self.done, "step": self.step,
                 "trained": self.model.trained}  # fmt: skip
        partial = self.folder / "state.partial"
        torch.save(state, partial)
        os.replace(partial, self.folder / "state.pt")

    def train(self, plan: tuple[Stage, ...]) -> None:
        """Run every stage that is not done; a request to end (SIGTERM, Ctrl-C) is heeded after the step, with nothing lost."""
        saved = time.monotonic()
        ending: list[int] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ending.append(1))
        for stage in plan:
            if stage.align and not self.done.get(stage.name):
                right = align(self.model, ALIGNED, stage.align, stage.name)
                self._write({"step": self.step, "stage": stage.name, "aligned": right})
            while self.done.get(stage.name, 0) < stage.tokens:
                self._step(stage)
                if ending or time.monotonic() - saved > SAVE_EVERY_S:
                    self.save()
                    saved = time.monotonic()
                if ending:
                    return
            self.save()

    def _step(self, stage: Stage) -> None:
        at = self.done.get(stage.name, 0) / stage.tokens
        batch, size = batch_of(self.model, stage, Random(f"{stage.name}/{self.step}"), at)
        self.model.train()
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(self.model, batch)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        rate = (stage.rate[0] + (stage.rate[1] - stage.rate[0]) * at) * min(1.0, (self.step + 1) / WARM_UP_STEPS)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.model.balance(5e-3)
        self.step += 1
        self.done[stage.name] = self.done.get(stage.name, 0) + batch.ids.numel()
        self._log(stage, size, float(loss.detach()), float(norm), rate)

    def _log(self, stage: Stage, size: int, loss: float, norm: float, rate: float) -> None:
        line = {"step": self.step, "stage": stage.name, "tokens": sum(self.done.values()), "size": size, "loss": round(loss, 4),
                "norm": round(norm, 3), "rate": rate, "cpu_s": round(time.process_time(), 1)}  # fmt: skip
        self._write(line)

    def _write(self, line: dict) -> None:
        with (self.folder / "log.jsonl").open("a") as log:
            log.write(json.dumps(line) + "\n")
