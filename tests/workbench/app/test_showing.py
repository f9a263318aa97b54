"""What the page shows of an answer: all of it, and nothing that acts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.protocol import Reply, Timings, Usage
from workbench.app.desk import Turn
from workbench.app.showing import markdown, messages, problem_html


def reply(text: str) -> Reply:
    return Reply(
        text=text,
        reasoning="",
        tool_calls=(),
        token_ids=np.arange(1, dtype=np.uint32),
        finish_reason="stop",
        context="c",
        usage=Usage(prompt_tokens=1, cached_tokens=0, completion_tokens=1),
        timings=Timings(first_token_s=0, total_s=0),
        request_id="r",
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a <think>b</think>", "a &lt;think>b&lt;/think>"),
        ("1 < 2, <|end_message|>", "1 < 2, <|end_message|>"),
        ("`<b>` and <b>", "`<b>` and &lt;b>"),
        ("```\n<b>\n``` <b>", "```\n<b>\n``` &lt;b>"),
        ("``a ` <b>`` <b>", "``a ` <b>`` &lt;b>"),
        ("`lonely <b>", "`lonely &lt;b>"),
        ("![x](http://evil.test/x.png)", "\\!\\[x](http://evil.test/x.png)"),
    ],
)
def test_tags_and_pictures_of_an_answer_stay_text(text: str, shown: str) -> None:
    assert markdown(text) == shown


@given(st.text(alphabet="ab<>/!`~[]()\n |"))
def test_no_letter_of_an_answer_is_lost(text: str) -> None:
    assert markdown(text).replace("&lt;", "<").replace("\\!\\[", "![") == text


def test_a_conversation_is_questions_folded_thoughts_and_answers() -> None:
    turn = Turn(question="what *is* <b>?", files=("a_b.pdf",), text="yes", reasoning="hm", accepted=True, reply=reply("yes"))
    shown = messages([turn])
    assert [item["role"] for item in shown] == ["user", "assistant", "assistant"]
    assert shown[0]["content"].startswith("what \\*is\\* \\<b\\>?")
    assert shown[1]["metadata"] == {"title": "Thinking", "status": "done"}
    assert shown[2]["content"] == "yes"


def test_a_refused_question_is_not_shown_as_asked_and_a_stopped_one_says_so() -> None:
    refused = Turn(question="q", problems=("no",))
    stopped = Turn(question="q", text="half", accepted=True, stopped=True)
    assert messages([], refused) == []
    assert messages([stopped])[-1]["content"] == "*Stopped: not part of the conversation.*"


def test_problems_are_escaped_and_announced() -> None:
    assert problem_html("<script>") == '<div class="problem" role="alert"><p>&lt;script&gt;</p></div>'
