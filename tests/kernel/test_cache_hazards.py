"""Where caches, steps and batches meet: what other Inkling stacks got wrong there, tried on the running engine.

Every case compares an answer with the same answer got in another way: alone or in company, with a cold cache or a warm one, with
the prompt cut here or there. Greedy ids are equal, and log-probabilities within what another order of float32 sums is worth.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.protocol import Rendered, Reply, Span
from workbench import Context, samples

pytestmark = pytest.mark.engine

ORDER = 2e-3
"""Of a log-probability: float32 sums over six layers in another order (test_demo_answers bounds transformers' by the same)."""

GREEDY = {"max_tokens": 8, "temperature": 0, "logprobs": 0}


def ids_of(text: str) -> list[int]:
    context = Context(effort="none")
    context.ask(text)
    return context.render().token_ids.tolist()


def rendered(ids: list[int]) -> Rendered:
    array = np.asarray(ids, dtype=np.uint32)
    return Rendered(token_ids=array, spans=(Span(start=0, stop=len(ids), part=None, label="ids", modality="text", message=0),))


def prose(tokens: int, seed: int) -> list[int]:
    """So many ordinary tokens that no other test has sent."""
    return np.random.default_rng(seed).integers(1_000, 100_000, tokens).tolist()


def assert_same(one: Reply, other: Reply) -> None:
    assert one.token_ids.tolist() == other.token_ids.tolist()
    assert [item.logprob for item in one.logprobs] == pytest.approx([item.logprob for item in other.logprobs], abs=ORDER)


def test_a_short_tail_leaves_the_shared_prefix_as_it_was(eng) -> None:
    """A hit with one or two new tokens writes its convolutions' state beside the shared page, not into it."""
    head, tail = ids_of("Read this."), ids_of("And now?")
    prefix = [*head, *prose(1_500, seed=1)]
    first = eng.generate(rendered([*prefix, *tail]), **GREEDY)
    assert first.usage.cached_tokens < 200
    for short in ([5], [5, 6]):
        assert eng.generate(rendered([*prefix, *short]), max_tokens=2, temperature=0).usage.cached_tokens > 500
    again = eng.generate(rendered([*prefix, *tail]), **GREEDY)
    assert again.usage.cached_tokens > 500
    assert_same(first, again)


def test_a_picture_across_steps_is_the_same_picture(eng) -> None:
    """Its tokens are computed in two steps the first time, and in other pieces when the prompt resumes from the cache."""
    step = eng.info.engine_args["max_num_batched_tokens"]
    context = Context(effort="none")
    words = "harbour " * (step - 40)
    context.add_text(words)
    context.add_image(samples.paths()["image"])
    context.ask("What is at row 2, column 1?")
    (media,) = context.render(eng).media
    assert media.start < step < media.start + media.tokens
    cold = eng.generate(context, **GREEDY)
    warm = eng.generate(context, **GREEDY)
    assert cold.usage.cached_tokens < media.start
    assert warm.usage.cached_tokens > cold.usage.cached_tokens
    assert_same(cold, warm)


def test_four_at_once_answer_as_alone(eng) -> None:
    prompts = [rendered([*ids_of("Go on."), *prose(length, seed=length)]) for length in (253, 361, 505, 721)]
    alone = [eng.generate(prompt, **GREEDY) for prompt in prompts]
    fresh = [rendered([*prompt.token_ids.tolist()[:-1], 1_234]) for prompt in prompts]  # nothing of the end is cached

    async def together(what: list[Rendered]) -> list[Reply]:
        return await asyncio.gather(*(eng.agenerate(prompt, **GREEDY) for prompt in what))

    for one, other in zip(alone, asyncio.run(together(prompts)), strict=True):
        assert_same(one, other)
    company = asyncio.run(together(fresh))
    for one, other in zip(company, [eng.generate(prompt, **GREEDY) for prompt in fresh], strict=True):
        assert_same(one, other)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_drafts_over_a_shared_prefix_answer_as_without(eng, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two prompts share a thousand tokens and part: what the first one left for the drafts must not reach the second."""
    prefix = [*ids_of("Read this."), *prose(1_100, seed=3)]
    prompts = [rendered([*prefix, *ids_of(question)]) for question in ("Which code?", "What does it say of ships?")]
    without = [eng.generate(prompt, max_tokens=24, temperature=0).token_ids.tolist() for prompt in prompts]
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("INKLING_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("INKLING_ENGINE_URL", raising=False)
    drafting = engine.start("demo", drafts=2)
    try:
        replies = [drafting.generate(prompt, max_tokens=24, temperature=0) for prompt in [*prompts, *prompts]]
    finally:
        drafting.stop()
    assert [reply.token_ids.tolist() for reply in replies] == without * 2
    assert replies[1].usage.cached_tokens > 500
    assert sum(replies[0].usage.drafted) > 0
