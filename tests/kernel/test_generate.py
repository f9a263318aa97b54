"""Generation on the real engine: equality with /v1, the prefix cache, media, limits, abort."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest

import workbench.samples
from engine.errors import BadRequest, ContextTooLong, EngineAuthError, RequestRefused
from engine.protocol import Done, PrefillProgress, Reasoning, Rendered, Span, Text
from workbench import Context

pytestmark = pytest.mark.engine


def asked(question: str, *, system: str | None = None) -> Context:
    context = Context(system=system)
    context.ask(question)
    return context


def rendered(ids) -> Rendered:
    ids = np.asarray(ids, dtype=np.uint32)
    return Rendered(token_ids=ids, spans=(Span(start=0, stop=len(ids), part=None, label="ids", modality="text", message=0),))


@pytest.fixture(scope="module")
def token(eng) -> str:
    return eng._connection.token


@pytest.fixture(scope="module")
def client(eng, token: str):
    with openai.OpenAI(base_url=f"{eng.url}/v1", api_key=token, max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def http(eng, token: str):
    with httpx.Client(base_url=eng.url, headers={"authorization": f"Bearer {token}"}, timeout=60) as http:
        yield http


def test_greedy_ids_equal_what_v1_gives_for_the_same_prompt(eng, client: openai.OpenAI) -> None:
    context = asked("What is a harbour?", system="Answer briefly.")
    reply = eng.generate(context, max_tokens=12, temperature=0)
    ids = context.render(eng).token_ids.tolist()
    theirs = client.completions.create(
        model=eng.info.model, prompt=ids, max_tokens=12, temperature=0, extra_body={"return_token_ids": True}
    )  # fmt: skip
    assert reply.token_ids.tolist() == theirs.choices[0].token_ids  # type: ignore[attr-defined]
    assert theirs.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (
        theirs.usage.prompt_tokens,
        theirs.usage.completion_tokens,
    )
    assert reply.usage.prompt_tokens == len(ids)
    assert reply.context == context.render(eng).id


def test_openai_clients_chat_whole_and_streamed(eng, client: openai.OpenAI) -> None:
    ask = {"model": eng.info.model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "temperature": 0}
    whole = client.chat.completions.create(**ask)
    pieces = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    assert whole.usage is not None
    assert pieces[-1].usage is not None
    # A trained model may end its answer before the limit.
    assert 0 < whole.usage.completion_tokens == pieces[-1].usage.completion_tokens <= 8
    content = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert content == (whole.choices[0].message.content or "")


def test_the_stream_says_what_the_reply_says(eng) -> None:
    events = list(eng.stream(asked("Say something."), max_tokens=24, temperature=0, logprobs=3))
    done = events[-1]
    assert isinstance(done, Done)
    reply = done.reply
    assert "".join(event.text for event in events if isinstance(event, Text)) == reply.text
    assert reply.finish_reason in ("stop", "length")
    assert len(reply.logprobs) == len(reply.token_ids) == reply.usage.completion_tokens
    for item, token_id in zip(reply.logprobs, reply.token_ids, strict=True):
        # Greedy: the sampled token is the likeliest of those reported.
        assert item.token_id == token_id
        assert item.logprob == max(item.alternatives.values()) <= 0
    assert 0 < reply.timings.first_token_s <= reply.timings.total_s
    assert bool(eng.info.random_weights) == any("Random weights" in notice for notice in reply.notices)
    assert reply.provenance["revision"] == eng.info.revision


def test_a_seed_repeats_and_another_differs(eng) -> None:
    context = asked("Invent a word.")
    first, again, other = (
        eng.generate(context, max_tokens=16, temperature=2.0, seed=seed).token_ids.tolist() for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


def test_a_document_an_image_and_a_recording_run_as_they_were_shown_and_stay_cached(eng) -> None:
    paths, context = workbench.samples.paths(), Context()
    context.add_document(paths["document"])
    context.add_image(paths["image"])
    context.add_audio(paths["audio"])
    context.ask("Which keys are dialled?")
    shown = context.render(eng)
    assert {item.kind for item in shown.media} == {"image", "audio"}
    first = eng.generate(context, max_tokens=4, temperature=0, logprobs=0)
    again = eng.generate(context, max_tokens=4, temperature=0, logprobs=0)
    assert first.usage.prompt_tokens == again.usage.prompt_tokens == len(shown)
    # Whole blocks of 16, and never the last token, which has to be computed to be continued.
    assert 0 < len(shown) - again.usage.cached_tokens <= 32
    assert first.token_ids.tolist() == again.token_ids.tolist()
    # fp32 on one machine; a cached prefix was computed in other batch shapes.
    assert [item.logprob for item in first.logprobs] == pytest.approx([item.logprob for item in again.logprobs], abs=1e-4)


def test_a_conversation_goes_on_behind_the_replys_own_ids(eng) -> None:
    context = asked("First question, long enough to fill some blocks of the cache with its words. " * 20)
    reply = eng.generate(context, max_tokens=20, temperature=0)
    before = context.render(eng).token_ids.tolist()
    context.add_reply(reply)
    context.ask("Second question.")
    ids = context.render(eng).token_ids.tolist()
    assert ids[: len(before) + len(reply.token_ids)] == before + reply.token_ids.tolist()
    second = eng.generate(context, max_tokens=2, temperature=0)
    # vLLM keeps a resume point at the last whole block of a prompt (its sliding and conv layers have few); block size 16.
    assert second.usage.cached_tokens >= (len(before) - 1) // 16 * 16


def test_prompt_progress_comes_before_the_first_token(eng) -> None:
    context = rendered(np.random.default_rng(5).integers(100, 150_000, 30_000))
    events = list(eng.stream(context, max_tokens=1, temperature=0))
    progress = [event for event in events if isinstance(event, PrefillProgress)]
    assert progress, "30,000 tokens take the engine many steps"
    done = [event.done_tokens for event in progress]
    assert done == sorted(done)
    assert all(event.total_tokens == 30_000 for event in progress)
    assert 0 < done[-1] <= 30_000
    assert not any(isinstance(event, PrefillProgress) for event in events[len(progress) :])


@pytest.mark.parametrize(
    "options",
    [{"max_tokens": 0}, {"temperature": -1}, {"temperature": 2.5}, {"top_p": 0}, {"top_k": -1}, {"logprobs": 21}, {"seed": -1}],
)
def test_options_out_of_range_are_refused_here_and_by_the_engine(eng, http: httpx.Client, options) -> None:
    with pytest.raises(BadRequest, match=next(iter(options))):
        eng.generate(asked("x"), **options)
    answer = http.post("/workbench/generate", json={"context": "sha256:" + "0" * 64, "sampling": options})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad-request")


def test_an_answer_that_does_not_fit_is_refused_before_anything_runs(eng) -> None:
    limit = eng.info.limits.context_tokens
    with pytest.raises(ContextTooLong, match=f"{limit:,}") as caught:
        eng.generate(asked("x"), max_tokens=limit)
    assert caught.value.detail["limit_tokens"] == limit


def test_a_context_over_the_limit_is_refused(eng) -> None:
    limit = eng.info.limits.context_tokens
    with pytest.raises(ContextTooLong):
        eng.generate(rendered(np.ones(limit, dtype=np.uint32)))


def test_an_id_outside_the_vocabulary_is_refused(eng) -> None:
    with pytest.raises(BadRequest, match="vocabulary"):
        eng.generate(rendered([200_058]))


def test_something_that_is_no_context_is_refused(eng) -> None:
    with pytest.raises(BadRequest, match="str"):
        eng.generate("a string")


def test_unsupported_fields_are_refused_on_v1_by_name(eng, client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="watermarking"):
        client.chat.completions.create(
            model=eng.info.model, messages=[{"role": "user", "content": "x"}], extra_body={"watermarking": True}
        )
    assert eng.status()["alive"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("allowed_token_ids", list(range(1025))),
        ("logit_bias", {str(token): 1.0 for token in range(1025)}),
        ("stop_token_ids", list(range(129))),
        ("bad_words", [f"{number} is a long word of many tokens " * 20 for number in range(20)]),
    ],
)
def test_what_would_not_fit_the_workers_tables_is_refused_by_name(eng, client: openai.OpenAI, field: str, value) -> None:
    """vLLM itself finds out in the worker, which ends the engine."""
    with pytest.raises(openai.BadRequestError, match=field):
        client.completions.create(model=eng.info.model, prompt=[1, 2, 3], max_tokens=4, extra_body={field: value, "min_tokens": 1})
    client.completions.create(model=eng.info.model, prompt=[1, 2, 3], max_tokens=1)


def test_a_thinking_budget_ends_the_thinking(eng, client: openai.OpenAI) -> None:
    """The prompt is within thinking, so the very first token is the forced end of it."""
    from engine.demo.tokenizer import build_tokenizer
    from engine.protocol import FramingIds

    ids = FramingIds.lookup(build_tokenizer().token_to_id)
    prompt = [ids.message_user, 1, 2, ids.end_message, ids.message_model, ids.content_thinking, 5, 6, 7]
    answer = client.completions.create(
        model=eng.info.model, prompt=prompt, max_tokens=4, temperature=0,
        extra_body={"thinking_token_budget": 2, "return_token_ids": True},
    )  # fmt: skip
    assert answer.choices[0].model_extra["token_ids"][0] == ids.end_message


@pytest.mark.parametrize(
    "path",
    ["/workbench/info", "/workbench/status", "/workbench/blobs/x", "/v1/models", "/v1/chat/completions", "/docs", "/openapi.json",
     "/metrics", "/health", "/tokenize", "/ping", "/nowhere"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_the_token_no_route_says_anything(eng, method: str, path: str) -> None:
    for headers in ({}, {"authorization": "Bearer wrong-wrong-wrong-wrong"}):
        answer = httpx.request(method, eng.url + path, headers=headers)
        assert answer.status_code == 401
        assert "missing or wrong" in answer.json()["error"]["message"]


def test_a_wrong_token_is_its_own_error(eng) -> None:
    import engine

    with pytest.raises(EngineAuthError):
        engine.attach(eng.url, "wrong-wrong-wrong-wrong")


@pytest.mark.parametrize("path", ["/collective_rpc", "/sleep", "/reset_prefix_cache", "/server_info", "/pause"])
def test_development_routes_are_not_there(http: httpx.Client, path: str) -> None:
    assert http.post(path, json={}).status_code in (404, 405)
    assert http.get(path).status_code in (404, 405)


def running(eng) -> int:
    return len(eng.status()["requests"]) + int(eng.status()["running"])


def wait_until_idle(eng) -> None:
    deadline = time.monotonic() + 30
    while running(eng):
        assert time.monotonic() < deadline, eng.status()
        time.sleep(0.05)


# At temperature 2 a trained model goes on without an end, too.


def test_leaving_a_stream_aborts_the_request(eng) -> None:
    for event in eng.stream(asked("Go on for ever."), max_tokens=50_000, temperature=2.0, seed=1):
        if isinstance(event, Text | Reasoning):
            break
    wait_until_idle(eng)


def test_closing_an_asynchronous_stream_aborts_the_request(eng) -> None:
    async def leave() -> None:
        events = eng.astream(asked("Go on for ever."), max_tokens=50_000, temperature=2.0, seed=2)
        async for event in events:
            if isinstance(event, Text | Reasoning):
                break
        await events.aclose()

    asyncio.run(leave())
    wait_until_idle(eng)


def test_a_client_that_disappears_during_the_prompt_aborts_the_request(eng) -> None:
    context = rendered(np.random.default_rng(6).integers(100, 150_000, 200_000))

    async def vanish() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(eng.agenerate(context, max_tokens=1), timeout=2)

    asyncio.run(vanish())
    wait_until_idle(eng)


def test_asynchronous_answers_side_by_side_equal_their_solo_runs(eng) -> None:
    contexts = [asked(f"Question number {number}") for number in range(4)]
    solo = [eng.generate(context, max_tokens=8, temperature=0).token_ids.tolist() for context in contexts]

    async def together():
        return await asyncio.gather(*(eng.agenerate(context, max_tokens=8, temperature=0) for context in contexts))

    assert [reply.token_ids.tolist() for reply in asyncio.run(together())] == solo


def test_the_status_stream_follows(http: httpx.Client) -> None:
    with http.stream("GET", "/workbench/status", headers={"accept": "text/event-stream"}) as response:
        lines = response.iter_lines()
        seen = [next(lines) for _ in range(6)]
    assert seen[0] == seen[3] == "event: Status"


def test_a_context_cleaned_away_is_sent_again(eng) -> None:
    if eng.log is None:
        pytest.skip("the engine was attached by address: its disk is not known")
    contexts = Path(eng.log).parents[2] / "contexts"
    context = asked("Will it be cleaned away?")
    before = eng.generate(context, max_tokens=2, temperature=0)
    # More contexts than the kernel holds in memory, then the files go.
    for number in range(9):
        eng.generate(asked(f"Other {number}"), max_tokens=1, temperature=0)
    for path in contexts.glob("*.iwc"):
        path.unlink()
    assert eng.generate(context, max_tokens=2, temperature=0).token_ids.tolist() == before.token_ids.tolist()


def test_a_malformed_body_is_refused_in_our_form(http: httpx.Client) -> None:
    for body in ({}, {"context": 1}, {"context": "x", "more": 1}, {"context": "sha256:" + "0" * 64, "request_id": "../x"}):
        answer = http.post("/workbench/generate", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad-request")
    with pytest.raises(RequestRefused):
        raise_for(http.get("/workbench/captures/nothing"))


def raise_for(response: httpx.Response) -> None:
    from engine.connection import error_of

    if response.status_code >= 400:
        raise error_of(response)
