"""The prefix cache on the real engine: asked before, explained after, and what a long conversation computes again."""

from __future__ import annotations

import numpy as np
import pytest

import workbench.samples
from engine.errors import BadRequest
from engine.kernel.contexts import StoredContext
from engine.kernel.reuse import REMEMBERED, ReuseHistory
from engine.protocol import ImageRule, Media, PrefillProgress
from workbench import Context

WORDS = "The harbour master keeps the tide tables and the keys of the old crane in the same drawer. "


def stored(ids, media=()) -> StoredContext:
    ids = np.asarray(ids, dtype=np.uint32)
    return StoredContext(id=f"sha256:{hash(ids.tobytes())}", token_ids=ids, media=tuple(media), image_rule=ImageRule())


def test_the_most_similar_earlier_context_is_found_and_media_count() -> None:
    history = ReuseHistory()
    image = Media(kind="image", blob="sha256:a", start=4, tokens=3)
    history.add(stored([1, 2, 3, 4, 9, 9, 9, 5], [image]), [7, 8], computed_tokens=8, first_token_s=1.0)
    history.add(stored([1, 2]), [], computed_tokens=2, first_token_s=1.0)
    same = stored([1, 2, 3, 4, 9, 9, 9, 5, 7, 8, 6], [image])
    assert history.most_similar(same)[1] == 10  # the answer's tokens, too
    other = Media(kind="image", blob="sha256:b", start=4, tokens=3)
    assert history.most_similar(stored([1, 2, 3, 4, 9, 9, 9, 5], [other]))[1] == 4
    assert history.most_similar(stored([2, 1])) == (None, 0)
    assert history.most_similar(same, "an adapter") == (None, 0)


def test_history_is_bounded_and_short_prompts_say_nothing_about_the_rate() -> None:
    history = ReuseHistory()
    for number in range(REMEMBERED + 5):
        history.add(stored([1000 + number]), [], computed_tokens=1, first_token_s=1.0)
    assert history.most_similar(stored([1000]))[0] is None
    assert history.prefill_tokens_per_s is None
    history.add(stored([1]), [], computed_tokens=1000, first_token_s=2.0)
    assert history.prefill_tokens_per_s == 500.0


@pytest.fixture(scope="module")
def document() -> Context:
    context = Context(system="Answer briefly.")
    context.add_text(WORDS * 150)
    context.ask("Where are the keys?")
    return context


@pytest.mark.engine
def test_a_probe_says_before_a_run_what_the_run_reuses(eng, document: Context) -> None:
    before = eng.probe(document)
    assert before.prompt_tokens == len(document.render(eng))
    assert eng.generate(document, max_tokens=2, temperature=0).usage.cached_tokens == before.cached_tokens
    again = eng.probe(document)
    assert again.to_compute_tokens <= 2 * again.hit_tokens
    assert "everything but the end" in again.reason
    reply = eng.generate(document, max_tokens=2, temperature=0)
    assert reply.usage.cached_tokens == again.cached_tokens
    assert again.prefill_tokens_per_s is None or again.prefill_tokens_per_s > 0


@pytest.mark.engine
@pytest.mark.slow
def test_media_are_probed_as_they_run(eng) -> None:
    paths, context = workbench.samples.paths(), Context()
    context.add_image(paths["image"])
    context.add_audio(paths["audio"])
    context.ask("What is this?")
    eng.generate(context, max_tokens=1, temperature=0)
    probed = eng.probe(context)
    assert probed.cached_tokens == eng.generate(context, max_tokens=1, temperature=0).usage.cached_tokens > 0
    assert {row.part for row in probed.by_part} >= {item.part for item in context.render(eng).spans if item.modality == "image"}


@pytest.mark.engine
def test_an_edit_in_the_middle_is_named_and_costs_at_most_an_interval_more(eng, document: Context) -> None:
    interval = 1024  # the demo recipe's
    eng.generate(document, max_tokens=1, temperature=0)
    edited = Context(system="Answer briefly.")
    edited.add_text(WORDS * 120 + "Something else. " + WORDS * 30)
    edited.ask("Where are the keys?")
    probed = eng.probe(edited)
    assert probed.broken_by is not None
    assert probed.shared_tokens > interval
    assert probed.shared_tokens - probed.cached_tokens <= interval + probed.hit_tokens
    reply = eng.generate(edited, max_tokens=1, temperature=0)
    assert reply.usage.cached_tokens == probed.cached_tokens
    explained = eng.explain(reply)
    assert explained.cached_tokens == probed.cached_tokens
    assert explained.broken_by == probed.broken_by
    assert "differs from an earlier context" in explained.reason


@pytest.mark.engine
def test_another_system_text_breaks_everything_and_is_named(eng, document: Context) -> None:
    eng.generate(document, max_tokens=1, temperature=0)
    other = Context(system="Answer at length.")
    other.add_text(WORDS * 150)
    other.ask("Where are the keys?")
    probed = eng.probe(other)
    assert probed.cached_tokens == 0
    assert probed.to_compute_tokens == probed.prompt_tokens


@pytest.mark.engine
def test_twenty_turns_compute_what_is_new_and_at_most_an_interval(eng) -> None:
    context, interval, total = Context(system="Answer briefly. " + WORDS * 60), 1024, 0
    for turn in range(20):
        context.ask(f"Question {turn}: what is in the drawer?")
        reply = eng.generate(context, max_tokens=4, temperature=0)
        new = reply.usage.prompt_tokens - total
        computed = reply.usage.prompt_tokens - reply.usage.cached_tokens
        if turn:
            assert computed <= new + interval, f"turn {turn}"
            # In practice the resume point at the end of the last prompt serves: a block or two more than what is new.
            assert computed <= new + 4 + 2 * 16, f"turn {turn}"
        total = reply.usage.prompt_tokens
        context.add_reply(reply)


@pytest.mark.engine
def test_progress_says_how_long_it_will_take(eng) -> None:
    from tests.kernel.test_generate import rendered

    context = rendered(np.random.default_rng(8).integers(100, 150_000, 20_000))
    progress = [event for event in eng.stream(context, max_tokens=1, temperature=0) if isinstance(event, PrefillProgress)]
    assert progress
    assert all(event.position is None or event.waiting for event in progress)
    timed = [event.left_s for event in progress if event.left_s is not None]
    assert timed, "the second look at a prompt has a rate"
    assert all(left >= 0 for left in timed)


@pytest.mark.engine
def test_limits_are_published_and_an_unknown_context_is_refused(eng) -> None:
    assert eng.info.limits.requests >= 8
    assert eng.info.limits.captures >= 1
    with pytest.raises(BadRequest):
        eng.probe("no context")
