"""Chat: the question, the streamed answer, and Stop.

The conversation lives on the desk; what travels to the browser is the text shown. A running answer is repainted at most
``PAINTS_PER_S`` times a second, with the last state always painted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from workbench import samples

from ..desk import Desk
from ..link import Link
from ..showing import messages, problem_html, progress_html, usage_html

ANSWERS_AT_ONCE = 8
"""Answers streamed at the same time by this app; the engine batches them. More wait in the queue."""


@dataclass(frozen=True, slots=True)
class Chat:
    """Components of this section."""

    log: gr.Chatbot
    progress: gr.HTML
    question: gr.Textbox
    send: gr.Button
    stop: gr.Button
    problem: gr.HTML
    usage: gr.HTML


def lay_out() -> Chat:
    """Make the components where the caller's layout context is."""
    gr.HTML("<h2>Ask</h2>", elem_classes="heading")
    log = gr.Chatbot(
        elem_id="log", label="Conversation", show_label=False, height=360, buttons=["copy"], layout="bubble", allow_tags=False,
        feedback_options=None, placeholder="Add files or load the samples, then ask about them.",
    )  # fmt: skip
    progress = gr.HTML(elem_id="progress")
    question = gr.Textbox(
        elem_id="question", label="Question", lines=2, max_lines=8, placeholder=samples.QUESTION,
        info="Enter sends, Shift+Enter starts a new line.",
    )  # fmt: skip
    with gr.Row(elem_classes="buttons"):
        send = gr.Button("Send", variant="primary", elem_id="send", min_width=120)
        stop = gr.Button("Stop", elem_id="stop", min_width=120, interactive=False)
    problem = gr.HTML(elem_id="chat-problem")
    usage = gr.HTML(elem_id="usage")
    return Chat(log, progress, question, send, stop, problem, usage)


def wire(chat: Chat, desk: gr.State, files: gr.File, options: list[Any], link: Link) -> list[Any]:
    """Connect Send and Stop; returns the events that end an exchange, for what follows on it."""
    outputs = [chat.log, chat.progress, chat.usage, chat.problem, chat.question, files, chat.send, chat.stop]

    async def send(desk: Desk, *given: Any) -> AsyncIterator[tuple[Any, ...]]:
        cleared = False
        async for turn in desk.ask(link, *given):
            clears, cleared = turn.accepted and not cleared, turn.accepted
            yield (
                messages(desk.turns, turn),
                progress_html(turn),
                usage_html(turn),
                problem_html(*turn.problems),
                "" if clears else gr.skip(),
                gr.update(value=desk.files or None) if turn.reply is not None else gr.skip(),
                gr.update(interactive=not turn.running),
                gr.update(interactive=turn.running),
            )

    def stop(desk: Desk) -> Any:
        desk.stop()
        return gr.update(interactive=False)

    inputs = [desk, chat.question, *options]
    sending: dict[str, Any] = {
        "show_progress": "hidden", "concurrency_limit": ANSWERS_AT_ONCE, "concurrency_id": "answers", "api_visibility": "private",
    }  # fmt: skip
    events = [event(send, inputs, outputs, **sending) for event in (chat.send.click, chat.question.submit)]
    # Not queued: Stop must not wait behind what it is to stop.
    chat.stop.click(stop, desk, chat.stop, queue=False, show_progress="hidden", api_visibility="private")
    return events
