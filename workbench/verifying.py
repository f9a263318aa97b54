"""``inkling engine verify``: is this engine on this hardware what its recipe promises? Four questions, one report, under ten
minutes.

*Fit*: does what vLLM counts match the plan. *Parity*: does a short prompt give the same tokens by the kernels that decode (graphs,
fused collectives), by the ones that compute prompts, and behind a resumed prefix; they are different kernels that must agree.
*Seams*: does every seam that says it fires cover every token. *Speed*: tokens a second beside what is published for the recipe.
Client side only: it asks a running engine and knows no vLLM. Runs anywhere; on a CPU with the demo it shows its own logic, on GPUs
it is what turns "unverified on hardware" into a fact.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.errors import InklingError
from engine.protocol import SEAMS, CapturePlan, Rendered, Reply, Span

from .contexts import Context

if TYPE_CHECKING:
    from engine import Engine

PROMPT = (
    "A harbour has three cranes. The oldest one lifts ten tons, the others lift twice as much each. Explain, step by step, how "
    "much they lift together, and then name a sea that such a harbour could lie on."
)

PARITY_TOKENS = 24
SPEED_TOKENS = 128

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.25, "float16": 0.1}
"""Natural logarithms. float32: sums of another order over six to sixty layers. BF16 keeps eight bits, and an error of one unit in a
logit of twenty is 0.08; NVFP4 experts add to it. Beyond this something is wrong, and below twice this a first difference is a
near-tie."""

TIME_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One question's answer: `passed` is None where the engine cannot be asked it."""

    name: str
    passed: bool | None
    sentence: str
    took_s: float = 0.0
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """All answers about one engine, and what it is."""

    checks: tuple[Check, ...]
    engine: dict[str, Any]
    took_s: float

    @property
    def passed(self) -> bool:
        """Nothing failed, and it stayed below the time limit."""
        return all(check.passed is not False for check in self.checks) and self.took_s < TIME_LIMIT_S

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "passed": self.passed,
            "took_s": self.took_s,
            "engine": self.engine,
            "checks": [asdict(check) for check in self.checks],
        }

    def save(self, path: Path) -> None:
        """Write the report as JSON."""
        path.write_text(json.dumps(self.to_json(), indent=1) + "\n", "utf-8")

    def __str__(self) -> str:
        marks = {True: "ok  ", False: "FAIL", None: "--  "}
        lines = [f"{marks[check.passed]} {check.name}: {check.sentence} ({check.took_s:.1f} s)" for check in self.checks]
        where = self.engine.get("hardware") or "this machine's CPU"
        lines.append(f"{'verified' if self.passed else 'NOT verified'}: {self.engine['model']} on {where}, {self.took_s:.0f} s")
        return "\n".join(lines)


def verify(eng: Engine, *, say: Callable[[str], None] = lambda _: None, speed_tokens: int = SPEED_TOKENS) -> Verification:
    """Ask an engine all four questions.

    Parameters
    ----------
    say : callable
        Takes a line before each question.
    speed_tokens : int
        Tokens to decode for the speed.

    Notes
    -----
    A question that an error cuts short has failed with that error's sentence; the others are still asked.
    """
    began = time.monotonic()
    context = Context()
    context.ask(PROMPT)
    shown = context.render(eng)
    questions: dict[str, Callable[[], Iterator[Check] | Check]] = {
        "fit": lambda: check_fit(eng), "parity": lambda: check_parity(eng, shown), "seams": lambda: check_seams(eng, shown),
        "speed": lambda: check_speed(eng, shown, speed_tokens),
    }  # fmt: skip
    found: list[Check] = []
    for name, ask in questions.items():
        say(f"verify: {name}")
        started = time.monotonic()
        try:
            answers = ask()
            answers = [answers] if isinstance(answers, Check) else list(answers)
        except InklingError as problem:
            answers = [Check(name=name, passed=False, sentence=problem.message)]
        took = time.monotonic() - started
        found += [replace(one, took_s=took / len(answers)) for one in answers]
    return Verification(checks=tuple(found), engine=_about(eng), took_s=time.monotonic() - began)


def check_fit(eng: Engine) -> Check:
    """What vLLM counts beside the plan of the recipe the engine was started with."""
    from engine import recipes
    from engine.planner import plan

    memory = eng.info.memory
    if not memory or eng.info.recipe not in recipes.names():
        return Check(name="fit", passed=None, sentence="the engine runs no recipe that comes along, or does not count its memory")
    planned = plan(recipes.load(eng.info.recipe))
    counted, expected = max(memory["weights_bytes"]), planned.memory.weights_bytes
    # Published sizes of checkpoints are good to ten per cent; the cache's size follows from what the weights leave.
    close = abs(counted / expected - 1) <= 0.10
    enough = memory["cache_requests"] >= 1
    return Check(
        name="fit", passed=close and enough,
        sentence=f"weights {counted / 1e9:.2f} GB a rank (planned {expected / 1e9:.2f}), cache for {memory['cache_requests']:.2f} "
        f"requests of the longest context (planned {planned.requests_that_fit})",
        values={"weights_bytes": counted, "planned_bytes": expected, "cache_blocks": memory["cache_blocks"],
                "planned_blocks": planned.memory.pool_blocks},
    )  # fmt: skip


def check_parity(eng: Engine, shown: Rendered) -> Iterator[Check]:
    """The answer decoded token by token, against each of its tokens as the first one behind a prompt, and against a second run."""
    tolerance = TOLERANCE.get(str(eng.info.engine_args.get("dtype")), 0.25)
    decoded = eng.generate(shown, max_tokens=PARITY_TOKENS, temperature=0, logprobs=2)
    again = eng.generate(shown, max_tokens=PARITY_TOKENS, temperature=0, logprobs=2)
    repeated = [(at, _step(again, at)) for at in range(min(len(again.token_ids), len(decoded.token_ids)))]
    yield compare("parity: resumed prefix and decoding, twice", decoded, repeated, tolerance)
    steps = []
    for at in (0, 1, 2, 3, 5, 8, 13, 21):
        if at < len(decoded.token_ids):
            prompt = _extended(shown, decoded.token_ids[:at])
            steps.append((at, _step(eng.generate(prompt, max_tokens=1, temperature=0, logprobs=2), 0)))
    yield compare("parity: prompts and decoding", decoded, steps, tolerance)


Step = tuple[int, dict[int, float]]
"""A token, and the log-probabilities reported beside it."""


def compare(name: str, decoded: Reply, steps: list[tuple[int, Step]], tolerance: float) -> Check:
    """Whether other kernels say what decoding said: the same token, or a near-tie, with log-probabilities within `tolerance`.

    Behind a first difference nothing is compared: the texts are different ones from there on.
    """
    worst, ties = 0.0, 0
    for at, (token, chances) in steps:
        wanted, reported = _step(decoded, at)
        if token != wanted:
            if abs(reported.get(token, -np.inf) - reported[wanted]) <= 2 * tolerance:
                ties += 1
                break
            return Check(name=name, passed=False, sentence=f"token {at} is {token}, decoding gave {wanted}, and it is no near-tie",
                         values={"t": at, "tolerance": tolerance})  # fmt: skip
        worst = max(worst, abs(chances[token] - reported[wanted]))
    sentence = f"{len(steps)} tokens, largest difference {worst:.2g} of {tolerance:.2g} allowed" + (
        ", one near-tie" if ties else ""
    )
    return Check(
        name=name, passed=worst <= tolerance, sentence=sentence, values={"worst": worst, "tolerance": tolerance, "ties": ties}
    )


def check_seams(eng: Engine, shown: Rendered) -> Iterator[Check]:
    """A capture by every seam that says it fires; coverage is checked by the engine and again here."""
    for name in SEAMS:
        seam = eng.info.seam(name)
        if not seam.fires:
            yield Check(name=f"seam: {name}", passed=None, sentence=seam.reason or "does not fire")
            continue
        capture = eng.capture(shown, _plan_of(name))
        data = getattr(capture, name)
        tokens = int(data.sizes.get("t", len(shown)))
        whole = name == "attention" or tokens == len(shown)
        yield Check(
            name=f"seam: {name}", passed=whole, sentence=f"{tokens} of {len(shown)} tokens, {', '.join(map(str, data.data_vars))}"
        )


def check_speed(eng: Engine, shown: Rendered, tokens: int) -> Check:
    """Decoded tokens a second of one request, without its prompt."""
    from engine import recipes

    before = eng.status()
    reply = eng.generate(shown, max_tokens=tokens, temperature=1.0, seed=1)
    after = eng.status()
    count, took = len(reply.token_ids) - 1, reply.timings.total_s - reply.timings.first_token_s
    if count < 1 or took <= 0:
        return Check(name="speed", passed=None, sentence="the answer ended at once: nothing to measure")
    rate, drafted = count / took, after["drafted_tokens"] - before["drafted_tokens"]
    accepted = (after["accepted_tokens"] - before["accepted_tokens"]) / drafted if drafted else None
    recipe = recipes.load(eng.info.recipe) if eng.info.recipe in recipes.names() else None
    published = recipe.published.get("tokens_s_drafts" if drafted else "tokens_s_plain") if recipe else None
    sentence = f"{rate:,.1f} tokens/s" + (f", {accepted:.0%} of drafts accepted" if accepted is not None else "")
    sentence += f"; published: {published:.0f}" if published else "; nothing is published for this recipe"
    return Check(name="speed", passed=None if published is None else rate >= 0.5 * published, sentence=sentence,
                 values={"tokens_s": rate, "published_tokens_s": published, "accepted": accepted})  # fmt: skip


def _plan_of(seam: str) -> CapturePlan:
    from engine.protocol import AttentionPlan

    return CapturePlan(attention=AttentionPlan(queries="last")) if seam == "attention" else CapturePlan(**{seam: True})


def _step(reply: Reply, at: int) -> Step:
    item = reply.logprobs[at]
    return item.token_id, dict(item.alternatives) | {item.token_id: item.logprob}


def _extended(shown: Rendered, ids: np.ndarray) -> Rendered:
    if not len(ids):
        return shown
    start, last = len(shown), shown.spans[-1]
    span = Span(start=start, stop=start + len(ids), part=None, label="answer", modality="text", message=last.message + 1)
    return Rendered(token_ids=np.concatenate([shown.token_ids, ids]), spans=(*shown.spans, span), media=shown.media,
                    image_rule=shown.image_rule, blobs=shown.blobs)  # fmt: skip


def _about(eng: Engine) -> dict[str, Any]:
    from engine import recipes

    info = eng.info
    hardware = recipes.load(info.recipe).hardware if info.recipe in recipes.names() else None
    return {
        "url": eng.url, "model": info.model, "revision": info.revision, "recipe": info.recipe,
        "random_weights": info.random_weights,
        "versions": info.versions, "engine_args": info.engine_args,
        "hardware": f"{hardware.count} × {hardware.gpu}" if hardware else None,
    }  # fmt: skip
