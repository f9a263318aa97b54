"""The page: its parts in one layout. Grows into tabs by placing each part in one; the parts do not know where they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr
from gradio import themes

from .desk import Desk
from .hosted import Blobs
from .link import Link
from .parts import chat, compose, engine, inspect

TITLE = "Inkling Workbench"
MAX_FILE_SIZE = "256mb"
"""Per uploaded file. A 20-minute recording at 48 kHz in stereo is 230 MB."""

UPLOADS_KEPT_S = 6 * 3600
"""Uploaded files older than this are deleted; what was read from them stays with the conversation."""

QUEUE_SIZE = 64
"""Events that may wait; beyond it a page says that the app is busy."""


def build(link: Link, blobs: Blobs, *, prefix: str = "") -> gr.Blocks:
    """Lay out and connect the page for the engine behind `link`; `blobs` keeps the bytes behind its pictures."""
    with gr.Blocks(title=TITLE, analytics_enabled=False, delete_cache=(600, UPLOADS_KEPT_S)) as page:
        desk = gr.State(Desk(), delete_callback=Desk.stop)
        gr.HTML(
            f"<h1>{TITLE}</h1><p class='lead'>Compose a context from documents, images and recordings, ask Inkling about it, "
            "and see which experts each token went to.</p>",
        )
        strip = engine.lay_out()
        with gr.Row(elem_id="columns"):
            with gr.Column(elem_id="compose-column"):
                composing = compose.lay_out()
            with gr.Column(elem_id="chat-column"):
                chatting = chat.lay_out()
        inspecting = inspect.lay_out(blobs, prefix=prefix)

        engine.wire(strip, page, link)
        recount = compose.wire(composing, desk, page, chatting.question, link)
        ended = chat.wire(chatting, desk, composing.files, composing.options, link)
        for event in ended:
            recount(event.then)
        inspect.wire(inspecting, desk, ended, link)

        def start_over(old: Desk) -> tuple[Any, ...]:
            old.stop()
            return Desk(), None, None, "", "", "", "", inspect.NOTHING, None

        cleared = [
            desk, composing.files, chatting.log, composing.budget, composing.problem, chatting.problem, chatting.usage,
            inspecting.note, inspecting.map.component,
        ]  # fmt: skip
        for event in (composing.clear.click, chatting.log.clear):
            recount(event(start_over, desk, cleared, show_progress="hidden", api_visibility="private").then)
    page.queue(api_open=False, max_size=QUEUE_SIZE, default_concurrency_limit=4)
    return page


def style() -> str:
    """The page's own style sheet."""
    return Path(__file__).with_name("style.css").read_text(encoding="utf-8")


def theme() -> themes.Base:
    """Blue on slate, and the reader's own fonts: nothing is fetched for it."""
    fonts = ("system-ui", "Liberation Sans", "sans-serif")
    mono = ("ui-monospace", "Liberation Mono", "monospace")
    base = themes.Default(primary_hue="blue", secondary_hue="blue", neutral_hue="slate", font=fonts, font_mono=mono)
    # The default greys and blue are below 4.5 : 1 on their ground.
    return base.set(
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
        block_label_text_color="*neutral_600",
        block_label_text_color_dark="*neutral_300",
        block_title_text_color="*neutral_800",
        input_placeholder_color="*neutral_500",
        input_placeholder_color_dark="*neutral_400",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
    )
