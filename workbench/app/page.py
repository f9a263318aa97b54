"""The page: a line about the engine, and four tabs of one section each; the sections do not know where they stand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr
from gradio import themes

from engine.errors import InklingError

from .desk import Desk
from .hosted import Blobs
from .link import Link
from .parts import chat, compose, engine, inspect
from .showing import problem_html

TITLE = "Inkling Workbench"
MAX_FILE_SIZE = "256mb"
"""Per uploaded file. A 20-minute recording at 48 kHz in stereo is 230 MB."""

UPLOADS_KEPT_S = 6 * 3600
"""Uploaded files older than this are deleted; what was read from them stays with the conversation."""

QUEUE_SIZE = 64
"""Events that may wait; beyond it a page says that the app is busy."""

CONCURRENCY = 4
"""Events of one kind that run at once, where a section does not say otherwise."""


def build(link: Link, blobs: Blobs, desk_of: Callable[[gr.Request], Desk], *, prefix: str = "") -> gr.Blocks:
    """Lay out and connect the page for the engine behind `link`.

    Parameters
    ----------
    blobs : Blobs
        Keeps the bytes behind its pictures.
    desk_of : callable
        The desk of the browser that a request comes from.
    """
    with gr.Blocks(title=TITLE, analytics_enabled=False, delete_cache=(600, UPLOADS_KEPT_S)) as page:
        gr.HTML(
            f"<h1>{TITLE}</h1><p class='lead'>Compose a context from documents, images and recordings, ask Inkling about it, "
            "and look inside.</p>",
        )
        strip = engine.lay_out_strip()
        with gr.Tabs(elem_id="tabs"):
            with gr.Tab("Compose", id="compose", elem_id="tab-compose"):
                composing = compose.lay_out(prefix=prefix)
            with gr.Tab("Chat", id="chat", elem_id="tab-chat", render_children=True):
                chatting = chat.lay_out(blobs, link, prefix=prefix)
            with gr.Tab("Inspect", id="inspect", elem_id="tab-inspect", render_children=True):
                inspecting = inspect.lay_out(blobs, prefix=prefix)
            with gr.Tab("Engine", id="engine", elem_id="tab-engine", render_children=True):
                running = engine.lay_out(strip, blobs, link, prefix=prefix)

        look_after = engine.wire(running, page, link)
        composed = compose.wire(composing, desk_of, link)
        everything = [chatting.hosted.component, *composing.shown, composing.problem, *composing.before, *inspecting.shown]
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}

        def whole(request: gr.Request) -> tuple[Any, ...]:
            """Everything a page shows of the desk: when it opens, and when the desk was changed as a whole."""
            desk = desk_of(request)
            problems, desk.losses = [f"Lost from the last time: {loss}" for loss in desk.losses], ()
            looked = (inspect.NOTHING, *(None for _ in inspecting.maps))
            shown = (*compose.show(desk, link), problem_html(*problems), *compose.show_before(desk))
            return (chat.show(chatting, desk, link), *shown, *looked)

        def recounted(request: gr.Request) -> tuple[Any, ...]:
            return compose.show(desk_of(request), link)

        def start_over(request: gr.Request) -> tuple[Any, ...]:
            desk = desk_of(request)
            desk.clear()
            desk.keep()
            return whole(request)

        def open_run(request: gr.Request, path: str) -> tuple[Any, ...]:
            desk = desk_of(request)
            try:
                desk.open(path)
            except InklingError as problem:
                said = problem_html(problem.message)
                rest = (*composing.before, *inspecting.shown)
                return (gr.skip(), *(gr.skip() for _ in composing.shown), said, *(gr.skip() for _ in rest))
            desk.keep()
            return whole(request)

        def still_waiting(request: gr.Request) -> Any:
            return compose.show_waiting(desk_of(request))

        opened = page.load(whole, None, everything, **quiet)
        # What was sent waits no longer, long before its answer ends. First: the page awaits one listener before the next.
        chatting.hosted.component.submit(still_waiting, None, composing.waiting, queue=False, **quiet)
        ended, fields = chat.wire(chatting, desk_of, link, opened)

        def attached(request: gr.Request) -> Any:
            return chat.show(chatting, desk_of(request), link)

        for event in composed:
            event.then(attached, None, chatting.hosted.component, **quiet)
        for event in (*ended, fields):
            event.then(recounted, None, composing.shown, **quiet)
        for event in ended:
            look_after(event.then)  # an answer that broke off: the engine may be gone
        inspect.wire(inspecting, desk_of, ended, link)
        composing.clear.click(start_over, None, everything, **quiet)
        composing.open.upload(open_run, composing.open, everything, **quiet)
    page.queue(api_open=False, max_size=QUEUE_SIZE, default_concurrency_limit=CONCURRENCY)
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
