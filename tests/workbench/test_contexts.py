"""Contexts: effort, tools, turns, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from engine.protocol import EFFORTS, ToolCall
from tests.workbench.test_rendering import reply_of
from workbench import Context
from workbench.errors import EffortError, MessageError
from workbench.tokens import decode, encode


@pytest.mark.parametrize(("name", "number"), EFFORTS.items())
def test_name_and_number_give_the_same_prompt(name: str, number: float) -> None:
    one, two = Context(effort=name), Context(effort=number)
    assert one.render().id == two.render().id
    text = decode(one.render().token_ids)
    assert text.count("Thinking effort level:") == 1


@pytest.mark.parametrize("effort", ["ultra", "HIGH", "", "0.5", 1.0, 1, -0.1, 0.995, True, False, None, float("nan"), [0.5]])
def test_other_efforts_are_refused_and_the_allowed_named(effort) -> None:
    with pytest.raises(EffortError, match=r"none, minimal, low, medium, high, xhigh, max, or a number from 0 to 0\.99"):
        Context(effort=effort)
    context = Context(effort="low")
    with pytest.raises(EffortError):
        context.effort = effort
    assert context.effort == 0.2


def test_numpy_numbers_are_numbers() -> None:
    assert Context(effort=np.float32(0.7)).effort == 0.7
    assert Context(effort=np.int64(0)).effort == 0.0


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        ([{"description": "nameless"}], "no name"),
        (["add"], "mapping"),
        ([{"name": "a"}, {"name": "a"}], "two tools"),
        ([{"name": "a", "parameters": [1]}], "JSON schema object"),
        ([{"name": "a", "parameters": {"x": float("nan")}}], "not JSON"),
    ],
)
def test_bad_tools(tools, says: str) -> None:
    with pytest.raises(MessageError, match=says):
        Context(tools=tools)


def test_tool_declarations_are_copied() -> None:
    parameters = {"type": "object"}
    context = Context(tools=[{"name": "a", "parameters": parameters}])
    before = context.render().id
    parameters["type"] = "changed"
    assert context.render().id == before


def test_replies_and_tool_results_that_cannot_be_written() -> None:
    context = Context()
    broken = ToolCall(name="add", arguments=None, raw="{", problem="cut")
    for refused, says in (
        (lambda: context.add_reply(""), "empty turn"),
        (lambda: context.add_reply("", tool_calls=[broken]), "arguments"),
        (lambda: context.add_reply("", tool_calls=[{"name": "f", "arguments": {"x": float("inf")}}]), "not JSON"),
        (lambda: context.add_reply(reply_of([])), "no tokens"),
        (lambda: context.add_reply(reply_of(encode("x").tolist()), reasoning="y"), "brings its own"),
        (lambda: context.add_tool_result("x", tool=""), "name"),
        (lambda: context.add_text("x", role="model"), "add_reply"),
        (lambda: context.remove(0), "no entry 0"),
        (lambda: context.budget(max_tokens=0), "at least 1"),
    ):
        with pytest.raises(MessageError, match=says):
            refused()
    assert context.entries == ()


def test_copies_share_parts_and_go_their_own_ways() -> None:
    context = Context("s", "low", [{"name": "f"}])
    part = context.add_text("a")
    other = context.copy()
    assert other.render().id == context.render().id
    other.ask("b")
    assert other.parts[0] is part
    assert len(context.parts) == 1
    assert other.remove(-1).name == "question"
    assert other.render().id == context.render().id


def test_a_plain_server_is_never_given_control_spellings() -> None:
    context = Context()
    context.ask("say <|content_text|>")
    from workbench.chat_requests import chat_request

    with pytest.raises(MessageError, match=r"<\|content_text\|>"):
        chat_request(context)
