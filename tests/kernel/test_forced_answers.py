"""Forced tools and formats on the real engine, by our route and by OpenAI's: held to, or an error; never a wish."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import openai
import pytest

from engine.errors import BadRequest, OutputInvalid
from engine.kernel.forced import output_problem
from engine.protocol import EFFORTS, Done, Reasoning, Text, ToolCall
from workbench import Context, Conversation, samples

pytestmark = pytest.mark.engine

CITY = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"], "additionalProperties": False}
TOOLS = [
    {"name": "get_weather", "description": "The weather in a city.", "parameters": CITY},
    {
        "name": "calculate",
        "description": "Work out a sum.",
        "parameters": {"type": "object", "properties": {"of": {"enum": [2, 4]}}},
    },
]
LAMP = {
    "type": "object", "properties": {"colour": {"enum": ["red", "green"]}, "on": {"type": "boolean"}},
    "required": ["colour", "on"], "additionalProperties": False,
}  # fmt: skip
NOISE = {"temperature": 2.0, "max_tokens": 150}
"""A model at this temperature writes anything: what comes out right is the grammar's doing."""


def asked(question: str, *, tools: list[dict[str, Any]] | None = None, effort: str = "none") -> Context:
    context = Context(effort=effort, tools=tools or [])
    context.ask(question)
    return context


@pytest.fixture(scope="module")
def client(eng):
    with openai.OpenAI(base_url=f"{eng.url}/v1", api_key=eng._connection.token, max_retries=0) as client:
        yield client


@pytest.mark.parametrize("seed", range(2))
def test_a_required_call_is_made_with_fitting_arguments(eng, seed: int) -> None:
    reply = eng.generate(asked("Hello.", tools=TOOLS), tool_choice="required", seed=seed, **NOISE)
    assert reply.finish_reason == "stop"
    assert reply.tool_calls
    assert reply.text == ""
    for call in reply.tool_calls:
        assert call.problem is None
        assert call.arguments is not None
        assert call.name == "calculate" or call.arguments["city"] in ("Oslo", "Rome")


@pytest.mark.parametrize("name", ["get_weather", "calculate"])
def test_a_named_tool_is_the_one_that_is_called(eng, name: str) -> None:
    """Whatever was asked: elsewhere another tool was called, five times of five."""
    for question in ("What is 2 + 2?", "Does it rain in Oslo?"):
        reply = eng.generate(asked(question, tools=TOOLS), tool_choice=name, temperature=0, max_tokens=100)
        assert [call.name for call in reply.tool_calls] == [name]


def test_none_and_one_at_most(eng) -> None:
    context = asked("Does it rain in Oslo, and in Rome?", tools=TOOLS)
    assert eng.generate(context, tool_choice="none", seed=1, **NOISE | {"max_tokens": 60}).tool_calls == ()
    one = eng.generate(context, tool_choice="required", parallel_tool_calls=False, seed=1, **NOISE)
    assert len(one.tool_calls) == 1


def test_a_turn_with_calls_goes_on_behind_their_results(eng) -> None:
    """Calls, a result for each, and the next answer: the prefix stays what ran."""
    conversation = Conversation(asked("Does it rain in Oslo?", tools=TOOLS))
    reply = eng.generate(conversation.context(), tool_choice="required", temperature=0, max_tokens=200)
    conversation.add_reply(reply)
    for call in reply.tool_calls:
        conversation.add_tool_result("Rain, 4 degrees.", tool=call.name)
    after = conversation.context()
    assert after.render(eng).token_ids.tolist()[reply.usage.prompt_tokens :][: len(reply.token_ids)] == reply.token_ids.tolist()
    answer = eng.generate(after, tool_choice="none", temperature=0, max_tokens=20)
    assert answer.text
    assert not answer.tool_calls


@pytest.mark.parametrize("effort", ["none", "high"])
@pytest.mark.parametrize("seed", range(2))
def test_json_fits_its_schema_whatever_is_sampled(eng, effort: str, seed: int) -> None:
    options = NOISE if effort == "none" else {"temperature": 0.7, "max_tokens": 200}
    reply = eng.generate(asked("Describe the lamp.", effort=effort), output={"json": LAMP}, seed=seed, **options)
    found = json.loads(reply.text)
    assert found["colour"] in ("red", "green")
    assert isinstance(found["on"], bool)
    assert set(found) == {"colour", "on"}


def thinks() -> Context:
    """A question before which the demo thinks, at this effort (test_demo_answers)."""
    context = Context(effort="high")
    context.add_document(samples.paths()["document"])
    context.ask(samples.QUESTION)
    return context


def test_thinking_comes_first_and_what_was_forced_after_it(eng) -> None:
    for output in ({"json": LAMP}, {"choice": ["yes", "no"]}, {"regex": r"[A-C]\d{2}"}, {"json": LAMP}):
        reply = eng.generate(thinks(), output=output, temperature=0, max_tokens=200)
        assert reply.reasoning.startswith("Asked: ")
        assert output_problem(output, reply.text, ended=True) is None
    with_tools = Context(effort="high", tools=TOOLS)
    with_tools.add_document(samples.paths()["document"])
    with_tools.ask(samples.QUESTION)
    for seed in range(4):
        called = eng.generate(with_tools, tool_choice="get_weather", temperature=1.0, seed=seed, max_tokens=200)
        assert [call.name for call in called.tool_calls] == ["get_weather"]


def test_thinking_takes_half_of_the_answer_at_most(eng) -> None:
    """It is ended, and what was asked for comes; at effort none it does not begin."""
    reply = eng.generate(thinks(), output={"choice": ["yes", "no"]}, temperature=0, max_tokens=12)
    assert reply.reasoning.startswith("Asked")
    assert reply.text in ("yes", "no")
    context = thinks()
    context.effort = "none"
    assert not eng.generate(context, output={"choice": ["yes", "no"]}, temperature=0, max_tokens=12).reasoning


def test_a_pattern_and_a_choice_are_kept_to(eng) -> None:
    for seed in range(3):
        reply = eng.generate(asked("A gate, please."), output={"regex": r"[A-C]\d{2}"}, seed=seed, **NOISE)
        assert re.fullmatch(r"[A-C]\d{2}", reply.text)
        choice = eng.generate(asked("Yes or no?"), output={"choice": ["yes", "no", "<|end_message|>"]}, seed=seed, **NOISE)
        assert choice.text in ("yes", "no", "<|end_message|>")
    assert reply.provenance["sampling"]["output"] == {"regex": r"[A-C]\d{2}"}


def test_an_answer_that_was_cut_is_an_error_that_keeps_its_text(eng) -> None:
    schema = {"type": "array", "items": {"const": "harbour"}, "minItems": 40}
    with pytest.raises(OutputInvalid, match=r"no JSON.*cut at max_tokens") as caught:
        eng.generate(asked("List."), output={"json": schema}, temperature=0, max_tokens=20)
    assert caught.value.detail["text"].lstrip().startswith("[")
    events = []
    with pytest.raises(OutputInvalid, match=r"no tool was called|cannot be used"):
        events += eng.stream(asked("Hello.", tools=TOOLS), tool_choice="calculate", temperature=0, max_tokens=3)
    assert not any(isinstance(event, Done) for event in events)


def test_what_cannot_be_forced_is_refused_before_anything_runs(eng) -> None:
    for options, says in (
        ({"tool_choice": "required"}, "declares no tools"),
        ({"tool_choice": "get_whether"}, "declares no tools"),
        ({"output": {"json": {"type": "integer", "multipleOf": 2}}}, "cannot enforce"),
        ({"output": {"regex": "(("}}, "cannot be enforced"),
        ({"output": {"xml": "x"}}, "json, regex, choice"),
        ({"output": {"choice": []}}, "1 to 1,000"),
        ({"tool_choice": ""}, "tool_choice"),
    ):
        with pytest.raises(BadRequest, match=says):
            eng.generate(asked("Hello."), **options)


def test_a_free_answer_may_call_only_what_is_declared(eng) -> None:
    context = Context(effort="none")
    context.ask("Which tools are there?")
    calls = [event for event in eng.stream(context, max_tokens=40, temperature=0) if isinstance(event, ToolCall)]
    assert all(call.arguments is None and "declared" in (call.problem or "") for call in calls)


# ---- OpenAI's routes -------------------------------------------------------------------------------------------------------------

OPENAI_TOOLS: Any = [{"type": "function", "function": tool} for tool in TOOLS]
QUESTION: Any = [{"role": "user", "content": "What is 2 + 2?"}]


@pytest.mark.parametrize("effort", ["none", "high"])
@pytest.mark.parametrize("name", ["get_weather", "calculate"])
def test_v1_calls_the_named_tool_whole_and_streamed(eng, client: openai.OpenAI, name: str, effort: str) -> None:
    options: dict[str, Any] = {
        "model": eng.info.model, "messages": QUESTION, "tools": OPENAI_TOOLS, "max_tokens": 200, "temperature": 0,
        "tool_choice": {"type": "function", "function": {"name": name}}, "reasoning_effort": effort,
    }  # fmt: skip
    whole = client.chat.completions.create(**options).choices[0]
    calls = whole.message.tool_calls or []
    assert [call.function.name for call in calls] == [name]  # type: ignore[union-attr]
    assert whole.finish_reason == "stop", "OpenAI's word for a call of a named tool"
    names, arguments = "", ""
    for chunk in client.chat.completions.create(**options, stream=True):
        for piece in chunk.choices[0].delta.tool_calls or ():
            assert piece.function is not None
            names, arguments = names + (piece.function.name or ""), arguments + (piece.function.arguments or "")
    assert names == name
    assert json.loads(arguments) == json.loads(calls[0].function.arguments)  # type: ignore[union-attr]


def test_v1_makes_a_required_call(eng, client: openai.OpenAI) -> None:
    for seed in range(2):
        answer = client.chat.completions.create(
            model=eng.info.model, messages=QUESTION, tools=OPENAI_TOOLS, tool_choice="required", seed=seed,
            reasoning_effort="none", **NOISE,
        )  # fmt: skip
        calls = answer.choices[0].message.tool_calls
        assert calls
        assert {call.function.name for call in calls} <= {"get_weather", "calculate"}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("more", "fits"),
    [
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "lamp", "schema": LAMP}}},
            lambda text: set(json.loads(text)) == {"colour", "on"},
        ),
        ({"extra_body": {"structured_outputs": {"choice": ["yes", "no"]}}}, lambda text: text in ("yes", "no")),
        ({"extra_body": {"structured_outputs": {"regex": r"[A-C]\d{2}"}}}, lambda text: re.fullmatch(r"[A-C]\d{2}", text)),
    ],
)
def test_v1_keeps_to_a_format(eng, client: openai.OpenAI, more: dict[str, Any], fits: Any) -> None:
    for seed in range(2):
        answer = client.chat.completions.create(
            model=eng.info.model, messages=QUESTION, seed=seed, reasoning_effort="none", **NOISE, **more
        )
        assert answer.choices[0].finish_reason == "stop"
        assert fits(answer.choices[0].message.content)


def test_v1_thinks_first_and_keeps_to_what_was_forced(eng, client: openai.OpenAI) -> None:
    """Every kind of constraint at every kind of effort, again and again: one engine, one compiler of grammars."""
    kinds: list[dict[str, Any]] = [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "lamp", "schema": LAMP}}},
        {"tools": OPENAI_TOOLS, "tool_choice": "required"},
        {"tools": OPENAI_TOOLS, "tool_choice": "none"},
        {"extra_body": {"structured_outputs": {"choice": ["yes", "no"]}}},
        {"tools": OPENAI_TOOLS, "tool_choice": {"type": "function", "function": {"name": "calculate"}}},
    ]
    for effort in ("high", "none", "high"):
        for more in kinds:
            answer = client.chat.completions.create(
                model=eng.info.model, messages=QUESTION, temperature=0, max_tokens=160, reasoning_effort=effort, **more
            )  # type: ignore[call-overload]
            message = answer.choices[0].message
            wants_call = more.get("tool_choice", "none") != "none"
            assert bool(message.tool_calls) == wants_call, (effort, more, answer)
            if "extra_body" in more:
                assert message.content in ("yes", "no")


def test_responses_keep_to_a_tool_and_a_format(eng, client: openai.OpenAI) -> None:
    common: dict[str, Any] = {"model": eng.info.model, "input": "What is 2 + 2?", "temperature": 0, "max_output_tokens": 300}
    tools = [{"type": "function", "strict": False, **tool} for tool in TOOLS]
    called = client.responses.create(**common, tools=tools, tool_choice={"type": "function", "name": "get_weather"})  # type: ignore[call-overload]
    assert [item.name for item in called.output if item.type == "function_call"] == ["get_weather"]
    text = client.responses.create(**common, text={"format": {"type": "json_schema", "name": "lamp", "schema": LAMP}})
    assert set(json.loads(text.output_text)) == {"colour", "on"}


def test_completions_keep_to_a_format_from_their_first_token(eng, client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model=eng.info.model, prompt="A gate: ", seed=1, **NOISE, extra_body={"structured_outputs": {"regex": r"[A-C]\d{2}"}}
    )
    assert re.fullmatch(r"[A-C]\d{2}", answer.choices[0].text)


def test_v1_refuses_what_cannot_be_held(eng, client: openai.OpenAI) -> None:
    bad = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "integer", "multipleOf": 2}}}
    with pytest.raises(openai.BadRequestError, match="cannot enforce"):
        client.chat.completions.create(model=eng.info.model, messages=QUESTION, response_format=bad)  # type: ignore[call-overload]
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model=eng.info.model, messages=QUESTION, tool_choice="required")  # type: ignore[call-overload]


def test_efforts_by_name_and_by_number_give_one_prompt(eng) -> None:
    """And it is ours: the same ids that a context of that effort renders to."""
    headers = {"authorization": f"Bearer {eng._connection.token}"}

    def prompt(**body: Any) -> list[int]:
        answer = httpx.post(
            f"{eng.url}/v1/chat/completions/render", headers=headers, timeout=60,
            json={"model": eng.info.model, "messages": QUESTION, **body},
        )  # fmt: skip
        assert answer.status_code == 200, answer.text
        values = answer.json()
        return (values[0] if isinstance(values, list) else values)["token_ids"]

    for name, number in EFFORTS.items():
        ours = asked("What is 2 + 2?", effort=name).render(eng).token_ids.tolist()
        assert prompt(reasoning_effort=name) == prompt(reasoning_effort=number) == ours
        assert prompt(chat_template_kwargs={"reasoning_effort": name}) == ours
    assert prompt() == asked("What is 2 + 2?", effort="high").render(eng).token_ids.tolist()


def test_a_stream_says_what_the_whole_says_without_markers(eng, client: openai.OpenAI) -> None:
    """Effort none, one short answer: elsewhere the end marker was shown."""
    reply = eng.generate(asked("say ok"), max_tokens=12, temperature=0)
    options: dict[str, Any] = {
        "model": eng.info.model, "messages": [{"role": "user", "content": "say ok"}], "max_tokens": 12, "temperature": 0,
        "reasoning_effort": "none",
    }  # fmt: skip
    whole = client.chat.completions.create(**options).choices[0].message
    pieces = [chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(**options, stream=True)]
    assert whole.content == "".join(pieces) == reply.text
    assert "<|" not in reply.text
    events = list(eng.stream(asked("say ok"), max_tokens=12, temperature=0))
    assert "".join(event.text for event in events if isinstance(event, Text)) == reply.text
    assert not [event for event in events if isinstance(event, Reasoning)] or reply.reasoning
