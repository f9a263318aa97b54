"""Engine: which engine answers, what it can take, and what a reader must know about it."""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr

from ..link import Link
from ..showing import engine_html

LOOK_EVERY_S = 5.0
"""How often an open page asks whether the engine is still there."""


@dataclass(frozen=True, slots=True)
class EngineStrip:
    """Components of this section."""

    strip: gr.HTML
    timer: gr.Timer


def lay_out() -> EngineStrip:
    """Make the components where the caller's layout context is."""
    return EngineStrip(gr.HTML(elem_id="engine"), gr.Timer(LOOK_EVERY_S))


def wire(engine: EngineStrip, page: gr.Blocks, link: Link) -> None:
    """Show the engine when the page opens, and keep looking."""

    async def look() -> str:
        return engine_html(await link.look())

    for event in (page.load, engine.timer.tick):
        event(look, None, engine.strip, show_progress="hidden", concurrency_limit=None, queue=False, api_visibility="private")
