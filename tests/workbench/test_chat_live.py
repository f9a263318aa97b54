"""The answer under way as a page shows it: phases in order, words kept, the time left, what stays when it ends early."""

from __future__ import annotations

import pytest

from engine.protocol import PrefillProgress, Reasoning, Text
from workbench import chat_live
from workbench.chat_live import LiveAnswer


def test_phases_and_words_in_the_order_of_the_events() -> None:
    live = LiveAnswer()
    assert live.state["phase"] == "waiting"
    assert live.take(PrefillProgress(done_tokens=0, total_tokens=100, waiting=True)) is None
    assert (live.state["phase"], live.state["left_s"]) == ("waiting", None)
    live.take(PrefillProgress(done_tokens=20, total_tokens=100, waiting=False))
    assert (live.state["phase"], live.state["done_tokens"], live.state["total_tokens"]) == ("reading", 20, 100)
    live.take(Reasoning(text="Let me "))
    live.take(Reasoning(text="see."))
    assert (live.state["phase"], live.state["reasoning"]) == ("thinking", "Let me see.")
    live.take(Text(text="It is "))
    live.take(Text(text="Ana."))
    assert (live.state["phase"], live.state["text"], live.state["reasoning"]) == ("writing", "It is Ana.", "Let me see.")


def test_the_time_left_goes_by_what_was_read_since_reading_began(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([10.0, 10.0, 14.0])
    monkeypatch.setattr(chat_live.time, "monotonic", lambda: next(now))
    live = LiveAnswer()
    # 512 tokens were in the cache: they say nothing about the speed.
    live.take(PrefillProgress(done_tokens=512, total_tokens=1_512, waiting=False))
    assert live.state["left_s"] is None
    live.take(PrefillProgress(done_tokens=912, total_tokens=1_512, waiting=False))
    assert live.state["left_s"] == 6.0


@pytest.mark.parametrize("broken", [False, True])
def test_what_had_come_is_a_turn_that_is_none(broken: bool) -> None:
    live = LiveAnswer()
    live.take(Reasoning(text="Well."))
    live.take(Text(text="It is"))
    left = live.left(broken=broken)
    assert (left["role"], left["text"], left["reasoning"], left["broken"]) == ("stopped", "It is", "Well.", broken)
