"""One prompt through every way in: the same tokens, and nothing made up when a part is not taken."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import numpy as np
import pytest

from workbench import Context
from workbench.chat_requests import chat_request

pytestmark = pytest.mark.engine

REAL_VOCABULARY = 200_058
"""Ids that stand for something; the rest of the head's rows is padding."""


@pytest.fixture(scope="module")
def http(eng):
    with httpx.Client(base_url=eng.url, headers={"authorization": f"Bearer {eng._connection.token}"}, timeout=120) as http:
        yield http


def noise(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (90, 120, 3), dtype=np.uint8)


def test_every_endpoint_counts_the_same_prompt(eng, http: httpx.Client) -> None:
    context = Context(effort="none")
    context.add_image(noise(0))
    context.ask("What is this?")
    ours = len(context.render(eng))
    reply = eng.generate(context, max_tokens=1, temperature=0)
    chat = http.post("/v1/chat/completions", json=chat_request(context) | {"model": eng.info.model, "max_tokens": 1})
    url = chat_request(context)["messages"][0]["content"][0]["image_url"]["url"]
    content = [{"type": "input_image", "image_url": url, "detail": "auto"}, {"type": "input_text", "text": "What is this?"}]
    body: dict[str, Any] = {"model": eng.info.model, "max_output_tokens": 1, "input": [{"role": "user", "content": content}]}
    responses = http.post("/v1/responses", json=body | {"reasoning": {"effort": "none"}})
    assert reply.usage.prompt_tokens == ours
    assert chat.json()["usage"]["prompt_tokens"] == ours
    assert responses.json()["usage"]["input_tokens"] == ours


def test_another_picture_is_another_prompt(eng) -> None:
    """What is read of a picture comes from its pixels: a text around it that stays the same does not answer for it."""
    scores = []
    for seed in (1, 2):
        context = Context(effort="none")
        context.add_image(noise(seed))
        context.ask("Which number is shown?")
        first = eng.generate(context, max_tokens=1, temperature=0, logprobs=5).logprobs[0]
        scores.append(first.alternatives)
    assert scores[0] != scores[1]


def test_the_longest_clip_beside_a_stream(eng) -> None:
    """599 s of sound, 11,980 tokens in one message, are read while another chat goes on unharmed."""
    quiet = Context(effort="none")
    quiet.ask("Good morning! Tell me of the sea.")
    alone = eng.generate(quiet, max_tokens=40, temperature=0)
    long = Context(effort="none")
    long.add_audio(np.random.default_rng(0).normal(0, 0.1, 599 * 16_000).astype(np.float32), rate_hz=16_000)
    long.ask("How many tones?")
    found: list[Any] = []
    reading = threading.Thread(target=lambda: found.append(eng.generate(long, max_tokens=2, temperature=0)))
    reading.start()
    beside = eng.generate(quiet, max_tokens=40, temperature=0)
    reading.join(timeout=300)
    assert found[0].usage.prompt_tokens == len(long.render(eng)) > 11_980
    assert beside.token_ids.tolist() == alone.token_ids.tolist()


def test_padding_of_the_vocabulary_is_never_sampled_or_shown(eng) -> None:
    context = Context(effort="none")
    context.ask("Anything at all.")
    for seed in range(4):
        reply = eng.generate(context, max_tokens=250, temperature=2.0, seed=seed, logprobs=20)
        assert (reply.token_ids < REAL_VOCABULARY).all()
        assert all(token < REAL_VOCABULARY for place in reply.logprobs for token in place.alternatives)
