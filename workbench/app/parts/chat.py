"""Chat: the notebook's own chat module over the desk's conversation.

Questions, branches, stopping and prices are :class:`workbench.chat_sessions.ChatSession`'s; this section only carries its state to
the page. What travels is what was said, never the context. A running answer is repainted at most ``PAINTS_PER_S`` times a second,
with the last state always painted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from engine.errors import InklingError

from ..desk import ASKS, Desk
from ..hosted import Blobs, Hosted
from ..link import Link
from ..showing import problem_html

ANSWERS_AT_ONCE = 8
"""Answers streamed at the same time by this app; the engine batches them. More wait in the queue."""

PAINTS_PER_S = 20.0
LOOK_S = 5.0
"""A page looks again after so long, whatever it was told."""

SLIM = "(value) => value && ({ traits: { settings: value.traits.settings, chosen: value.traits.chosen } })"
"""What the page says of itself: its fields, and not what was said back to where it came from."""


@dataclass(frozen=True, slots=True)
class Chat:
    """Components of this section."""

    hosted: Hosted
    tools: gr.Accordion
    tool: gr.Textbox
    result: gr.Textbox
    give: gr.Button
    problem: gr.HTML


def lay_out(blobs: Blobs, link: Link, *, prefix: str) -> Chat:
    """Make the components where the caller's layout context is."""

    def answer(desk: Desk, content: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        return desk.answer(link, content)

    hosted = Hosted("chat", answer=answer, blobs=blobs, prefix=prefix, elem_id="chat", follows=(*ASKS, "stop", "branch"))
    with gr.Accordion("Answer a tool call", open=False, elem_id="tool-result") as tools:
        with gr.Row():
            tool = gr.Textbox(label="Tool", elem_id="tool-name", min_width=120, scale=1)
            result = gr.Textbox(label="What it returned", elem_id="tool-text", min_width=200, scale=3)
        give = gr.Button("Give the result", elem_id="give", size="sm", min_width=120)
        problem = gr.HTML(elem_id="chat-problem")
    return Chat(hosted, tools, tool, result, give, problem)


def show(chat: Chat, desk: Desk, link: Link, *, whole: bool = True) -> dict[str, Any]:
    """The chat's value for what is on the desk; without `whole` what changes while an answer comes: the page keeps the rest."""
    session = desk.chat(link.known)
    traits = session.state() if whole else {"live": dict(session.live), "problem": dict(session.problem)}
    traits |= {"settings": dict(session.settings), "chosen": desk.chosen}
    return chat.hosted.show(desk, traits, key=desk.key)


def wire(chat: Chat, desk_of: Callable[[gr.Request], Desk], link: Link, opened: Any) -> tuple[list[Any], Any]:
    """Connect the module.

    Parameters
    ----------
    opened : event
        The page shows the desk: an answer that is running there is followed from then on.

    Returns
    -------
    list of events, event
        Those that end an answer, and the one that says what the page's fields hold.
    """

    async def follow(request: gr.Request) -> AsyncIterator[dict[str, Any]]:
        desk = desk_of(request)
        session = desk.chat(link.known)
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        forget = session.listen(lambda: loop.call_soon_threadsafe(changed.set))
        shown = None
        try:
            while True:
                changed.clear()
                busy, painted = session.busy, time.monotonic()
                # What was said before does not travel again with every word: a long conversation would slow the page.
                before, shown = shown, (len(session.conversation.turns), session.conversation.leaf.id)
                yield show(chat, desk, link, whole=not busy or shown != before)
                if not busy:
                    break
                try:
                    async with asyncio.timeout(LOOK_S):
                        await changed.wait()
                except TimeoutError:
                    continue
                await asyncio.sleep(max(0.0, painted + 1 / PAINTS_PER_S - time.monotonic()))
        finally:
            forget()
        if session.problem:
            link.lost()

    def said(request: gr.Request, value: dict[str, Any] | None) -> None:
        traits = (value or {}).get("traits", {})
        desk = desk_of(request)
        desk.use(traits.get("settings") or {})
        desk.chosen = str(traits.get("chosen") or "")
        desk.keep_soon()

    def give(request: gr.Request, tool: str, text: str) -> tuple[str, str]:
        desk = desk_of(request)
        try:
            desk.chat(link.engine()).give_result(text, tool=tool.strip())
        except InklingError as problem:
            return problem_html(problem.message), text
        return "", ""

    def called(request: gr.Request) -> tuple[Any, Any]:
        reply = desk_of(request).conversation.leaf.reply
        if reply is None or not reply.tool_calls:
            return gr.skip(), gr.skip()
        return gr.update(open=True), reply.tool_calls[0].name

    following: dict[str, Any] = {
        "show_progress": "hidden", "concurrency_limit": ANSWERS_AT_ONCE, "concurrency_id": "answers", "api_visibility": "private",
    }  # fmt: skip
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    component = chat.hosted.component
    given = chat.give.click(give, [chat.tool, chat.result], [chat.problem, chat.result], **quiet)
    ended = [component.submit(follow, None, component, trigger_mode="always_last", **following)]
    ended += [event.then(follow, None, component, **following) for event in (given, opened)]
    for event in ended:
        event.then(called, None, [chat.tools, chat.tool], **quiet)
    fields = component.input(said, component, None, js=SLIM, queue=False, trigger_mode="always_last", **quiet)
    return ended, fields
