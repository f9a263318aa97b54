"""The demo with drafts, over HTTP: the same greedy answers, and counts of what was drafted and accepted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.protocol import CapturePlan, DraftsPlan
from engine.recipes import FOLDER
from workbench import Context

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture(scope="module")
def drafting(places: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[engine.Engine]:
    """A second engine: the demo recipe under another name, drafting two tokens per step."""
    recipe = tmp_path_factory.mktemp("recipes") / "demo-drafts.toml"
    recipe.write_text((FOLDER / "demo.toml").read_text("utf-8"), "utf-8")
    running = engine.start(recipe, drafts=2)
    try:
        yield running
    finally:
        running.stop()


def asked(question: str) -> Context:
    context = Context(effort="none")
    context.ask(question)
    return context


def test_greedy_answers_are_those_without_drafts(eng: engine.Engine, drafting: engine.Engine) -> None:
    for question in ("What is two and three?", "Say something about the sea, at length.", "x"):
        plain = eng.generate(asked(question), max_tokens=48, temperature=0)
        drafted = drafting.generate(asked(question), max_tokens=48, temperature=0)
        np.testing.assert_array_equal(drafted.token_ids, plain.token_ids)
        assert plain.usage.drafted == plain.usage.acceptance == ()
        # Every step but the first verifies drafts; each gives one token and those accepted.
        usage = drafted.usage
        assert len(usage.drafted) == len(usage.accepted) == 2
        assert usage.drafted[0] >= usage.drafted[1] >= 0
        assert usage.accepted[0] >= usage.accepted[1] >= 0
        assert usage.completion_tokens <= 1 + usage.drafted[0] + sum(usage.accepted)


def test_a_capture_of_a_reply_finds_the_steps_that_the_engine_took(drafting: engine.Engine) -> None:
    reply = drafting.generate(asked("Say something about the sea, at length."), max_tokens=48, temperature=0)
    capture = drafting.capture(reply, CapturePlan(drafts=True))
    assert capture.complete
    assert capture.drafts.sizes == {"t": len(capture), "depth": 2}
    steps = capture.draft_steps()
    assert steps.data.attrs["first"] == len(capture) - len(reply.token_ids)
    assert steps.data.attrs["steps"] == reply.usage.drafted[0]
    accepted = steps["accepted"].values
    for depth, counted in enumerate(reply.usage.accepted, start=1):
        # The engine also counts what the last step accepted beyond the answer's end.
        assert 0 <= counted - int((accepted >= depth).sum()) <= 1
    assert (capture.drafts["logprob"].values <= 0).all()
    tail = drafting.capture(reply, CapturePlan(drafts=DraftsPlan(tokens="reply")))
    np.testing.assert_array_equal(tail.drafts["token"], capture.drafts["token"].sel(t=tail.drafts["t"]))


def test_status_counts_by_depth(drafting: engine.Engine) -> None:
    before = drafting.status()
    reply = drafting.generate(asked("Count from one to ten."), max_tokens=24, temperature=0)
    after = drafting.status()
    assert drafting.info.engine_args["drafts"] == 2
    assert after["draft_steps"] - before["draft_steps"] >= 1
    assert after["accepted_tokens"] - before["accepted_tokens"] == sum(reply.usage.accepted)
    assert len(after["accepted_by_depth"]) == 2


def test_what_drafting_ignores_is_refused(drafting: engine.Engine) -> None:
    import openai

    with (
        openai.OpenAI(base_url=f"{drafting.url}/v1", api_key=drafting._connection.token, max_retries=0) as client,
        pytest.raises(openai.BadRequestError, match="logprob_token_ids"),
    ):
        client.completions.create(
            model=drafting.info.model, prompt=[1, 2], max_tokens=2, extra_body={"logprob_token_ids": [1, 2]}
        )  # fmt: skip
