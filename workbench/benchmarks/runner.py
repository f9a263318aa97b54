"""The V2 model runner with torch kernels: against vLLM's older runner, and with drafts against without.

Three engines of one checkpoint run side by side as children of this process and answer the same jobs in turns: vLLM's V1 runner
with our model kernels, the V2 runner with our runner kernels, and the V2 runner with drafts. A job is greedy text of full length
after random ids; and, for the demo checkpoint, whose drafting heads are trained, questions of its evaluation answered to their end.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ..errors import BenchError
from .bench import Bench
from .children import Child, checkpoint, child
from .measuring import Series

SUMMARY = "the engine without a GPU: V2 runner over V1, steps with drafts over steps without"

PROMPT_TOKENS = 64
ANSWER_TOKENS = 128
"""At most so many of a question's answer."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the bench's options."""
    parser.add_argument("--model", default="demo", help="checkpoint folder with drafting blocks (default: the demo's)")
    parser.add_argument("--drafts", type=int, default=2, metavar="N", help="tokens to draft per step (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=64, metavar="N", help="per answer (default: %(default)s)")
    parser.add_argument("--questions", type=int, default=24, metavar="N", help="of the demo's evaluation (default: %(default)s)")


def run(bench: Bench, args: argparse.Namespace) -> None:
    """Measure."""
    args = bench.sized(args, tokens=16, questions=3)
    drafting = {"speculative_config": {"method": "mtp", "num_speculative_tokens": args.drafts}}
    with ExitStack() as stack:
        v1, v2, drafts = (
            stack.enter_context(engine(args.model, runner, given)) for runner, given in (("v1", {}), ("v2", {}), ("v2", drafting))
        )
        for requests in (1, 4):
            _measure(bench, {"V1": v1, "V2": v2, "drafts": drafts}, requests=requests, tokens=args.tokens, drafts=args.drafts)
        if args.model == "demo":
            _measure_questions(bench, {"V2": v2, "drafts": drafts}, questions(bench.seed, args.questions), drafts=args.drafts)


def _measure(bench: Bench, engines: dict[str, Child], *, requests: int, tokens: int, drafts: int) -> None:
    """Whole answers in turns; then the steps within them."""
    job = {"requests": requests, "prompt_tokens": PROMPT_TOKENS, "tokens": tokens}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in engines}

    def side(name: str, engine: Child) -> Any:
        def measured() -> float:
            # The same prompts for every side of a round: greedy answers, so the same work.
            answer = engine.ask(job | {"seed": bench.seed * 10_000 + 100 * requests + len(found[name])})
            found[name].append(answer)
            return answer["seconds"]

        return measured

    took = bench.alternate({name: side(name, engine) for name, engine in engines.items()})
    label = f"{requests} request{'s' if requests > 1 else ''}"
    for name in engines:
        bench.rate(f"{name}, {label}", took[name], amount=requests * tokens, unit="tokens")
    bench.ratio(f"V2 over V1 in tokens per second, {label}", took["V1"], took["V2"], at_least=0.95)
    counted = {name: answers[-bench.rounds :] for name, answers in found.items()}
    step = {
        name: Series(f"a step, {name}", tuple(statistics.median(answer["steps_s"]) for answer in counted[name]), took[name].turns)
        for name in ("V2", "drafts")
    }
    bench.time(f"a plain step, {label}", step["V2"])
    cost = bench.ratio(f"a step with {drafts} drafts over a plain step, {label}", step["drafts"], step["V2"], at_most=1.5).median
    steps = sum(len(answer["steps_s"]) for answer in counted["drafts"])
    per_step = sum(answer["tokens"] - requests for answer in counted["drafts"]) / max(1, steps) / requests
    bench.value(f"tokens per step with {drafts} drafts, {label}", per_step, unit="tokens")
    bench.ratio(f"{drafts} drafts over none in tokens per second, {label} of random ids", took["V2"], took["drafts"])
    bench.remark(
        f"With {label} drafting pays from {cost:.2f} tokens per step on: {cost - 1:.2f} of {drafts} drafts accepted on average. "
        f"After random ids, for which a trained checkpoint drafts worst, it was {per_step:.2f}."
    )


def questions(seed: int, count: int) -> list[list[int]]:
    """Token ids of `count` questions of the demo's evaluation that it answers after a thinking message: text alone, held out."""
    from ..evals.composing import context_of
    from ..evals.suites import rows

    (thinking,) = (row for row in rows(seed) if row.name == "thinking")
    found: list[list[int]] = []
    index = 0
    while len(found) < count:
        rendered = context_of(thinking.make(index)).render()
        if not rendered.media:
            found.append(rendered.token_ids.tolist())
        index += 1
    return found


def _measure_questions(bench: Bench, engines: dict[str, Child], prompts: list[list[int]], *, drafts: int) -> None:
    """The answers' tokens per second of decoding, one request at a time."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in engines}

    def side(name: str, engine: Child) -> Any:
        def measured() -> float:
            answer = engine.ask({"prompts": prompts, "tokens": ANSWER_TOKENS, "seed": len(found[name])})
            found[name].append(answer)
            return answer["seconds"]

        return measured

    took = bench.alternate({name: side(name, engine) for name, engine in engines.items()})
    for name in engines:
        bench.rate(f"{name}, answering questions", took[name], amount=found[name][-1]["tokens"], unit="tokens")
    plain, drafted = found["V2"][-1]["tokens"], found["drafts"][-1]["tokens"]
    if plain != drafted:
        raise BenchError(f"greedy answers have {plain} tokens without drafts and {drafted} with: not the same work")
    per_step = drafted / len(found["drafts"][-1]["steps_s"])
    bench.value(f"tokens per step with {drafts} drafts, answering questions", per_step, unit="tokens")
    bench.ratio(f"{drafts} drafts over none in tokens per second, answering questions", took["V2"], took["drafts"], at_least=1.2)


@contextmanager
def engine(model: str, runner: str, args: dict[str, Any]) -> Iterator[Child]:
    """An engine of the checkpoint, ended with the block."""
    with child("engine.cpu.timed", {"model": checkpoint(model), "runner": runner, "args": args}) as (found, _):
        yield found
