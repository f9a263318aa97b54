"""Interventions through the whole engine: stamped on what comes back, refused before anything runs, gone afterwards."""

from __future__ import annotations

import asyncio
import threading
import time

import httpx
import numpy as np
import pytest

from engine.errors import BadRequest, InterventionRefused
from engine.protocol import CapturePlan, PrefillProgress
from workbench import Context
from workbench.interventions import BanExperts, MaskModality, MaskSpan, ScaleSinks, to_json

pytestmark = pytest.mark.engine

GREEDY = {"max_tokens": 8, "temperature": 0, "logprobs": 0}


@pytest.fixture(scope="module")
def context() -> Context:
    context = Context()
    context.add_text("The harbour office opens at seven and closes at noon. " * 12)
    context.ask("When does it open?")
    return context


def logprobs(reply) -> list[float]:
    return [item.logprob for item in reply.logprobs]


def test_a_reply_carries_its_interventions_and_the_next_one_is_as_before(eng, context: Context) -> None:
    before = eng.generate(context, **GREEDY)
    ban = BanExperts(layer=eng.info.architecture.moe_layers[-1], experts=range(eng.info.architecture.experts // 2))
    changed = eng.generate(context, interventions=[ban], **GREEDY)
    assert changed.provenance["interventions"] == [to_json(ban)]
    assert any("banned" in notice for notice in changed.notices)
    assert logprobs(changed) != logprobs(before)
    after = eng.generate(context, **GREEDY)
    assert "interventions" not in after.provenance
    assert after.token_ids.tolist() == before.token_ids.tolist()
    np.testing.assert_allclose(logprobs(after), logprobs(before), atol=1e-5)
    # Salted by what was declared: the plain prefix is not taken, the intervened one is.
    again = eng.generate(context, interventions=ban, **GREEDY)
    assert changed.usage.cached_tokens == 0
    assert again.usage.cached_tokens >= 64
    np.testing.assert_allclose(logprobs(again), logprobs(changed), atol=1e-5)


def test_a_banned_expert_is_not_in_the_capture(eng, context: Context) -> None:
    layer, banned = eng.info.architecture.moe_layers[0], (0, 3)
    capture = eng.capture(context, CapturePlan(routing=True), interventions=[BanExperts(layer=layer, experts=banned)])
    assert capture.provenance["interventions"][0]["experts"] == list(banned)
    chosen = capture.routing["expert"].sel(l=layer).values
    assert not np.isin(chosen, banned).any()
    assert np.isin(eng.capture(context, CapturePlan(routing=True)).routing["expert"].sel(l=layer).values, banned).any()
    none = eng.capture(context, CapturePlan(routing=True), interventions=[ScaleSinks(factor=0.0)])
    assert (none.routing["sink"].values == 0).all()


def test_others_are_answered_as_ever_while_one_intervenes(eng, context: Context) -> None:
    other = Context()
    other.ask("What is a quay?")
    alone = eng.generate(other, max_tokens=24, temperature=0, logprobs=0)

    async def both():
        return await asyncio.gather(
            eng.agenerate(context, interventions=[ScaleSinks(factor=0.0)], max_tokens=24, temperature=0),
            eng.agenerate(other, max_tokens=24, temperature=0, logprobs=0),
        )

    changed, beside = asyncio.run(both())
    assert changed.provenance["interventions"]
    assert beside.token_ids.tolist() == alone.token_ids.tolist()
    # Batches of another size may round their sums otherwise.
    np.testing.assert_allclose(logprobs(beside), logprobs(alone), atol=1e-4)


def test_a_modality_is_masked_where_it_lies(eng) -> None:
    from PIL import Image

    context = Context()
    context.add_image(Image.fromarray(np.random.default_rng(0).integers(0, 255, (90, 130, 3), dtype=np.uint8)), name="noise.png")
    context.ask("What is in the picture?")
    image = next(span for span in context.render(eng).spans if span.modality == "image")
    masked = eng.generate(context, interventions=[MaskModality(modality="image", sconv=True)], **GREEDY)
    assert masked.provenance["interventions"][0]["spans"] == [[image.start, image.stop]]
    by_span = eng.generate(context, interventions=[MaskSpan.of(image, sconv=True)], **GREEDY)
    assert logprobs(by_span) == pytest.approx(logprobs(masked), abs=1e-6)
    assert logprobs(masked) != logprobs(eng.generate(context, **GREEDY))
    with pytest.raises(InterventionRefused, match="no audio to mask"):
        eng.generate(context, interventions=[MaskModality(modality="audio")])


def test_what_cannot_be_is_refused_before_anything_runs(eng, context: Context) -> None:
    with pytest.raises(InterventionRefused, match="no expert 999"):
        eng.generate(context, interventions=[BanExperts(layer=eng.info.architecture.moe_layers[0], experts=999)])
    with pytest.raises(InterventionRefused, match="not a span"):
        next(iter(eng.stream(context, interventions=[MaskSpan(start=0, stop=10_000_000)])))
    with httpx.Client(base_url=eng.url, headers={"authorization": f"Bearer {eng._connection.token}"}) as http:
        name = context.render(eng).id
        for wrong in (
            {"kind": "ban-experts", "layer": 0, "experts": [0]},
            {"kind": "nonsense"},
            {"kind": "scale-sinks", "factor": "x"},
        ):
            answer = http.post("/workbench/generate", json={"context": name, "interventions": [wrong]})
            assert (answer.status_code, answer.json()["error"]["code"]) == (422, "intervention-refused")
            answer = http.post("/workbench/captures", json={"context": name, "plan": {"routing": True}, "interventions": [wrong]})
            assert (answer.status_code, answer.json()["error"]["code"]) == (422, "intervention-refused")


def test_leaving_an_intervened_stream_leaves_nothing_behind(eng) -> None:
    """A client that goes away in the middle of the prompt: what had been computed stays apart, what comes next is untouched."""
    long = Context()
    long.add_text("A long text about ships. " * 1_500)
    long.ask("x")
    plain, edits = Context(), [ScaleSinks(factor=0.0)]
    plain.ask("What is a quay?")
    before = eng.generate(plain, **GREEDY)
    stream = eng.stream(long, interventions=edits, **GREEDY)
    for event in stream:
        if isinstance(event, PrefillProgress) and event.done_tokens:
            break
    stream.close()
    deadline = time.monotonic() + 60
    while eng.status()["requests"] or eng.status()["running"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    np.testing.assert_allclose(logprobs(eng.generate(plain, **GREEDY)), logprobs(before), atol=1e-5)
    # Half a prompt is cached under the intervention: finishing it gives what a fresh run gives.
    finished = eng.generate(long, interventions=edits, **GREEDY)
    assert finished.usage.cached_tokens > 0
    fresh = eng.generate(long, interventions=[*edits, ScaleSinks(factor=1.0)], **GREEDY)
    assert fresh.usage.cached_tokens == 0
    assert finished.token_ids.tolist() == fresh.token_ids.tolist()
    np.testing.assert_allclose(logprobs(finished), logprobs(fresh), atol=1e-4)


def test_many_at_once_do_not_mix(eng, context: Context) -> None:
    layer = eng.info.architecture.moe_layers[0]
    edits = [[BanExperts(layer=layer, experts=n)] for n in range(3)] + [[]]
    alone = [logprobs(eng.generate(context, interventions=items, **GREEDY)) for items in edits]
    results: dict[int, list[float]] = {}

    def ask(number: int) -> None:
        results[number] = logprobs(eng.generate(context, interventions=edits[number], **GREEDY))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, expected in enumerate(alone):
        np.testing.assert_allclose(results[number], expected, atol=1e-4)


def test_scores_are_the_log_probabilities_of_the_reply(eng, context: Context) -> None:
    edits = [ScaleSinks(factor=0.0), MaskSpan(start=3, stop=30)]
    plain = eng.generate(context, **GREEDY)
    seen: list[PrefillProgress] = []
    # One prefill instead of single steps: float32 sums over batches of another size.
    np.testing.assert_allclose(eng.score(plain, progress=seen.append), logprobs(plain), atol=1e-4)
    changed = eng.generate(context, interventions=edits, **GREEDY)
    np.testing.assert_allclose(eng.score(changed, interventions=edits), logprobs(changed), atol=1e-4)
    assert np.abs(eng.score(plain, interventions=edits) - logprobs(plain)).max() > 1e-3
    # Of any context from any token on; the last tokens are the same ones.
    rendered = context.render(eng)
    whole = eng.score(rendered, first=1)
    assert whole.shape == (len(rendered) - 1,)
    np.testing.assert_allclose(eng.score(context, first=len(rendered) - 3), whole[-3:], atol=1e-4)
    for first in (None, 0, len(rendered)):
        with pytest.raises(BadRequest, match="first is"):
            eng.score(context, first=first)
