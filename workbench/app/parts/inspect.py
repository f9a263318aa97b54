"""Inspect: what routing did in the last exchange, shown by the notebook's own module.

A capture runs the exchange once more through the engine. Short ones are captured by themselves after the answer; for long ones
the section says what it would cost and waits for the button.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import gradio as gr

from engine.errors import InklingError
from workbench.routing_views import answer, traits

from ..desk import Desk
from ..hosted import Blobs, Hosted
from ..link import Link
from ..showing import note_html, problem_html

AUTOMATIC_TOKENS = 4_096
"""Exchanges up to this length are captured without asking: seconds on a CPU."""


CORRELATION = "It shows where tokens went, not why the answer came out as it did."
NOTHING = note_html("After an answer, the experts that each token of the exchange was sent to appear here.")


@dataclass(frozen=True, slots=True)
class Inspect:
    """Components of this section."""

    capture: gr.Button
    note: gr.HTML
    map: Hosted


def lay_out(blobs: Blobs, *, prefix: str) -> Inspect:
    """Make the components where the caller's layout context is."""
    gr.HTML("<h2>Look inside</h2>", elem_classes="heading")
    note = gr.HTML(NOTHING, elem_id="map-note")
    capture = gr.Button(
        "Capture the last exchange", elem_id="capture", size="sm", min_width=120, interactive=False, visible="hidden"
    )
    routing = Hosted("routing_map", answer=answer, blobs=blobs, prefix=prefix, elem_id="routing-map")
    return Inspect(capture, note, routing)


def wire(inspect: Inspect, desk: gr.State, after: list[Any], link: Link) -> None:
    """Connect the capture to the end of an exchange and to the button."""
    outputs = [inspect.map.component, inspect.note, inspect.capture]

    async def capture(desk: Desk) -> tuple[Any, ...]:
        try:
            found = await desk.capture(link)
            # The first look walks the whole capture: not in the event loop.
            shown = inspect.map.show(found, await asyncio.to_thread(traits, found))
        except InklingError as problem:
            return gr.skip(), problem_html(problem.message), gr.update(visible=True, interactive=True)
        note = f"Routing of the last exchange: {len(found):,} tokens, {found.routing.sizes['l']} layers. {CORRELATION}"
        return shown, note_html(note), gr.update(visible="hidden")

    async def follow(desk: Desk) -> tuple[Any, ...]:
        cost = await desk.capture_tokens(link)
        if cost is None:
            return gr.skip(), gr.skip(), gr.skip()
        if cost > AUTOMATIC_TOKENS:
            words = f"Capturing the last exchange computes its {cost:,} tokens again."
            return gr.skip(), note_html(words), gr.update(visible=True, interactive=True)
        return await capture(desk)

    # The engine runs one capture at a time; here two may wait for it before the queue shows its place.
    common: dict[str, Any] = {"concurrency_limit": 2, "concurrency_id": "captures", "api_visibility": "private",
                              "show_progress": "minimal", "show_progress_on": inspect.note}  # fmt: skip
    for event in after:
        event.then(follow, desk, outputs, **common)
    inspect.capture.click(capture, desk, outputs, **common)
