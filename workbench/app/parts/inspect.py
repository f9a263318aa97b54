"""Inspect: what went on inside for an answer, shown by the notebook's own modules.

A capture runs the conversation up to an answer once more through the engine. Which answer is chosen in the chat; the last one by
default. Routing of short ones is captured by itself after the answer; for long ones, and for the other seams, the section says what
it would cost and waits for the button.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.errors import InklingError
from engine.protocol import AttentionPlan, CapturePlan, Reply
from workbench import attention_views, routing_views, sconv_views

from ..desk import Desk
from ..hosted import Answer, Blobs, Hosted
from ..link import Link
from ..showing import note_html, problem_html

if TYPE_CHECKING:
    from engine import Engine
    from workbench import Capture

ROWS = 64
"""Attention rows recorded of an answer, from its beginning."""

AUTOMATIC_TOKENS = 4_096
"""Exchanges up to this length are captured without asking: seconds on a CPU."""

CORRELATION = "It shows where tokens went, not why the answer came out as it did."
NOTHING = note_html("After an answer, what went on inside appears here.")


@dataclass(frozen=True, slots=True)
class View:
    """One seam, what to record of it for an answer, and the widget that shows it.

    Attributes
    ----------
    plan : callable
        Takes the reply.
    subject : callable
        Takes the capture, the engine and the reply: what the widget's module shows and asks about.
    """

    seam: str
    label: str
    widget: str
    plan: Callable[[Reply], Any]
    subject: Callable[[Capture, Engine, Reply], Any]
    answer: Answer
    traits: Callable[[Any], dict[str, Any]]


def _rows(reply: Reply) -> AttentionPlan:
    """The rows of the answer's first tokens: each is a query of its own."""
    start = reply.usage.prompt_tokens
    return AttentionPlan(queries=tuple(range(start, start + min(len(reply.token_ids), ROWS))), layers="all", profiles=True)


VIEWS = (
    View(
        "routing", "Expert routing", "routing_map",
        lambda _: True, lambda capture, *_: capture, routing_views.answer, routing_views.traits,
    ),
    View(
        "sconv", "Short convolutions", "sconv_view",
        lambda _: True, sconv_views.SconvSubject.of, sconv_views.answer, sconv_views.traits,
    ),
    View(
        "attention", "Attention of the answer", "attention_view",
        _rows, attention_views.AttentionSubject.of, attention_views.answer, attention_views.traits,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Inspect:
    """Components of this section."""

    seams: gr.CheckboxGroup
    capture: gr.Button
    note: gr.HTML
    maps: dict[str, Hosted]

    @property
    def shown(self) -> list[Any]:
        """What a capture changes."""
        return [self.note, *(hosted.component for hosted in self.maps.values())]


def lay_out(blobs: Blobs, *, prefix: str) -> Inspect:
    """Make the components where the caller's layout context is."""
    note = gr.HTML(NOTHING, elem_id="map-note")
    with gr.Row(elem_classes="options"):
        seams = gr.CheckboxGroup(
            [(view.label, view.seam) for view in VIEWS], value=["routing"], label="Record", elem_id="seams", min_width=240,
        )  # fmt: skip
        capture = gr.Button("Capture the answer", elem_id="capture", size="sm", min_width=160)
    maps = {
        view.seam: Hosted(view.widget, answer=view.answer, blobs=blobs, prefix=prefix, elem_id=view.widget.replace("_", "-"))
        for view in VIEWS
    }
    return Inspect(seams, capture, note, maps)


def wire(inspect: Inspect, desk_of: Callable[[gr.Request], Desk], after: list[Any], link: Link) -> None:
    """Connect the capture to the end of an answer and to the button."""

    async def capture(request: gr.Request, seams: list[str]) -> tuple[Any, ...]:
        desk = desk_of(request)
        nothing = [gr.skip()] * len(VIEWS)
        chosen = [view for view in VIEWS if view.seam in seams]
        if not chosen:
            return problem_html("Choose what to record."), *nothing
        try:
            reply = desk.reply_of(desk.chosen)
            found = await desk.capture(link, CapturePlan(**{view.seam: view.plan(reply) for view in chosen}), desk.chosen)
            subjects = {view.seam: view.subject(found, link.known, reply) for view in chosen}
            # The first look walks the whole capture: not in the event loop.
            values = [
                inspect.maps[view.seam].show(subjects[view.seam], await asyncio.to_thread(view.traits, subjects[view.seam]))
                if view in chosen
                else None
                for view in VIEWS
            ]
        except InklingError as problem:
            return problem_html(problem.message), *nothing
        named = ", ".join(view.label.lower() for view in chosen)
        return note_html(f"Recorded: {named} of {len(found):,} tokens. {CORRELATION}"), *values

    async def follow(request: gr.Request, seams: list[str]) -> tuple[Any, ...]:
        desk = desk_of(request)
        nothing = [gr.skip()] * len(VIEWS)
        context = desk.context_of(desk.chosen)
        if context is None or desk.busy:
            return gr.skip(), *nothing
        cost = len(await asyncio.to_thread(context.render, link.known))
        if cost > AUTOMATIC_TOKENS:
            return note_html(f"Capturing this answer computes its {cost:,} tokens again: press the button."), *nothing
        return await capture(request, [VIEWS[0].seam])

    # The engine runs one capture at a time; here two may wait for it before the queue shows its place.
    common: dict[str, Any] = {"concurrency_limit": 2, "concurrency_id": "captures", "api_visibility": "private",
                              "show_progress": "minimal", "show_progress_on": inspect.note}  # fmt: skip
    for event in after:
        event.then(follow, inspect.seams, inspect.shown, **common)
    inspect.capture.click(capture, inspect.seams, inspect.shown, **common)
